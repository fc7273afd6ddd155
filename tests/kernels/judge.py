# SPDX-License-Identifier: Apache-2.0
"""judge.py RELEASE ARCH OUT ROOT: what a test machine sent back, held against its ground truth."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'live'))
import atbrows  # noqa: E402
import compare as C  # noqa: E402
import frames  # noqa: E402
import oprows  # noqa: E402
import readers  # noqa: E402
import truth as T  # noqa: E402
from words import MECHANISM, PLAIN, Words  # noqa: E402

# An emulated processor stands still for as long as the other machine needs it.
C.EDGE = 150 * T.NS_MS
# An emulated clock is coarse: reads of it by two programs may differ by microseconds.
EPS = 100_000

# least: rows that must have been compared; kinds: that must be among them.
RUNS = {
    'main': dict(layout='c', least=1000, kinds=('MALLOC PTA', 'FREE PTA', 'MALLOC HAL', 'MSTX Mark',
                                                'KERNEL_LAUNCH KERNEL_LAUNCH', 'SYSTEM ACL_INIT')),
    'ranks': dict(layout='b', least=500, kinds=('MALLOC PTA', 'FREE PTA')),
    'acl': dict(least=1000, kinds=('MALLOC HAL', 'FREE HAL', 'MALLOC HOST_PINNED', 'FREE HOST_PINNED')),
    'none': dict(layout='none', least=500, kinds=('MALLOC PTA', 'FREE PTA', 'FREE HAL')),
    'mindspore': dict(least=100, kinds=('MALLOC MINDSPORE', 'FREE MINDSPORE')),
    'python': dict(least=100, named='python step', kinds=('MSTX Mark', 'MSTX Range_start', 'MSTX Range_end',
                                                          'MALLOC PTA')),
    'middle': dict(layout='a', least=100, from_start=False, kinds=('MALLOC PTA', 'FREE PTA')),
    'plain': dict(layout='c', least=500, kinds=('MALLOC PTA', 'FREE PTA', 'MALLOC HAL')),
    'stacked': dict(layout='c', least=100, kinds=('MALLOC PTA', 'FREE PTA', 'MALLOC HAL')),
}


def judge(out, run, mechanism, layout='c', least=1, kinds=(), named='', from_start=True):
    """Problems of one run, and a line about it."""
    def text(end):
        with open(os.path.join(out, run + end), errors='replace') as f:
            return f.read()
    if text('.status').strip() != '0':
        return [f'memtap ended with {text(".status").strip()}: {text(".txt")[-200:]}'], None
    bad = []
    if text('.simstatus').strip() != '0':
        bad.append(f'the job ended with {text(".simstatus").strip()}')
    summary = json.loads(text('.json'))
    rows = readers.read_csv(readers.dump_of(os.path.join(out, run), 'csv'))
    records = T.read(os.path.join(out, run + '.truth'))
    rules = T.Rules(layout=layout, visible=None, from_start=from_start)
    report = C.compare(rows, records, summary, rules, eps=EPS)
    bad += list(report) + C.invariants(rows) + C.accounting(rows, summary)
    if report.matched < least:
        bad.append(f'only {report.matched} rows: too little to tell')
    bad += [f'no {kind}: {dict(report.kinds)}' for kind in kinds if not report.kinds[kind]]
    if not any(named in row['name'] for row in rows):
        bad.append(f'no row named {named!r}')
    if summary['late_libraries']:
        bad.append(f'late libraries: {summary["late_libraries"]}')
    if summary['late_functions'] or summary['functions_unseen']:
        bad.append(f'late Python functions: {summary["late_functions"]}')
    if summary['probes_failed'] or summary['mechanism'] != mechanism:
        bad.append(f'{summary["probes_failed"]} probes failed, mechanism {summary["mechanism"]!r}')
    for trace in readers.traces_of(os.path.join(out, run)).values():
        readers.read_trace(trace)
    return bad, (f'{run}: {report.matched} rows equal the truth, attach {summary["attach_ms"]:.0f} ms, '
                 f'detach {summary["detach_ms"]:.0f} ms')


def account(out, run):
    """What the summary of a run that went wrong says of its calls, for whoever looks into it."""
    try:
        with open(os.path.join(out, run + '.json')) as f:
            summary = json.load(f)
    except (OSError, ValueError) as e:
        return f'no summary ({e})'
    return {k: summary.get(k) for k in ('accounting', 'losses', 'attached_boot_ns', 'stopped_boot_ns')}


# Ways to walk a stack of C functions without bpf_loop: tests/stacks/stack_tail.bpf.c.
WAYS = ('take_here', 'take_tail', 'take_called')
LEAST_DEEP = 60


def c_stacks(out):
    """Problems of the stacks of C functions, and a line about them."""
    with open(os.path.join(out, 'stacks.txt'), errors='replace') as f:
        text = f.read()
    bad, frames = [], []
    for way in WAYS:
        line = next((words for words in map(str.split, text.splitlines()) if words and words[0] == way), None)
        if not line or '=' not in line[1]:
            bad.append(f'no stacks by {way}: {text[-300:]}')
            continue
        got = {k: int(v) for k, v in (word.split('=') for word in line[1:])}
        frames.append(got['frames'])
        if got['got'] != got['due'] or got['wrong'] or got['cut'] or got['broken']:
            bad.append(f'{way}: stacks are not as backtrace() has them: {got}')
        if got['deepest'] < LEAST_DEEP or not got['without']:
            bad.append(f'{way}: too little to tell: {got}')
    return bad, f'stacks: {sum(frames)} frames by {len(frames)} ways equal those of backtrace()'


def cells(out):
    """Problems of the call stacks in rows, and a line about them."""
    def memory(run):
        return [r for r in readers.read_csv(readers.dump_of(os.path.join(out, run), 'csv'))
                if r['type'] in ('HAL', 'PTA') and r['event'] in ('MALLOC', 'FREE')]
    c = [r['call_c'] for r in memory('stacked')]
    py = [r['call_py'] for r in memory('python')]
    whole = sum(cell != '' and not cell.rsplit('\n', 1)[-1].startswith('(cut') for cell in c)
    # Down to the module, or to where its thread began.
    down = sum(cell.rstrip('\n').endswith((': <module>', ': _bootstrap')) for cell in py)
    line = f'rows with a whole C stack: {whole} of {len(c)}, with one of Python: {down} of {len(py)}'
    right = down >= 0.99 * len(py) > 0 and whole >= 0.99 * len(c) > 0
    return [] if right else [line], line


def stacks(out):
    """Problems of the Python stacks, and a line about them."""
    def text(end):
        with open(os.path.join(out, 'pystack.' + end), encoding='utf-8', errors='replace') as f:
            return f.read()
    marks, got = frames.said(text('truth')), frames.seen(text('seen'))
    bad = frames.compare(marks, got)
    if len(marks) < 60:
        bad.append(f'only {len(marks)} marks: {text("err")[-300:]}')
    return bad, f'pystack: {sum(len(s[2]) for s in got)} Python frames in {len(got)} stacks equal the program\'s'


# Where init.sh runs what has programs of its own.
OPS, ATB = ('ops', oprows.said, oprows.rows, 150), ('atb', atbrows.said, atbrows.rows, 700)
SAID = {'5.10/amd64': (OPS,), '6.1/arm64': (OPS, ATB)}


def said(out, run, want_of, rows_of, least):
    """Problems of the rows of a program that tells what it does, and a line about them."""
    def text(end):
        with open(os.path.join(out, f'{run}.{end}'), encoding='utf-8', errors='replace') as f:
            return f.read()
    if text('status').strip() != '0':
        return [f'{run}: memtap ended with {text("status").strip()}: {text("txt")[-300:]}'], f'{run}: nothing'
    want = want_of(text('said'))
    got = rows_of(readers.read_csv(readers.dump_of(os.path.join(out, run), 'csv')))
    summary, bad = json.loads(text('json')), []
    if isinstance(want, dict):
        ((_, want),), ((_, got),) = want.items(), got.items() or {0: []}.items()
    if got != want or len(want) < least:
        first = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        bad.append(f'{run}: {len(got)} rows for {len(want)}, from {first}: {got[first:first + 2]}, '
                   f'{want[first:first + 2]}: {text("txt")[-300:]}')
    if not summary['accounting']['exact'] or summary['accounting']['lost'] or summary['probes_failed']:
        bad.append(f'{run}: {account(out, run)}, {summary["probes_failed"]} probes failed')
    return bad, f'{run}: {len(want)} rows equal what the program says'


# Kinds of C stacks that tests/live/cwalk_target.c makes.
KINDS = {'recursion', 'qsort', 'signal', 'signal, own stack', 'fault in a leaf', 'no frame pointer', 'alloca',
         'no frame record', 'record on top', 'code without a file', 'makecontext', 'thread'}


def walks(out, release):
    """Problems of the C stacks, and lines about them."""
    def lines(mode):
        with open(os.path.join(out, 'cwalk.' + mode), errors='replace') as f:
            return f.read().splitlines()
    steps, said, bad = lines('steps'), [], []
    for mode in ('plain', 'sleepable'):
        told = lines(mode)
        # bpf_loop came with 5.17.
        if told[0].startswith('skip ') and release == '5.10':
            said.append(f'cwalk: skipped here: {told[0][5:]}')
            continue
        same = [x.split(' ', 3)[1:] for x in told if x.startswith('same ')]
        if {kind for _, _, kind in same} != KINDS or told[-1] != 'status 0' or min(int(n) for n, _, _ in same) < 40:
            bad.append(f'cwalk {mode}: {told[-6:]}')
        said.append(f'cwalk {mode}: {sum(int(n) for _, n, _ in same)} frames in {sum(int(n) for n, _, _ in same)} '
                    f'stacks of {len(same)} kinds equal the program\'s')
    if steps[-1] != 'status 0' or len(steps) != 2:
        bad.append(f'cwalk steps: {steps[-3:]}')
    said.append(f'cwalk steps: {steps[-2] if len(steps) > 1 else "nothing"}')
    return bad, said


def main(release, arch, out, root):
    words, bad = Words(release, arch, out, root), []
    words.checks()
    words.derived()
    for run, how in RUNS.items():
        mechanism = PLAIN if run == 'plain' else MECHANISM[release]
        problems, line = judge(out, run, mechanism, **how)
        if line:
            print('     ' + line)
        bad += [f'{run}: {p}' for p in problems]
        if problems:
            bad.append(f'{run}: {account(out, run)}')
    problems, line = c_stacks(out)
    print('     ' + line)
    bad += [f'stacks: {p}' for p in problems]
    problems, line = cells(out)
    print('     ' + line)
    bad += problems
    problems, line = stacks(out)
    print('     ' + line)
    bad += [f'pystack: {p}' for p in problems]
    for how in SAID.get(f'{release}/{arch}', ()):
        problems, line = said(out, *how)
        print('     ' + line)
        bad += problems
    problems, lines = walks(out, release)
    for line in lines:
        print('     ' + line)
    bad += problems
    for run, state in (('main', 'found'), ('ranks', 'attached'), ('python', 'found')):
        with open(os.path.join(out, run + '.json')) as f:
            print(f'     {run}: {words.probes(run, state, json.load(f))}')
    bad += words.bad
    for b in bad[:20]:
        print('     ' + b[:300])
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
