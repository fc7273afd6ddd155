# SPDX-License-Identifier: Apache-2.0
"""The runs of the vendor's own tool again, under our front end with the same options: the same rows, traces, console.

What differs on purpose is named with each case; why, in tests/offline/differences.txt.
"""
import collections
import csv
import glob
import json
import os
import re
import shutil

import golden
from harness import HERE, Skip
import readers

TOP = os.path.join(os.path.realpath(HERE), '..', '..')
PROGRAMS = os.path.join(HERE, 'golden_programs')
RELEASE = 'torch_npu 2.9.0'  # of the vendor's runs; blocks of others differ

TRAIN = {'MARK': 'mstx', 'SIM_WS_BYTES': '65536'}
BOTH = ('--level=0,1',)
KERNELS = ('--level=op,kernel',)
ALL = ('--events=alloc,free,access,launch',)
# The driver has 2 MiB more, for the simulated runtime keeps as much for itself.
SMALL = {'SIM_HBM_BYTES': str(66 << 20)}
DECOMPOSE = ('--analysis=leaks,decompose',)
NOW = {'TOOLPKG': 'msmemscope'}
ATEN = ('OP_LAUNCH/ATEN_START', 'OP_LAUNCH/ATEN_END')
ACCESS = ('ACCESS/READ', 'ACCESS/WRITE', 'ACCESS/UNKNOWN')

# case: program, environment, options; of what is on purpose otherwise: attributes, classes of rows
CASES = {
    'alloc': ('alloc', {}, BOTH),
    'alloc_exp': ('expand', {'PYTORCH_NPU_ALLOC_CONF': 'expandable_segments:True'}, BOTH),
    'custom': ('custom', {}, ('--collect-mode=custom',) + ALL),
    'delay': ('delay', {'SIM_EVENT_DELAY_US': '300000'}, ()),
    'describe': ('describe', {}, ALL + DECOMPOSE),
    'dev2': ('dev2', {}, BOTH),
    # What collectives launch is the simulated HCCL's.
    'hccl': ('hccl', {}, BOTH, (), ('KERNEL_LAUNCH/KERNEL_LAUNCH',)),
    'marks': ('marks', {}, BOTH),
    'oom': ('oom', SMALL, BOTH),
    'stacks': ('stacks', {}, BOTH + ALL + ('--call-stack=c:20,python:20',)),
    'threads': ('threads', {}, BOTH),
    'train_mstx': ('train', TRAIN, BOTH),
    'train_stacks': ('train', dict(TRAIN, STEPS='1'), BOTH + ('--call-stack=python:8,c:6',)),
    'train_steps23': ('train', dict(TRAIN, STEPS='4'), BOTH + ('--steps=2,3',)),
    'train_torchmark': ('train', dict(TRAIN, MARK='torch_npu'), BOTH),
    'train_tq0': ('train', dict(TRAIN, TASK_QUEUE_ENABLE='0'), BOTH),
    'train_tq2': ('train', dict(TRAIN, TASK_QUEUE_ENABLE='2'), BOTH),
    'ws2streams': ('ws', {'TASK_QUEUE_ENABLE': '2', 'SIM_WS_BYTES': '3000000'}, BOTH),
    'now_alloc': ('alloc', {}, KERNELS),
    'now_deferred': ('custom', NOW, ('--collect-mode=deferred',) + ALL),
    'now_describe': ('describe', NOW, ALL + DECOMPOSE),
    'now_exp': ('expand', {'PYTORCH_NPU_ALLOC_CONF': 'expandable_segments:True'}, KERNELS),
    # K is that of the option, not always 10.
    'now_oom': ('oom', SMALL, ('--level=op', '--analysis=oom'), (), ('SNAPSHOT/SNAPSHOT',)),
    'now_snapshot': ('snapshot', NOW, ('--level=op',)),
    'now_train': ('train', TRAIN, KERNELS),
}


def run(b, case, program, env, options):
    """The front end on a program: folder of its files, console."""
    folder = os.path.join(b.folder, 'programs')
    shutil.copytree(PROGRAMS, folder, dirs_exist_ok=True)
    # Our package by the vendor's names, beside the program.
    for package in ('msleaks', 'msmemscope'):
        os.symlink(os.path.join(TOP, 'python', package), os.path.join(folder, package))
    generation = 'now' if case.startswith('now_') else 'seed'
    out = os.path.join(b.folder, 'out')
    p = b.start(case, [b.memtap, 'msleaks', '--generation=' + generation, *options, '--output=' + out, '--',
                       b.run, os.path.join(folder, program + '.py')],
                dict(env, ACCT=os.path.join(b.folder, 'account.json'),
                     MEMTAP_MARKS=os.path.join(b.build, 'python', 'libmemtap_marks.so')))
    if p.wait():
        raise AssertionError(f'memtap msleaks exits with {p.p.returncode}: {p.tail()}')
    if 'the program failed' in p.text('err') or 'Traceback' in p.text('err'):
        raise AssertionError('the program failed: ' + p.tail())
    return out, p.text()


def outermost(rows):
    """The runtime tries huge pages and then normal ones: two failures for the vendor, one call that fails for us."""
    out, before = [], None
    for r in sorted(rows, key=lambda r: r['id']):
        if r['type'] == 'OOM_TRIGGER':
            same = before and before['attr']['req_size'] == r['attr']['req_size']
            before = None if same else r
            if same:
                continue
        out.append(id(r))
    return [r for r in rows if id(r) in set(out)]


def edited(rows, objects=True):
    """Without what differs on purpose: owners of operators, names that the vendor's tool forgets."""
    for r in rows:
        if 'owner' in r['attr']:
            r['attr']['owner'] = re.sub('@ops(@aten)?' if objects else '@ops|@obj2?|@addr', '', r['attr']['owner'])
        if r['event'] == 'SNAPSHOT':
            r['name'] = r['name'].replace('ctx', 'Memory Snapshot')
            # The simulated runtime keeps 2 MiB for itself.
            free = int(r['attr'].pop('free'))
            rate = (int(r['attr']['total']) - free) / int(r['attr']['total']) * 100
            assert r['attr'].pop('device_rate') == f'{rate:f}', r
        elif r['type'] == 'START_TRACE' and r['attr']:
            assert 0 < int(r['attr'].pop('free')) < int(r['attr']['total']), r
    return rows


def replay(b, case):
    program, env, options, drop, without = (*CASES[case], (), ())[:5]
    if b.version() != RELEASE:
        raise Skip(f"{b.version()}: the vendor's runs are of {RELEASE}")
    out, console = run(b, case, program, env, options)
    dump = golden.one_of(os.path.join(out, 'dump', '*_dump_*'))
    theirs = golden.rows_of(golden.vendor_file(case, '*_dump_*', b.folder))
    # V-now makes up a FREE for what lives at the exit (differences.txt, names).
    theirs = outermost([r for r in theirs if r['attr'].get('shadow') != 'true'])
    # V-now raises an exception where an object or address is to have a label.
    ours = edited(golden.rows_of(dump), case != 'now_describe')
    differs = golden.compare(ours, edited(theirs), drop, ATEN + ACCESS + tuple(without),
                             golden.UNORDERED + (('START_TRACE', 'STOP_TRACE') if case.startswith('now_') else ()))
    if not case.startswith('now_'):
        kernels = 'KERNEL_LAUNCH/KERNEL_LAUNCH' not in without
        differs.update(golden.compare_traces(case, readers.traces_of(out), b.folder, kernels))
    with open(os.path.join(golden.DATA, case, 'console.txt'), encoding='utf-8') as f:
        told = golden.analysis_lines(f.read())
    # What is decomposed is told at the end, too.
    ours = golden.analysis_lines(re.split(r'^======= \w+ of Device', console, flags=re.M)[0])
    if ours != told:
        differs['console'] = f'{ours}, the vendor {told}'
    if differs:
        raise AssertionError('; '.join(f'{k}: {v[:300]}' for k, v in differs.items()))
    return f'{len(theirs)} rows of the vendor'


def calls(path, added=0):
    """Names of a python_trace without what the dispatch mode of the vendor's tool calls: our package has none.

    added: lines that stand above our copy of the program."""
    with open(path, encoding='utf-8', newline='') as f:
        rows = list(csv.DictReader(f))
    out = []
    for r in rows:
        name = re.sub(r'0x[0-9a-f]+', '.', re.sub(r'/\S*/', '', r['FuncInfo']))
        if re.search(r'simple_registry|fake_impl|aten_collection|method get of dict', name):
            continue
        # What is open at the stop is the vendor's stop() itself.
        if r['EndTime(ns)'] != 'N/A' or re.match('st(art|op):', name):
            out.append(re.sub(r'(pytrace.py)\((\d+)\)', lambda m: f'{m[1]}({int(m[2]) - added})', name))
        assert r['EndTime(ns)'] == 'N/A' or int(r['StartTime(ns)']) <= int(r['EndTime(ns)']), r
    return out


def test_pytrace(b):
    """Calls of Python and C functions, in the order of their returns."""
    if b.version() != RELEASE:
        raise Skip(f"{b.version()}: the vendor's runs are of {RELEASE}")
    out, _ = run(b, 'pytrace', 'pytrace', {}, ())
    (path,) = glob.glob(os.path.join(out, 'dump', 'python_trace_*.csv'))
    assert os.stat(path).st_mode & 0o777 == 0o600, path
    ours, theirs = calls(path, 1), calls(golden.vendor_file('pytrace', 'python_trace_*', b.folder))
    assert ours == theirs, golden.first(ours, theirs)
    return f'{len(theirs)} rows of the vendor'


def host_sizes(rows):
    return collections.Counter(r['size'] for r in rows if (r['event'], r['type']) == ('MALLOC', 'HOST'))


def test_host(b):
    """Host memory in its range: what the program allocates, without what the vendor's tool itself does there."""
    if b.version() != RELEASE:
        raise Skip(f"{b.version()}: the vendor's runs are of {RELEASE}")
    out, _ = run(b, 'host', 'host', {}, BOTH + ('--exact-ranges',))
    ours = golden.rows_of(golden.one_of(os.path.join(out, 'dump', '*_dump_*')))
    theirs = golden.rows_of(golden.vendor_file('host', '*_dump_*', b.folder))
    host = ('MALLOC/HOST', 'FREE/HOST')
    differs = golden.compare(ours, theirs, ('allocation_id',), ATEN + host)
    differs.update(golden.compare_traces('host', readers.traces_of(out), b.folder, False, ('memory',)))
    assert not differs, '; '.join(f'{k}: {v[:300]}' for k, v in differs.items())
    mine, vendor = host_sizes(ours), host_sizes(theirs)
    # The program finds malloc in the C library itself, behind what the vendor's tool preloads.
    assert mine.pop(12345) == 1 and 12345 not in vendor, mine
    extra = mine - vendor
    assert sum(mine.values()) > 1000 and sum(extra.values()) <= sum(mine.values()) / 100, extra
    for rows in ours, theirs:
        inside = [r for r in rows if r['type'] == 'HOST']
        marks = [r['time'] for r in rows if r['event'] == 'MSTX']
        assert all(marks[0] <= r['time'] <= marks[1] and r['device'] == 'host' for r in inside)
        known = {r['allocation_id'] for r in inside if r['event'] == 'MALLOC'}
        orphans = [r for r in inside if r['event'] == 'FREE' and r['allocation_id'] not in known]
        # Blocks from before the range, or of calloc and realloc.
        assert orphans and all((r['allocation_id'], r['size']) == (0, 0) for r in orphans), orphans[:2]
    with open(readers.traces_of(out)['cpu'], encoding='utf-8') as f:
        sums = [e['args']['size'] for e in json.load(f) if e and e['name'] == 'memory']
    blocks = [r for r in sorted(ours, key=lambda r: r['id']) if r['type'] == 'HOST' and r['allocation_id']]
    total, due = 0, []
    for r in blocks:
        total += r['size'] if r['event'] == 'MALLOC' else -r['size']
        due.append(total)
    assert sums == due, golden.first(sums, due)
    return f'{sum(mine.values())} blocks, {sum((vendor - mine).values())} of the vendor itself'


def made(case):
    def test(b):
        return replay(b, case)
    return test


for name in CASES:
    globals()['test_' + name] = made(name)
