# SPDX-License-Identifier: Apache-2.0
"""MindSpore attached to in the middle, detached, attached again; and from the first call on."""
import os
import time

import equal
from harness import HERE


def window(r):
    """The rows are one stretch of the program's operations, each with the statistics behind it."""
    equal.clean(r)
    rows = r.of('MINDSPORE')
    ops = [o for o in r.account['ops'] if o[0] in 'MF']
    inner = [i for i, o in enumerate(ops) if o[3] > r.start and o[4] < r.stop]
    equal.require(len(inner) > 20, 'operations in the window:', len(inner))
    at = next((i for i, o in enumerate(ops[:inner[0] + 1])
               if (o[0], o[1]) == (rows[0]['event'][0], rows[0]['ptr'])
               and [(x['event'][0], x['ptr']) for x in rows] == [(p[0], p[1]) for p in ops[i:i + len(rows)]]), None)
    equal.require(at is not None and at + len(rows) > inner[-1], 'the rows are no stretch of the operations')
    live, earlier = set(), 0
    for n, (x, o) in enumerate(zip(rows, ops[at:])):
        s = o[5]
        equal.require(x['used'] == s['allocated'], 'used of', x, s)
        # a free before the first allocation cannot know what is reserved
        if any(y['event'] == 'MALLOC' for y in rows[:n + 1]):
            equal.require(x['total'] == s['reserved'], 'total of', x, s)
        if x['event'] == 'MALLOC':
            equal.require(x['size'] == equal.block_size(o[2]), 'size of', x, o)
            live.add(x['ptr'])
        elif x['ptr'] in live:
            live.discard(x['ptr'])
        else:
            equal.require(x['attr'].get('preattach') == 'true', 'unknown block without preattach', x)
            earlier += 1
    equal.require(earlier == r.summary['frees_preattach'], 'preattach', earlier, r.summary['frees_preattach'])
    return f'{len(rows)} operations ({earlier} of earlier blocks)'


def again(bench, conf):
    p = bench.program('ms_loop', env={'MS_ALLOC_CONF': conf})
    p.until('READY ')
    results = []
    for i in range(3):
        time.sleep(0.4)
        rec = bench.record(f'window{i}', '-p', p.pid).attached()
        time.sleep(0.8)
        results.append(rec.stop())
    p.line()
    p.until('DONE ')
    equal.require(bench.end(p, *results) == 0, 'the loop fails:', p.tail())
    return ' | '.join(window(r) for r in results)


def test_again_and_again(bench):
    return again(bench, '')


def test_again_and_again_older(bench):
    return again(bench, 'older_pool:true')


def test_command(bench):
    """memtap record -- python3 PROGRAM: every library is found ahead, every block has its row."""
    python, env = bench.interpreter()
    own = {'REAL_OUT': os.path.join(bench.folder, 'ms_train.account'),
           'SIM_TRUTH': os.path.join(bench.folder, 'ms_train.truth')}
    script = os.path.join(HERE, 'programs', 'ms_train.py')
    rec = bench.record('command', '--', python, '-s', script, '10', env={**env, **own})
    rec.process.account, rec.process.truth = own['REAL_OUT'], own['SIM_TRUTH']
    rec.process.wait()
    r = rec.stop(None)
    bench.end(rec.process, r)
    equal.clean(r)
    used, rows = 0, r.of('MINDSPORE')
    for x in rows:
        used += x['size'] if x['event'] == 'MALLOC' else -x['size']
        equal.require(x['used'] == used, 'used of', x, 'sum', used)
        equal.require(x['device'] == '0', 'device of', x)
    top, end = max(x['used'] for x in rows), r.account['stats']
    equal.require(top == end['max_allocated'], 'peak', top, end)
    equal.require(max(x['total'] for x in rows) == end['max_reserved'], 'reserved', end)
    h, k = equal.hal(r), equal.launches(r)
    return f'{len(rows)} rows from the first on, {h} HAL, {k} launches equal'
