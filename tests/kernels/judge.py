# SPDX-License-Identifier: Apache-2.0
"""judge.py RELEASE ARCH OUT: what a test machine sent back, held against its ground truth."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'live'))
import compare as C  # noqa: E402
import readers  # noqa: E402
import truth as T  # noqa: E402

release, arch, out = sys.argv[1:4]
bad = []

# What a mainline release has (tracers.md 3.1), as `memtap check` names it. Debian adds nothing.
YES, NO = 'yes', 'no (this kernel has it not)'
FEATURES = {
    '5.10': {'attach cookies': NO, 'sleepable uprobe programs': NO, 'uprobe_multi links': NO, 'uprobe sessions': NO},
    '6.1': {'attach cookies': YES, 'sleepable uprobe programs': YES, 'uprobe_multi links': NO, 'uprobe sessions': NO},
    '6.12': {'attach cookies': YES, 'sleepable uprobe programs': YES, 'uprobe_multi links': YES, 'uprobe sessions': NO},
}
ALWAYS = {'kernel type information (BTF)': YES, 'BPF ring buffer': YES, 'perf uprobes': YES, 'programs': 'load'}


def text(name):
    with open(os.path.join(out, name), errors='replace') as f:
        return f.read()


check = json.loads(text('check.json'))
for key, value in {**ALWAYS, **FEATURES[release]}.items():
    if check.get(key) != value:
        bad.append(f'check: {key}: {check.get(key)!r}, expected {value!r}')

RUNS = {'main': dict(layout='c', least=1000), 'ranks': dict(layout='b', least=500), 'plain': dict(layout='c', least=500)}
for run, how in RUNS.items():
    if text(run + '.status').strip() != '0':
        bad.append(f'{run}: memtap ended with {text(run + ".status").strip()}')
        continue
    if text(run + '.simstatus').strip() != '0':
        bad.append(f'{run}: the job ended with {text(run + ".simstatus").strip()}')
    summary = json.loads(text(run + '.json'))
    rows = readers.read_csv(readers.dump_of(os.path.join(out, run), 'csv'))
    records = T.read(os.path.join(out, run + '.truth'))
    rules = T.Rules(layout=how['layout'], visible=None, from_start=True)
    # An emulated clock is coarse: reads of it by two programs may differ by microseconds.
    report = C.compare(rows, records, summary, rules, eps=100_000)
    problems = list(report) + C.invariants(rows) + C.accounting(rows, summary)
    if report.matched < how['least']:
        problems.append(f'only {report.matched} rows: too little to tell')
    if summary['late_libraries']:
        problems.append(f'late libraries: {summary["late_libraries"]}')
    for trace in readers.traces_of(os.path.join(out, run)).values():
        readers.read_trace(trace)
    print(f'     {run}: {report.matched} rows equal the truth, attach {summary["attach_ms"]:.0f} ms, '
          f'detach {summary["detach_ms"]:.0f} ms, {summary["mechanism"]}')
    bad += [f'{run}: {p}' for p in problems]

for b in bad[:20]:
    print('     ' + b[:300])
sys.exit(bool(bad))
