# SPDX-License-Identifier: Apache-2.0
"""memtap cut: every row, as it was, in the right file."""
import glob
import os
import shutil
import sqlite3
import sys
import tempfile

from harness import HEADER, TOP, rows_of

sys.path.insert(0, os.path.join(TOP, 'tests/live'))
from readers.insight import insight  # noqa: E402

CASES = ('access', 'describe', 'stacks', 'dev2', 'now_access', 'now_oom', 'now_snapshot', 'train_mstx')


class Folder:
    def __enter__(self):
        self.path = tempfile.mkdtemp()
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


def cut(memtap, folder, *args):
    run = memtap('cut', '-o', folder, *args)
    assert run.status == 0 and not run.out, run.err
    return sorted(glob.glob(folder + '/**/leaks_dump_*', recursive=True))


def plain(row):
    return {k: v for k, v in row.items() if k not in ('Attr', 'attrs')}, list(row['attrs'].items())


def test_cut_of_everything(golden, memtap):
    """Through csv and db and back each row is the same."""
    for case in CASES:
        with Folder() as folder:
            (one,) = cut(memtap, folder + '/1', golden(case))
            (two,) = cut(memtap, folder + '/2', '--data-format=db', one)
            (three,) = cut(memtap, folder + '/3', two)
            want = [plain(r) for r in rows_of(golden.dump(case))]
            pre = [r for r in rows_of(one) if 'preattach' in r['attrs']]
            assert not pre or case == 'now_snapshot', pre
            assert [plain(r) for r in rows_of(one)] == want, case
            assert [plain(r) for r in rows_of(three)] == want, case
            for name in (one, two):
                assert os.stat(name).st_mode & 0o777 == 0o600
            assert memtap('leaks', two).out == memtap('leaks', golden(case)).out


def test_cut_db_for_insight(golden, memtap):
    for case in ('access', 'dev2', 'train_mstx'):
        with Folder() as folder:
            (path,) = cut(memtap, folder, '--data-format=db', golden(case))
            wrong = insight(path)
            assert not wrong, (case, wrong)


def write(folder, rows):
    path = os.path.join(folder, 'leaks_dump_1.csv')
    with open(path, 'w') as f:
        f.write(HEADER + '\n' + ''.join(r + '\n' for r in rows))
    return path


def malloc(i, event='MALLOC', block=1, pid=7, device=0):
    return '%d,%s,PTA,N/A,%d,%d,7,%d,%d,"{allocation_id:%d,addr:%d,size:512,new_key:a b}",,' % (
        i, event, 1000000000 + i * 100000000, pid, device, block * 512, block, block * 512)


def test_cut_window(golden, memtap):
    rows = [malloc(1, block=1), malloc(2, block=2), malloc(3, 'FREE', 1), malloc(4, block=3), malloc(5, 'FREE', 2),
            malloc(6, 'FREE', 3)]
    with Folder() as folder:
        path = write(folder, rows)

        def ids(*args):
            shutil.rmtree(folder + '/out', ignore_errors=True)
            (name,) = cut(memtap, folder + '/out', *args, path)
            return ''.join(r['ID'] + ('p' if 'preattach' in r['attrs'] else '') for r in rows_of(name))
        assert ids() == '123456'
        assert ids('--from=1200000000', '--to=1500000000') == '23p4'
        assert ids('--from=+0.1', '--to=+0.4') == '23p4'
        assert ids('--from=+0.100000001') == '3p45p6'
        assert ids('--to=+0') == '' and ids('--from=+99') == ''
        # In a db such FREEs stand in a table of their own, so that its rules hold.
        shutil.rmtree(folder + '/out')
        (name,) = cut(memtap, folder + '/out', '--from=+0.1', '--data-format=db', path)
        db = sqlite3.connect(name)
        assert [i for i, in db.execute('SELECT ID FROM leaks_dump')] == [2, 4, 5, 6]
        assert [i for i, in db.execute('SELECT ID FROM preattach_free')] == [3]
        db.close()
        assert not insight(name, late_attach=True), insight(name, late_attach=True)
        # And they keep to it when that db is cut again.
        (again,) = cut(memtap, folder + '/again', '--data-format=db', name)
        assert sqlite3.connect(again).execute('SELECT Attr FROM preattach_free').fetchall() == [
            ('{"allocation_id":"1","addr":"512","size":"512","new_key":"a b","preattach":"true"}',)]


def test_cut_steps(golden, memtap):
    rows = sorted(rows_of(golden.dump('train_mstx')), key=lambda r: int(r['Timestamp(ns)']))
    marks = [i for i, r in enumerate(rows) if r['Event'] == 'MSTX']
    assert len(marks) == 6
    with Folder() as folder:
        (name,) = cut(memtap, folder, '--from=step:2', '--to=step:3', golden('train_mstx'))
        got = sorted(rows_of(name), key=lambda r: int(r['Timestamp(ns)']))
        assert [r['ID'] for r in got] == [r['ID'] for r in rows[marks[2]:marks[5] + 1]]
        run = memtap('cut', '-o', folder + '/x', '--from=step:4', golden('train_mstx'))
        assert run.status == 1 and 'step 4 does not begin' in run.err and not os.path.exists(folder + '/x'), run.err
        # Two steps cut out, compared.
        (a,) = cut(memtap, folder + '/a', '--from=step:2', '--to=step:2', golden('train_mstx'))
        (b,) = cut(memtap, folder + '/b', '--from=step:3', '--to=step:3', golden('train_mstx'))
        out = memtap('compare', '--level=1', a, b).out
        assert out.count('KERNEL_LAUNCH,aclnn') == 22 and 'N/A' not in out, out


def test_cut_split(golden, memtap):
    rows = rows_of(golden.dump('hccl'))
    pids = sorted({r['Process Id'] for r in rows})
    assert len(pids) == 2
    for by, key, names in (
            ('process', lambda r: {'process_' + r['Process Id']}, 2),
            ('device', lambda r: {'device_' + r['Device Id']} if r['Device Id'] != 'N/A' else {'device_0', 'device_1'}, 2),
            ('process,device', lambda r: {'process_%s_device_%s' % (r['Process Id'], d) for d in (
                {r['Device Id']} if r['Device Id'] != 'N/A' else {x['Device Id'] for x in rows if x['Device Id'] != 'N/A'
                                                                  and x['Process Id'] == r['Process Id']})}, 2)):
        with Folder() as folder:
            files = cut(memtap, folder, '--split=' + by, golden('hccl'))
            want = {}
            for r in rows:
                for k in key(r):
                    want.setdefault(k, []).append((r['Process Id'], r['ID'], r['Event']))
            got = {os.path.relpath(f, folder).split('/')[0]: [(r['Process Id'], r['ID'], r['Event']) for r in rows_of(f)]
                   for f in files}
            assert got == want and len(files) == names, (by, sorted(got), sorted(want))
            # Together they are the capture again.
            for c in ('leaks', 'gap'):
                assert memtap(c, folder).out == memtap(c, golden('hccl')).out, (by, c)


def test_cut_owners(golden, memtap):
    """The owners beside a dump go with its blocks; those of before it where they were read."""
    with Folder() as folder:
        rows = [r for r in rows_of(golden.dump('dev2')) if r['Event'] == 'MALLOC' and r['Event Type'] == 'PTA']
        times = sorted(int(r['Timestamp(ns)']) for r in rows)
        shutil.copy(golden.dump('dev2'), folder + '/leaks_dump_1.csv')
        head = 'Process Id,Device Id,Event Type,allocation_id,Ptr,Size(byte),Timestamp(ns),Owner,Confidence'
        lines = [f"{r['Process Id']},{r['Device Id']},PTA,{r['attrs']['allocation_id']},{int(r['Ptr'], 0)},512,{times[-1]},PTA@a,0.50"
                 for r in rows]
        early = [f"{rows[0]['Process Id']},{d},PTA,,{4096 * (d + 1)},512,{t},PTA@b,1.00" for d in (0, 1) for t in (times[0] - 1, times[-1])]
        with open(folder + '/owners_1.csv', 'w') as f:
            f.write('\n'.join([head, *lines, *early]) + '\n')

        def owners(*args):
            shutil.rmtree(folder + '/cut', ignore_errors=True)
            got = {}
            for path in cut(memtap, folder + '/cut', *args, folder + '/leaks_dump_1.csv'):
                name = path.replace('leaks_dump_', 'owners_').replace('.db', '.csv')
                assert os.stat(name).st_mode & 0o777 == 0o600
                with open(name) as f:
                    got[os.path.relpath(path, folder + '/cut').split('/')[0]] = f.read().split('\n')[:-1]
            return got
        assert owners() == {'dump': [head, *lines, *early]}
        assert owners('--data-format=db') == {'dump': [head, *lines, *early]}
        assert owners('--from=%d' % times[0]) == {'dump': [head, *lines, early[1], early[3]]}
        split = owners('--split=device')
        assert set(split) == {'device_0', 'device_1'} and split['device_1'][-2:] == early[2:] and \
            all(x.split(',')[1] == '1' for x in split['device_1'][1:]) and sum(map(len, split.values())) == len(lines) + 6, split
        out = memtap('decompose', '--blocks', folder + '/cut').out
        assert out.count('PTA@a,0.50,objects') == len(lines) and out.count('PTA@b,1.00,objects') == 2, out


def test_cut_hostile_text(golden, memtap):
    """Quotes, newlines and formulas of the program's own; read back as they were."""
    with Folder() as folder:
        path = write(folder, ['1,MSTX,Mark,"a,b "q" x",1000,7,7,0,N/A,,,', '2,MSTX,Mark,"=1+1",1001,7,7,0,N/A,,,',
                              '3,KERNEL_LAUNCH,KERNEL_LAUNCH,k<int, 2>,1002,7,7,0,N/A,"{streamId:1,taskId:2}",,',
                              '4,MALLOC,PTA,N/A,1003,7,7,0,512,"{allocation_id:1,addr:512,size:512,owner:@a"b,c@d}",'
                              '"=f.py(1): "x"\n",'])
        (one,) = cut(memtap, folder + '/1', path)
        (two,) = cut(memtap, folder + '/2', '--data-format=db', one)
        (three,) = cut(memtap, folder + '/3', two)
        for name in (one, three):
            got = rows_of(name)
            assert [r['Name'] for r in got] == ['a,b "q" x', '', 'k<int, 2>', 'N/A'], got
            assert got[3]['attrs']['owner'] == '@a"b,c@d' and got[3]['Call Stack(Python)'].endswith('=f.py(1): "x"\n'), got


def test_cut_usage(golden, memtap):
    with Folder() as folder:
        for args, status, word in (((), 2, 'one DIR or FILE'), (('x',), 2, '-o'), (('-o', folder, 'a', 'b'), 2, '2 given'),
                                   (('-o', folder, '--from=x', 'a'), 2, "--from 'x'"), (('-o', folder, '--to=+', 'a'), 2, '--to'),
                                   (('-o', folder, '--to=step:0', 'a'), 2, '--to'), (('-o', folder, '--split=x', 'a'), 2, '--split'),
                                   (('-o', folder, '--data-format=x', 'a'), 2, 'csv or db'),
                                   (('-o', folder, '/nowhere'), 1, '/nowhere'), (('-o', '/proc/x', golden('dev2')), 1, '/proc/x'),
                                   (('-o', folder, '--from=2', '--to=1', golden('dev2')), 1, 'ends before')):
            run = memtap('cut', *args)
            assert run.status == status and word in run.err, (args, run.status, run.err)
