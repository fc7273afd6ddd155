# SPDX-License-Identifier: Apache-2.0
"""memtap decompose: the vendor's labels, the truth that a program logged, and each condition of a rule."""
import json
import os
import re
import shutil
import sqlite3
import tempfile

from harness import HEADER, read_csv, rows_of


def blocks(memtap, *args):
    run = memtap('decompose', '--blocks', *args)
    assert run.status == 0, run.err
    return read_csv(run.out)


def test_decompose_golden_labels(golden, memtap):
    """What the vendor's tool wrote is what we say, also labels that the program gave."""
    for case in ('access', 'now_access', 'describe', 'now_describe', 'decompose_only'):
        want = {r['attrs']['allocation_id']: r['attrs']['owner'] for r in rows_of(golden.dump(case))
                if r['Event'] == 'MALLOC' and 'owner' in r['attrs']}
        got = {r['allocation_id']: r['Owner'] for r in blocks(memtap, golden(case)) if r['Source'] == 'dump'}
        assert got == want and len(want) >= 6, (case, len(got), len(want))
    db = sqlite3.connect(golden.dump('db'))
    want = {json.loads(a)['allocation_id']: json.loads(a)['owner']
            for a, in db.execute("SELECT Attr FROM leaks_dump WHERE Event='MALLOC'")}
    assert {r['allocation_id']: r['Owner'] for r in blocks(memtap, golden('db'))} == want


def test_decompose_sums(golden, memtap):
    """Owners add up to the pool, at its peak and at the end, recomputed from the rows."""
    for case in ('access', 'train_stacks', 'dev2', 'train_tq2', 'stacks', 'now_train'):
        got = {}
        for r in read_csv(memtap('decompose', '--format=csv', golden(case)).out):
            key = (r['Device Id'], r['Event Type'])
            got.setdefault(key, [0, 0, 0])
            for i, c in enumerate(('Peak(byte)', 'End(byte)', 'Allocated(byte)')):
                got[key][i] += int(r[c])
        want, live = {}, {}
        for r in sorted(rows_of(golden.dump(case)), key=lambda r: int(r['Timestamp(ns)'])):
            if r['Event'] not in ('MALLOC', 'FREE') or 'shadow' in r['attrs']:
                continue
            key = (r['Device Id'], r['Event Type'])
            w, now = want.setdefault(key, [0, 0, 0]), live.setdefault(key, {})
            if r['Event'] == 'MALLOC':
                now[r['Ptr']] = int(r['attrs']['size'])
                w[2] += now[r['Ptr']]
            else:
                now.pop(r['Ptr'])
            w[0], w[1] = max(w[0], sum(now.values())), sum(now.values())
        if case == 'now_train':  # made-up FREEs at the exit
            want = {k: v for k, v in want.items() if k[1] == 'PTA'}
            got = {k: v for k, v in got.items() if k[1] == 'PTA'}
        assert got == want, (case, got, want)


def test_decompose_truth_by_stacks(golden, memtap):
    """Parameters, gradients and optimizer state whose addresses the program logged at the end of a step."""
    with open(golden('train_stacks/truth.json')) as f:
        truth = json.load(f)
    found = {}
    for r in blocks(memtap, golden('train_stacks')):
        m = re.match('PTA@model@(weight|gradient|optimizer_state)', r['Owner'])
        if m:
            assert r['Source'].startswith('rule') and float(r['Confidence']) >= 0.8
            found.setdefault(m[1], []).append(int(r['Ptr']))
    assert {k: sorted(v) for k, v in found.items()} == truth, found


def test_decompose_truth_by_accesses(golden, memtap):
    """Without stacks and owners: the labels that the vendor's hooks in the program gave."""
    folder = tempfile.mkdtemp()
    try:
        path = os.path.join(folder, 'memscope_dump_1.csv')
        with open(golden.dump('now_access')) as f, open(path, 'w') as g:
            g.write(re.sub(r',owner:[^,}]*', '', f.read()))
        want = {r['attrs']['allocation_id']: r['attrs']['owner'] for r in rows_of(golden.dump('now_access'))
                if r['Event'] == 'MALLOC'}
        same = {'PTA@weight@ops': 'PTA@model@weight', 'PTA@gradient@ops': 'PTA@model@gradient',
                'PTA@optimizer_state@ops': 'PTA@model@optimizer_state', 'PTA@ops': 'PTA@ops@aten', 'PTA': 'PTA',
                'CANN@APP': 'CANN'}
        got = {r['allocation_id']: r['Owner'] for r in blocks(memtap, path)}
        wrong = {i: (got[i], want[i]) for i in want if got[i] != same[want[i]]}
        assert not wrong and len(want) > 100, wrong
    finally:
        shutil.rmtree(folder)


ROWS = [
    '1,MALLOC,PTA,N/A,1001,7,7,0,512,"{allocation_id:1,addr:512,size:512,total:9,used:512}",,',
    '2,MSTX,Range_start,"step start",1002,7,7,0,N/A,,,',
    '3,OP_LAUNCH,ATEN_START,torch._ops.aten.mm.default,1003,7,9,0,N/A,,,',
    '4,MALLOC,PTA,N/A,1004,7,9,0,4096,"{allocation_id:2,addr:4096,size:1024,total:9,used:1536}",'
    '"/x/a b.py(3): f\n/x/c.py(4): <module>","lib.so(_Z1gv+0x1) [0x1]\n"',
    '5,OP_LAUNCH,ATEN_END,torch._ops.aten.mm.default,1005,7,9,0,N/A,,,',
    '6,ACCESS,READ,torch._ops.aten.relu.default,1006,7,7,0,4100,"{allocation_id:2,addr:4100,size:4,type:PTA}",,',
    '7,ACCESS,WRITE,torch._ops.aten.add_.Tensor,1007,7,7,0,4096,"{allocation_id:2,addr:4096,size:4,type:PTA}",,',
    '8,OP_LAUNCH,ATEN_START,torch._ops.aten.x.default,1008,7,7,0,N/A,,,',
    '9,MSTX,Range_end,"Range end from id 1",1009,7,7,0,N/A,,,',
    '10,FREE,PTA,N/A,1010,7,7,0,4096,"{allocation_id:2,addr:4096,size:1024,total:9,used:512}",,',
    '11,MALLOC,HAL,N/A,1011,7,7,0,8192,"{allocation_id:3,addr:8192,size:2097152,owner:@mine}",,',
    '12,MALLOC,ATB,N/A,1012,7,7,0,16384,"{allocation_id:4,addr:16384,size:64,total:9,used:64,owner:ATB}",,',
]


def test_decompose_conditions(golden, memtap):
    """Each condition, once as it holds for block 2 and for no other, once as it does not."""
    folder = tempfile.mkdtemp()
    try:
        dump, rules = os.path.join(folder, 'leaks_dump_1.csv'), os.path.join(folder, 'my.rules')
        with open(dump, 'w') as f:
            f.write(HEADER + '\n' + '\n'.join(ROWS) + '\n')

        def labelled(text, *args):
            with open(rules, 'w') as f:
                f.write(text)
            return {r['allocation_id']: (r['Owner'], r['Confidence'], r['Source'])
                    for r in blocks(memtap, '--rules=' + rules, '--no-default-rules', *args, dump)}
        none = {'1': ('PTA', '1.00', 'pool'), '2': ('PTA', '1.00', 'pool'), '3': ('CANN@mine', '1.00', 'dump'),
                '4': ('ATB', '1.00', 'dump')}
        assert labelled('# nothing\n') == none, labelled('# nothing\n')
        for holds, fails in (('"python=a b\\.py\\(3\\): f$"', '"python=^b\\.py"'), ('c=_Z1gv', 'c=_Z2gv'),
                             ('python!=nothing', 'python!=module'), ('c!=nothing', 'c!=lib'),
                             ('op=aten[.]mm', 'op=relu'), ('reads=relu', 'reads=add_'), ('writes=add_', 'writes=relu'),
                             ('accessed', 'accessed pool=HAL'), ('thread=other', 'thread=main size>=1024 pool=PTA'),
                             ('ends>=1 step>=1', 'ends>=2'), ('step>=1 pool=PTA', 'step>=2'),
                             ('calls<=1 size>=1000 pool=PTA,ATB', 'calls>=2 pool=PTA step>=1'),
                             ('size>=1024 size<=1024', 'size>=1025 size<=2000')):
            got = labelled('A@b.c 0.25 %s\n' % holds)
            assert got == dict(none, **{'2': ('A@b.c', '0.25', 'rule 1')}), (holds, got)
            got = labelled('A@b.c 0.25 %s\n' % fails)
            assert got == none, (fails, got)
        # The first that holds decides; the program's label stays; a stated pool only with --refine.
        got = labelled('X 1 pool=MINDSPORE\nB 0.5 pool=ATB\nH@k 0.5 pool=HAL\nC 0.1\n')
        assert got == {'1': ('C', '0.10', 'rule 4'), '2': ('C', '0.10', 'rule 4'), '3': ('H@k@mine', '0.50', 'rule 3'),
                       '4': ('ATB', '1.00', 'dump')}, got
        assert labelled('B 0.5 pool=ATB\n', '--refine')['4'] == ('B', '0.50', 'rule 1')
        # Ours come before the default ones.
        with open(rules, 'w') as f:
            f.write('MINE 0.5 accessed\n')
        assert [r['Owner'] for r in blocks(memtap, '--rules=' + rules, dump) if r['allocation_id'] == '2'] == ['MINE']
        assert [r['Owner'] for r in blocks(memtap, dump) if r['allocation_id'] == '2'] == ['PTA@ops@aten']
        # Two dumps with the same rules: texts of one must not be taken for those of the other.
        with open(rules, 'w') as f:
            f.write('HERE 0.5 "python=: f$"\n')
        second = os.path.join(folder, 'leaks_dump_2.csv')
        with open(second, 'w') as f:
            f.write(HEADER + '\n' + '\n'.join(ROWS).replace('(3): f', '(3): g') + '\n')
        for a, b in ((dump, second), (second, dump)):
            run = memtap('decompose', '--no-default-rules', '--rules=' + rules, a, b)
            assert run.out.count('HERE') == 1 and run.status == 0, run.out
    finally:
        shutil.rmtree(folder)


def test_decompose_rules_that_are_wrong(golden, memtap):
    folder = tempfile.mkdtemp()
    try:
        rules = os.path.join(folder, 'my.rules')
        for text, line, word in (('A\n', 1, 'confidence'), ('# x\nA 2\n', 2, 'confidence'), ('A 1 pool=X\n', 1, 'no such pool'),
                                 ('A 1 python=(\n', 1, 'expression'), ('A 1 "c=x\n', 1, 'not closed'),
                                 ('A,b 1\n', 1, 'label'), ('A 1 what=1\n', 1, 'no such condition'),
                                 ('A 1 ends>=x\n', 1, 'number'), ('A 1 reads!=x\n', 1, '!='), ('A 1 ends=1\n', 1, 'condition'),
                                 ('A 1 c=x\n' * 65, 65, '64'), ('A 1\n' * 257, 257, '256'), ('A 1\0\n', 1, 'zero'),
                                 ('A 1 c=%s\n' % ('x' * 5000), 1, '4095')):
            with open(rules, 'w') as f:
                f.write(text)
            run = memtap('decompose', '--rules=' + rules, golden('access'))
            assert run.status == 2 and '%s, line %d: ' % (rules, line) in run.err and word in run.err and not run.out, \
                (text[:40], run.err)
        run = memtap('decompose', '--rules=/nowhere', golden('access'))
        assert run.status == 1 and '/nowhere' in run.err
        run = memtap('decompose')
        assert run.status == 2 and 'no DIR or FILE' in run.err
        with open(rules, 'w') as f:
            f.write(memtap('decompose', '--print-rules').out)
        assert memtap('decompose', '--no-default-rules', '--rules=' + rules, golden('train_stacks')).out == \
            memtap('decompose', golden('train_stacks')).out
    finally:
        shutil.rmtree(folder)


def test_decompose_says_what_is_not_seen(golden, memtap):
    folder = tempfile.mkdtemp()
    try:
        dump = os.path.join(folder, 'leaks_dump_1.csv')
        with open(dump, 'w') as f:
            f.write(HEADER + '\n1,MALLOC,PTA,N/A,1001,7,7,0,512,"{allocation_id:1,addr:512,size:1048576,total:9,used:3145728}",,\n')
        out = memtap('decompose', dump).out
        assert 'peak 3.0000 MB, end 3.0000 MB' in out, out
        assert re.search(r'\(of before the dump, or not seen\) +2\.0000 +2\.0000\n', out), out
    finally:
        shutil.rmtree(folder)


def test_decompose_owners_of_objects(golden, memtap):
    """What was read from Python objects decides before rules; blocks of before the dump are told with their size."""
    folder = tempfile.mkdtemp()
    try:
        dump = os.path.join(folder, 'leaks_dump_1.csv')
        with open(dump, 'w') as f:
            f.write(HEADER + '\n' + '\n'.join([*ROWS, '13,FREE,PTA,N/A,1013,7,7,0,131072,'
                                               '"{allocation_id:0,addr:131072,size:2048,total:9,used:512,preattach:true}",,']) + '\n')
        head = 'Process Id,Device Id,Event Type,allocation_id,Ptr,Size(byte),Timestamp(ns),Owner,Confidence\n'
        owners = os.path.join(folder, 'owners_1.csv')

        def told(*lines):
            with open(owners, 'w') as f:
                f.write(head + ''.join(x + '\n' for x in lines))
            return {(r['allocation_id'], r['Ptr']): (r['Owner'], r['Confidence'], r['Source'], r['Size(byte)'], r['Freed(ns)'])
                    for r in blocks(memtap, dump)}
        without = {k: v for k, v in told().items()}
        assert without[('2', '4096')][0] == 'PTA@ops@aten' and len(without) == 4, without
        got = told('7,0,PTA,2,4096,1024,1005,PTA@model@weight,1.00')
        assert got == {**without, ('2', '4096'): ('PTA@model@weight', '1.00', 'objects', '1024', '1010')}, got
        # The last word counts; of another process it is no word at all; what the dump states stays.
        got = told('7,0,PTA,2,4096,1024,1005,PTA@model@weight,1.00', '7,0,PTA,2,4096,1024,1006,PTA@model@gradient,0.90',
                   '8,0,PTA,1,512,512,1005,PTA@model@weight,1.00', '7,0,ATB,4,16384,64,1005,PTA@model@weight,1.00')
        assert got[('2', '4096')][:3] == ('PTA@model@gradient', '0.90', 'objects') and \
            {k: v for k, v in got.items() if k[0] != '2'} == {k: v for k, v in without.items() if k[0] != '2'}, got
        # Of before the dump: one is freed, one lives, one is told twice.
        early = ('7,0,PTA,,131072,2048,1005,PTA@model@weight,1.00', '7,0,PTA,,262144,4096,1005,PTA@model@weight,1.00',
                 '7,0,PTA,,262144,4096,1006,PTA@model@buffer,1.00')
        got = told(*early)
        assert got == {**without, ('0', '131072'): ('PTA@model@weight', '1.00', 'objects', '2048', '1013'),
                       ('0', '262144'): ('PTA@model@buffer', '1.00', 'objects', '4096', '')}, got
        with open(owners, 'w') as f:
            f.write(head + '\n'.join(early) + '\n')
        out = memtap('decompose', dump).out
        assert re.search(r'PTA@model@buffer +0\.0039 +0\.0039 .*objects', out), out
        # Of a db; with lines that are none; only of this dump.
        shutil.copy(dump, os.path.join(folder, 'leaks_dump_2.csv'))
        assert 'objects' not in memtap('decompose', os.path.join(folder, 'leaks_dump_2.csv')).out
        with open(owners, 'a') as f:
            f.write('nonsense\n')
        run = memtap('decompose', '--strict', dump)
        assert run.status == 3 and '1 lines of the owners' in run.err and 'PTA@model@buffer' in run.out, run.err
        os.remove(owners)
        os.mkfifo(owners)
        run = memtap('decompose', dump)
        assert run.status == 1 and 'owners_1.csv' in run.err, run.err
    finally:
        shutil.rmtree(folder)
