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
# Time for memtap at the end, when weights, states and the last gradients are there, and names of functions.
PAUSE = {'PAUSE': '2'}
OWNERS = dict(TRAIN, **PAUSE)

# case: program, environment, options; of what is on purpose otherwise: attributes, classes of rows
CASES = {
    'access': ('train', OWNERS, BOTH + ALL + ('--analysis=leaks,inefficient,decompose',)),
    'alloc': ('alloc', {}, BOTH),
    'alloc_exp': ('expand', {'PYTORCH_NPU_ALLOC_CONF': 'expandable_segments:True'}, BOTH),
    'custom': ('custom', {}, ('--collect-mode=custom',) + ALL),
    'db': ('train', OWNERS, BOTH + ALL + DECOMPOSE + ('--data-format=db',)),
    'decompose_only': ('train', dict(PAUSE, MARK='mstx', STEPS='2'), ('--analysis=decompose',)),
    'delay': ('delay', {'SIM_EVENT_DELAY_US': '300000'}, ()),
    'describe': ('describe', {}, ALL + DECOMPOSE),
    'dev2': ('dev2', {}, BOTH),
    'fork': ('fork', {}, ()),
    # What collectives launch is the simulated HCCL's.
    'hccl': ('hccl', {}, BOTH, (), ('KERNEL_LAUNCH/KERNEL_LAUNCH',)),
    'inefficient': ('inefficient', {}, ALL + ('--analysis=inefficient',)),
    'marks': ('marks', {}, BOTH),
    'oom': ('oom', SMALL, BOTH),
    'stacks': ('stacks', PAUSE, BOTH + ALL + ('--call-stack=c:20,python:20',)),
    'threads': ('threads', {}, BOTH),
    'train_mstx': ('train', TRAIN, BOTH),
    'train_stacks': ('train', dict(OWNERS, STEPS='1'), BOTH + ('--call-stack=python:8,c:6',)),
    # Kernels are launched by a thread of their own, some of them when the next step has begun.
    'train_steps23': ('train', dict(TRAIN, STEPS='4'), BOTH + ('--steps=2,3',), (), ('KERNEL_LAUNCH/KERNEL_LAUNCH',)),
    'train_torchmark': ('train', dict(TRAIN, MARK='torch_npu'), BOTH),
    'train_tq0': ('train', dict(TRAIN, TASK_QUEUE_ENABLE='0'), BOTH),
    'train_tq2': ('train', dict(TRAIN, TASK_QUEUE_ENABLE='2'), BOTH),
    # What it writes beside these rows are contents of device memory: --watch is refused.
    'watch': ('watch', {'ASCEND_LAUNCH_BLOCKING': '1'}, ()),
    'ws2streams': ('ws', {'TASK_QUEUE_ENABLE': '2', 'SIM_WS_BYTES': '3000000'}, BOTH),
    'now_access': ('train', OWNERS, KERNELS + ALL + ('--analysis=leaks,inefficient,decompose',)),
    'now_alloc': ('alloc', {}, KERNELS),
    'now_deferred': ('custom', NOW, ('--collect-mode=deferred',) + ALL),
    'now_describe': ('describe', NOW, ALL + DECOMPOSE),
    'now_exp': ('expand', {'PYTORCH_NPU_ALLOC_CONF': 'expandable_segments:True'}, KERNELS),
    'now_fork': ('fork', {}, ()),
    # K is that of the option, not always 10.
    'now_oom': ('oom', SMALL, ('--level=op', '--analysis=oom')),
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
                out.pop()  # its snapshot
                continue
        out.append(id(r))
    return [r for r in rows if id(r) in set(out)]


def is_odd(case, r):
    """An operator that only one of the two can see (differences.txt, operators)."""
    if r['event'] != 'OP_LAUNCH':
        return False
    odd = re.match(r'torch\._ops\.(profiler|c10d|aten\.detach)\.', r['name'])
    return odd or (case == 'threads' and r['tid'] != r['pid'])


def without_parts(ours, theirs):
    """Of collectives the operators that they are made of are seen, not themselves: those between the vendor's go."""
    def operators(rows, pid):
        return sorted((r for r in rows if r['event'] == 'OP_LAUNCH' and r['pid'] == pid), key=lambda r: r['id'])
    gone = set()
    for a, b in zip(golden.processes(ours).values(), golden.processes(theirs).values()):
        wanted = [(r['type'], r['name']) for r in operators(b, b[0]['pid'])][::-1]
        for r in operators(a, a[0]['pid']):
            if wanted and wanted[-1] == (r['type'], r['name']):
                wanted.pop()
            else:
                gone.add(id(r))
        assert not wanted, f'without {wanted[::-1][:2]}'
    return [r for r in ours if id(r) not in gone]


def of_parent(case, rows):
    """The rows of a process that forks: not those of its child (differences.txt, forked)."""
    first = min(rows, key=lambda r: r['time'])
    if case == 'now_fork':
        # V-now's file holds those before the fork twice: from the child's exit, and then from the parent's.
        again = [i for i, r in enumerate(rows) if (r['id'], r['time'], r['event']) == (rows[0]['id'], rows[0]['time'], rows[0]['event'])]
        rows = rows[again[-1]:]
    elif len({r['pid'] for r in rows}) == 1:
        # V-seed's child counts on under the parent's PID: of two rows with a number the earlier is its.
        last = {r['id']: r['time'] for r in sorted(rows, key=lambda r: r['time'])}
        rows = [r for r in rows if r['time'] == last[r['id']]]
        # It has freed the block, so the parent's FREE has a new number.
        known = {}
        for r in sorted(rows, key=lambda r: r['time']):
            key = r['type'], r['ptr']
            if r['event'] in ('MALLOC', 'FREE'):
                known[key] = r['allocation_id'] = known[key] if r['event'] == 'FREE' else r['allocation_id']
                r['attr']['allocation_id'] = str(known[key])
    child = [r['type'] for r in rows if r['pid'] != first['pid']]
    assert set(child) <= {'START_TRACE', 'ACL_FINI'}, child
    # The child's FREE has written the rows of its block early.
    return sorted((r for r in rows if r['pid'] == first['pid']), key=lambda r: r['id'])


def short_gradients(ours, theirs):
    """Gradients that live for a step only may be missed by a reading from outside (differences.txt, owner)."""
    def gradients(rows):
        end = [r['time'] for r in rows if r['type'] == 'ACL_FINI'] or [1 << 63]
        freed = {r['attr']['allocation_id']: r['time'] for r in rows if r['event'] == 'FREE'}
        blocks = sorted((r for r in rows if r['event'] == 'MALLOC' and r['type'] == 'PTA'), key=lambda r: r['time'])
        return [(r['attr'], freed.get(r['attr']['allocation_id'], end[0]) < end[0]) for r in blocks]
    for (a, gone), (b, _) in zip(gradients(ours), gradients(theirs)):
        if gone and 'gradient' in b.get('owner', ''):
            short = {'PTA', 'PTA@ops', 'PTA@ops@aten', b['owner']}
            if a.get('owner') in short:
                a['owner'] = b['owner']


def python_frames(cell):
    """Frames of a cell by file, line and function, without those of the vendor's mode; the innermost of them."""
    frames = [re.sub(r'.*/', '', x) for x in cell.strip('\n').split('\n')
              if not re.search(r'/python/ms(leaks|memscope)/|/torch/_ops\.py\(\d+\): __call__|/_pytree\.py', x)]
    # A thread without Python: empty in V-seed's, NA in V-now's and in ours.
    return tuple(x for x in frames[:4] if x not in ('NA', ''))


FRAME = re.compile(r'(?P<file>\S*)\((?P<symbol>[^()]*)\+0x(?P<off>[0-9a-f]+)\) \[0x(?P<addr>[0-9a-f]+)\]$')


def add_c_frames(rows, n):
    """To rows of PTA n callers in torch_npu, as addresses in its file.

    The vendor's tool is called at another place of the allocator than ours stands at: who calls that one is the same.
    Functions with a symbol may be another library's of the same name, by the order in which they were loaded; further
    out the vendor's dispatch mode comes in between."""
    frames = {id(r): [m for m in map(FRAME.match, r['call_c'].splitlines()) if m and m['file'].endswith('/libtorch_npu.so')]
              for r in rows if r['type'] == 'PTA' and r['event'] in ('MALLOC', 'FREE')}
    bases = {int(m['addr'], 16) - int(m['off'], 16) for v in frames.values() for m in v if not m['symbol']}
    assert len(bases) == 1, bases
    for r in rows:
        if id(r) in frames:
            callers = [int(m['addr'], 16) - min(bases) for m in frames[id(r)] if not m['symbol']][2:2 + n]
            assert len(callers) == n, r
            r['attr']['c'] = tuple(callers)


def of_child(events):
    """The vendor's trace without what its forked child frees: the first time that nothing is left."""
    at = next(i for i, e in enumerate(events) if e[1] == 'torch allocated memory' and e[5] == [('size', 0)])
    return events[:at - 1] + events[at + 1:]


def edited(case, rows):
    """Without what differs on purpose."""
    if case in ('fork', 'now_fork'):
        rows = of_parent(case, rows)
    rows = [r for r in rows if not is_odd(case, r)]
    if case == 'ws2streams':
        # What empty_cache has given back comes again in the order of the addresses of streams.
        last = max(r['time'] for r in rows if r['event'] == 'MALLOC' and r['type'] == 'PTA_WORKSPACE')
        for r in rows:
            r['ptr'] = r['ptr'] + 1 if r['type'] == 'PTA_WORKSPACE' and r['time'] >= last else r['ptr']
    for r in rows:
        if r['attr'].get('shadow'):
            r['attr'].pop('alloc_type', None)  # V-now's says create of all
        # V-now raises an exception where an object or address is to have a label.
        if case == 'now_describe' and 'owner' in r['attr']:
            r['attr']['owner'] = re.sub('@obj2?|@addr', '', r['attr']['owner'])
        if r['name'] == 'OOM_Snapshot':
            # What the device has cannot be read from outside.
            for key in ('total', 'free', 'device_rate'):
                assert r['attr'].pop(key)
        elif r['event'] == 'SNAPSHOT':
            r['name'] = r['name'].replace('ctx', 'Memory Snapshot')
            # The simulated runtime keeps 2 MiB for itself.
            free = int(r['attr'].pop('free'))
            rate = (int(r['attr']['total']) - free) / int(r['attr']['total']) * 100
            assert r['attr'].pop('device_rate') == f'{rate:f}', r
        elif r['type'] == 'START_TRACE' and r['attr']:
            assert 0 < int(r['attr'].pop('free')) < int(r['attr']['total']), r
        if 'stacks' in case:
            # A line stands above our copy of the program.
            r['attr']['python'] = python_frames(re.sub(r'(/programs/\w+\.py)\((\d+)\)',
                                                       lambda m: f'{m[1]}({int(m[2]) - 1})', r['call_py']))
    if 'stacks' in case:
        add_c_frames(rows, 1 if case == 'train_stacks' else 2)  # of 6 frames, and of 20
    return rows


def replay(b, case):
    program, env, options, drop, without = (*CASES[case], (), ())[:5]
    if b.version() != RELEASE:
        raise Skip(f"{b.version()}: the vendor's runs are of {RELEASE}")
    out, console = run(b, case, program, env, options)
    dump = golden.one_of(os.path.join(out, 'dump', '*_dump_*'))
    theirs = golden.rows_of(golden.vendor_file(case, '*_dump_*', b.folder))
    theirs = outermost(theirs)
    ours, theirs = edited(case, golden.rows_of(dump)), edited(case, theirs)
    short_gradients(ours, theirs)
    if case == 'hccl':
        ours = without_parts(ours, theirs)
    differs = golden.compare(ours, theirs, drop, tuple(without),
                             golden.UNORDERED + (('START_TRACE', 'STOP_TRACE') if case.startswith('now_') else ()))
    if not case.startswith('now_'):
        kernels = 'KERNEL_LAUNCH/KERNEL_LAUNCH' not in without
        differs.update(golden.compare_traces(case, readers.traces_of(out), b.folder, kernels,
                                             edit=of_child if case == 'fork' else None))
    path = os.path.join(golden.DATA, case, 'console.txt')
    told = []
    if os.path.exists(path):  # it told nothing
        with open(path, encoding='utf-8') as f:
            told = golden.analysis_lines(f.read())
    # What is inefficient and what is decomposed is told at the end, too.
    ours = golden.analysis_lines(re.split(r'^====== Inefficient|^======= \w+ of Device', console, flags=re.M)[0])
    if case == 'now_fork':
        told = told[1:]  # of the child
    if ours != told:
        differs['console'] = f'{ours}, the vendor {told}'
    if differs:
        raise AssertionError('; '.join(f'{k}: {v[:300]}' for k, v in differs.items()))
    return f'{len(theirs)} rows of the vendor'


def test_compare_seed(b):
    """Two steps against each other: the same bytes, and a line on the console for the file."""
    inputs = ','.join(golden.vendor_file('compare_seed', name + '.csv*', b.folder) for name in ('base', 'compare'))
    for level in ('0', '1', '0,1'):
        out = os.path.join(b.folder, level.replace(',', '_'))
        p = b.start('compare' + level, [b.memtap, 'msleaks', '--compare', '--input=' + inputs, '--level=' + level, '--output=' + out])
        assert p.wait() == 0, p.tail()
        path = golden.one_of(os.path.join(out, 'compare', '*'))
        want = golden.one_of(os.path.join(golden.DATA, 'compare_seed', f'memory_compare_level_{level.replace(",", "_")}.csv*'))
        assert p.text() == f'[msleaks] Info: create file {path}.\n', p.text()
        with open(path, 'rb') as f, open(want, 'rb') as g:
            assert f.read() == g.read(), level
    return '3 files of the vendor'


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
    differs = golden.compare(ours, theirs, ('allocation_id',), host)
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
