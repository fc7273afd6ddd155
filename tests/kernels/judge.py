# SPDX-License-Identifier: Apache-2.0
"""judge.py RELEASE ARCH OUT ROOT: what a test machine sent back, held against its ground truth."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'live'))
import compare as C  # noqa: E402
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
    for run, state in (('main', 'found'), ('ranks', 'attached'), ('python', 'found')):
        with open(os.path.join(out, run + '.json')) as f:
            print(f'     {run}: {words.probes(run, state, json.load(f))}')
    bad += words.bad
    for b in bad[:20]:
        print('     ' + b[:300])
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
