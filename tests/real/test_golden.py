# SPDX-License-Identifier: Apache-2.0
"""The runs of the vendor's own tool again, under our front end with the same options: the same rows, traces, console.

What differs on purpose is named with each case; why, in tests/offline/differences.txt.
"""
import os
import shutil

import golden
from harness import HERE, Skip
import readers

PROGRAMS = os.path.join(HERE, 'golden_programs')
RELEASE = 'torch_npu 2.9.0'  # of the vendor's runs; blocks of others differ

TRAIN = {'MARK': 'mstx', 'SIM_WS_BYTES': '65536'}
BOTH = ('--level=0,1',)
KERNELS = ('--level=op,kernel',)
ALL = ('--events=alloc,free,access,launch',)
# The driver has 2 MiB more, for the simulated runtime keeps as much for itself.
SMALL = {'SIM_HBM_BYTES': str(66 << 20)}
ATEN = ('OP_LAUNCH/ATEN_START', 'OP_LAUNCH/ATEN_END')
ACCESS = ('ACCESS/READ', 'ACCESS/WRITE', 'ACCESS/UNKNOWN')

# case: program, environment, options; of what is on purpose otherwise: attributes, classes of rows
CASES = {
    'alloc': ('alloc', {}, BOTH),
    'alloc_exp': ('expand', {'PYTORCH_NPU_ALLOC_CONF': 'expandable_segments:True'}, BOTH),
    'delay': ('delay', {'SIM_EVENT_DELAY_US': '300000'}, ()),
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
    'now_exp': ('expand', {'PYTORCH_NPU_ALLOC_CONF': 'expandable_segments:True'}, KERNELS),
    # K is that of the option, not always 10.
    'now_oom': ('oom', SMALL, ('--level=op', '--analysis=oom'), (), ('SNAPSHOT/SNAPSHOT',)),
    'now_train': ('train', TRAIN, KERNELS),
}


def run(b, case, program, env, options):
    """The front end on a program: folder of its files, console."""
    folder = os.path.join(b.folder, 'programs')
    shutil.copytree(PROGRAMS, folder, dirs_exist_ok=True)
    generation = 'now' if case.startswith('now_') else 'seed'
    out = os.path.join(b.folder, 'out')
    p = b.start(case, [b.memtap, 'msleaks', '--generation=' + generation, *options, '--output=' + out, '--',
                       b.run, os.path.join(folder, program + '.py')],
                dict(env, ACCT=os.path.join(b.folder, 'account.json')))
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


def replay(b, case):
    program, env, options, drop, without = (*CASES[case], (), ())[:5]
    if b.version() != RELEASE:
        raise Skip(f"{b.version()}: the vendor's runs are of {RELEASE}")
    out, console = run(b, case, program, env, options)
    dump = golden.one_of(os.path.join(out, 'dump', '*_dump_*'))
    theirs = golden.rows_of(golden.vendor_file(case, '*_dump_*', b.folder))
    # V-now makes up a FREE for what lives at the exit (differences.txt, names).
    theirs = outermost([r for r in theirs if r['attr'].get('shadow') != 'true'])
    differs = golden.compare(golden.rows_of(dump), theirs, drop, ATEN + ACCESS + tuple(without))
    if not case.startswith('now_'):
        kernels = 'KERNEL_LAUNCH/KERNEL_LAUNCH' not in without
        differs.update(golden.compare_traces(case, readers.traces_of(out), b.folder, kernels))
    with open(os.path.join(golden.DATA, case, 'console.txt'), encoding='utf-8') as f:
        told = golden.analysis_lines(f.read())
    if golden.analysis_lines(console) != told:
        differs['console'] = f'{golden.analysis_lines(console)}, the vendor {told}'
    if differs:
        raise AssertionError('; '.join(f'{k}: {v[:300]}' for k, v in differs.items()))
    return f'{len(theirs)} rows of the vendor'


def made(case):
    def test(b):
        return replay(b, case)
    return test


for name in CASES:
    globals()['test_' + name] = made(name)
