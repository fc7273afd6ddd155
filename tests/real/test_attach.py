# SPDX-License-Identifier: Apache-2.0
"""When the tracing begins: in the middle of training and again, before the import, with the command."""
import os

import equal
from harness import HERE


def of_event(row, got, want):
    """Is a row that of an event? 6.0.rc2 tells of an earlier block's free the address after merging."""
    if row['attr'].get('note') == 'address after merging' and 'preattach' in row['attr']:
        return got[0] == want[0] == 'FREE' and got[1] <= want[1]
    return got == want


def window(r):
    """PTA rows are one stretch of the account that holds every step inside the window."""
    equal.clean(r)
    want, of_row = equal.happened(r)
    rows = r.of('PTA', 0)
    got = [of_row(x) for x in rows]
    base = r.account['base'][0]
    first = base['mallocs'] + base['frees']
    begin = r.start - int(r.summary['attach_ms'] * 1e6)
    steps = [(a - first, b - first, t0, t1) for _, a, b, t0, t1, _ in r.account['ops']]
    inner = [s for s in steps if s[2] > r.start and s[3] < r.stop]
    equal.require(len(inner) > 20, 'steps in the window:', len(inner))
    low = max([s[1] for s in steps if s[3] < begin], default=0)
    high = min([s[0] for s in steps if s[2] > r.stop + equal.SLACK], default=len(want))
    places = [k for k in range(low, inner[0][0] + 1) if inner[-1][1] <= k + len(got) <= high
              and all(map(of_event, rows, got, want[k:k + len(got)]))]
    equal.require(r.rc2 or not any(x['attr'].get('note') for x in rows), 'rows with a note')
    if not places:
        equal.same('PTA rows', got, want[inner[0][0]:inner[-1][1]])
    equal.require(places, 'PTA rows are no stretch of the history between', low, high)
    live, known = {}, 0
    for x in rows:
        if x['event'] == 'MALLOC':
            live[x['ptr']] = x['size']
        elif x['ptr'] in live:
            equal.require(live.pop(x['ptr']) == x['size'], 'FREE of another size', x)
        else:
            equal.require(x['attr'].get('preattach') == 'true', 'unknown block without preattach', x)
            known += 1
    equal.require(known == sum('preattach' in x['attr'] for x in r.of('PTA')), 'preattach marks')
    ends = {b: s for _, _, b, _, _, s in r.account['ops']}
    for i, x in enumerate(rows):
        s = ends.get(places[0] + i + 1 + first)
        equal.require(not s or (x['used'], x['total']) == (s['allocated'], s['reserved']), 'totals', x, s)
    n, k = equal.hal(r), equal.launches(r)
    equal.require(n and k, 'no segment given back, or no launch', n, k)
    return f'{len(inner)} steps, {len(rows)} PTA ({known} of earlier blocks), {n} HAL, {k} launches'


def more(program, steps):
    """Waits until the loop has done so many steps more, however slow they are here."""
    have = program.text().count('step ')
    program.until('step ', nth=have + steps)


def test_again_and_again(bench):
    # the cache is emptied within each window
    p = bench.program('loop', bench.steps * 4 // 5)
    p.until('READY ')
    results = []
    for i in range(3):
        more(p, bench.steps // 4)
        rec = bench.record(f'window{i}', '-p', p.pid).attached()
        more(p, bench.steps)
        results.append(rec.stop())
    p.line()
    p.until('DONE ')
    equal.require(bench.end(p, *results) == 0, 'the loop fails:', p.tail())
    equal.require(results[1].summary['frees_preattach'] > 0, 'no block from before the second attach was freed')
    return ' | '.join(window(r) for r in results)


def complete(r, to_exit, late=()):
    equal.clean(r, late)
    n = equal.pool(r, to_exit)
    h, k = equal.hal(r), equal.launches(r)
    equal.require(n > 50 and h and k, 'rows are missing', n, h, k)
    return f'{n} PTA, {h} HAL, {k} launches equal'


def test_before_import(bench):
    """Every library of the framework is found ahead, none is met late."""
    r = bench.traced('latecomer')
    equal.require(len(r.of('ACL_INIT')) == 1, 'ACL_INIT rows', r.of('ACL_INIT'))
    return complete(r, False)


def command(bench, argv, env):
    script = os.path.join(HERE, 'programs', 'latecomer.py')
    own = {'REAL_OUT': os.path.join(bench.folder, 'latecomer.account'),
           'SIM_TRUTH': os.path.join(bench.folder, 'latecomer.truth')}
    rec = bench.record('command', '--', *argv, script, env={**env, **own})
    rec.process.account, rec.process.truth = own['REAL_OUT'], own['SIM_TRUTH']
    rec.process.wait()
    r = rec.stop(None)
    bench.end(rec.process, r)
    for kind in ('ACL_INIT', 'ACL_FINI'):
        equal.require(len(r.of(kind)) == 1, kind, 'rows', r.of(kind))
    return r


def test_command(bench):
    """memtap record -- python3 PROGRAM: from the first call to the last, all libraries found ahead."""
    python, env = bench.interpreter()
    return complete(command(bench, [python, '-s'], env), True)


def test_command_by_script(bench):
    """
    A script that sets PYTHONPATH and executes Python: memtap learns the path when Python already
    runs. libc10, the first library that is loaded, may come before its probe and is told then.
    """
    r = command(bench, [bench.run], {})
    late = [x['path'] for x in r.summary['late_libraries']]
    equal.require(all(os.path.basename(x) == 'libc10.so' for x in late), 'late libraries', late)
    return complete(r, True, late) + (', libc10 late' if late else '')
