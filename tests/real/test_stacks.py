# SPDX-License-Identifier: Apache-2.0
"""Call stacks of a training loop against the frames that torch's own memory history has recorded."""
import collections
import re

import equal
from harness import Skip
from test_pool import everything

LINE = re.compile(r'^(.*)\((\d+)\): (.*)$')
# Not every C library names where a thread begins.
ROOTS = ('(_start+', '(clone3+', '(__clone+', '(clone+', '/libc.so.6(+')


def frames(cell):
    return [[m[1], int(m[2]), m[3]] for m in map(LINE.match, cell.splitlines()) if m]


def traced(bench, *record):
    r = bench.traced('train', str(bench.few), env={'REAL_STACKS': 1}, record=record)
    everything(r)
    if not equal.kept(r) or not any(any(e) for e in r.account['frames']):
        raise Skip(f'{bench.version()} records no frames in its history')
    return r


def test_train(bench):
    """Each row's Python frames, and a C stack from the allocator to the root of its thread."""
    r = traced(bench, '--call-stack=c,python')
    wrong, n, python = collections.Counter(), 0, 0
    example, seen = {}, collections.Counter()
    for d in equal.devices(r):
        rows, want = r.of('PTA', d), r.account['frames'][d]
        equal.require(len(rows) == len(want), 'rows', len(rows), 'entries', len(want))
        for row, chain in zip(rows, want):
            n += 1
            got, c = frames(row['call_py']), row['call_c'].splitlines()
            python += bool(chain)
            what = None
            if got != chain:
                what = 'Python frames'
            elif not c or not any(root in c[-1] for root in ROOTS):
                what = f'C stack ends at {c[-1:]}'
            elif 'libtorch_npu.so' not in c[0] or (chain and not any('_PyEval_EvalFrameDefault' in x for x in c)):
                what = 'C stack without the allocator or the interpreter'
            if what:
                wrong[what] += 1
                example.setdefault(what, (got, chain, c))
            for lib in ('libtorch_cpu.so', 'libtorch_python.so', 'libtorch_npu.so'):
                seen[lib] += any(lib in x for x in c)
            seen['backward'] += any(x[2] == 'backward' for x in got)
            seen['optimizer'] += any('optim' in x[0] for x in got)
            seen['autograd thread'] += not got and row['tid'] != row['pid']
    equal.require(n > 60 * bench.few and python > 35 * bench.few, 'too little happened:', n, python)
    equal.require(sum(wrong.values()) * 1000 <= n, 'wrong:', dict(wrong), 'of', n, str(example)[:3000])
    equal.require(min(seen.values()) > 5 and len(seen) == 6, 'seen', dict(seen))
    s = r.summary['stacks']
    equal.require(not s['c_cut'] and not s['c_lost'] and not s['unknown_cells'], 'stacks:', s)
    return f'{n} rows, {python} with Python frames, {s["c_different"]} different C stacks, wrong {dict(wrong)}'


def test_mixed(bench):
    """Each row's C and Python frames in one cell: the Python frames are those of its own cell, in that order, and
    where Python is called by C of torch (autograd functions, hooks) its frames stand on both sides of it."""
    r = traced(bench, '--call-stack=mixed')
    n, both, apart, empty, wrong = 0, 0, 0, 0, {}
    for d in equal.devices(r):
        for row in r.of('PTA', d):
            n += 1
            lines = row['call_c'].splitlines()
            want, got = frames(row['call_py']), frames(row['call_c'])
            kinds = ''.join('p' if LINE.match(x) else 'c' for x in lines)
            both += 'p' in kinds
            apart += bool(re.search('pc+p', kinds))
            empty += any('_PyEval_EvalFrameDefault' in x for x in lines)
            if got != want or not any(root in lines[-1] for root in ROOTS) or 'libtorch_npu.so' not in lines[0]:
                wrong.setdefault('example', (lines, want))
                wrong['n'] = wrong.get('n', 0) + 1
    equal.require(n > 500 and both > 300 and apart > 50, 'too little happened:', n, both, apart)
    equal.require(wrong.get('n', 0) * 1000 <= n, wrong.get('n'), 'of', n, str(wrong)[:3000])
    s = r.summary['stacks']
    equal.require(not s['mixed_not'] and s['mixed'] >= both, 'not merged:', s)
    return f'{n} rows, {both} with Python frames, {apart} with C between them, {empty} with calls that run nothing'
