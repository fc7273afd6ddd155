# SPDX-License-Identifier: Apache-2.0
"""memtap watch: the events of chosen blocks, held against the rows of the dump themselves."""
import os
import tempfile

from harness import HEADER, read_csv, rows_of


def events(golden, memtap, case, *args):
    run = memtap('watch', '--format=csv', '--max-blocks=100000', *args, golden(case))
    assert run.status == 0, run.err
    return read_csv(run.out)


def test_watch_golden(golden, memtap):
    """Each event of each block of the vendor's dump, in the order of time, with what ran between."""
    rows = sorted(rows_of(golden.dump('access')), key=lambda r: (int(r['Timestamp(ns)']), int(r['ID'])))
    got = {}
    for e in events(golden, memtap, 'access', '--size=1-1G'):
        got.setdefault(e['allocation_id'], []).append(e)
    blocks = {r['attrs']['allocation_id'] for r in rows if r['Event'] == 'MALLOC'}
    assert set(got) == blocks and len(blocks) > 100
    count = {'OP_LAUNCH': 0, 'KERNEL_LAUNCH': 0}
    before, touched = {}, 0
    for r in rows:
        if r['Event Type'] == 'ATEN_START' or r['Event'] == 'KERNEL_LAUNCH':
            count[r['Event']] += 1
        number = r['attrs'].get('allocation_id')
        if r['Event'] not in ('MALLOC', 'FREE', 'ACCESS') or number not in blocks:
            continue
        if r['Event'] == 'MALLOC':
            before[number] = dict(count)
        if number not in before:
            continue
        e = got[number].pop(0)
        assert e['Event'] == (r['Event Type'] if r['Event'] == 'ACCESS' else r['Event'])
        assert (e['Timestamp(ns)'], e['Thread Id'], int(e['Ptr'])) == (
            r['Timestamp(ns)'], r['Thread Id'], int(r['Ptr'], 0)), (e, r)
        assert int(e['Operators before']) == count['OP_LAUNCH'] - before[number]['OP_LAUNCH']
        assert int(e['Kernels before']) == count['KERNEL_LAUNCH'] - before[number]['KERNEL_LAUNCH']
        if r['Event'] == 'ACCESS':
            touched += 1
            assert e['Operator'] == r['Name']
            assert e['Tensor'] == '%s %s' % (r['attrs']['dtype'], r['attrs']['shape'])
        before[number] = dict(count)
    assert not any(got.values()) and touched > 100, touched


def written(folder, *lines):
    path = os.path.join(folder, 'leaks_dump_20260101000000.csv')
    with open(path, 'w') as f:
        f.write('\n'.join((HEADER,) + lines) + '\n')
    return path


def op(i, word, name, tid=7):
    return '%d,OP_LAUNCH,ATEN_%s,torch._ops.aten.%s,%d,7,%d,0,N/A,,,' % (i, word, name, 1000000 * i, tid)


def block(i, event, kind, number, name='N/A', tid=7, size=512, ptr=None, more=''):
    ptr = ptr or number * 4096
    return '%d,%s,%s,%s,%d,7,%d,0,%d,"{allocation_id:%d,addr:%d,size:%d%s}",,' % (
        i, event, kind, name, 1000000 * i, tid, ptr, number, ptr, size, more)


def sample(folder):
    add, relu = 'torch._ops.aten.add.Tensor', 'torch._ops.aten.relu.default'
    return written(
        folder,
        op(1, 'START', 'add.Tensor'), block(2, 'MALLOC', 'PTA', 1, more=',owner:PTA@ops@aten'),
        block(3, 'ACCESS', 'READ', 9, add), block(4, 'ACCESS', 'WRITE', 1, add),
        block(5, 'MALLOC', 'PTA', 2, size=2048), block(6, 'ACCESS', 'WRITE', 2, add), op(7, 'END', 'add.Tensor'),
        '8,KERNEL_LAUNCH,KERNEL_LAUNCH,aclnnAdd,8000000,7,8,0,N/A,"{streamId:0,taskId:0}",,',
        op(9, 'START', 'mul.Tensor'), block(10, 'ACCESS', 'READ', 1, 'torch._ops.aten.mul.Tensor', ptr=4096 + 64),
        op(11, 'END', 'mul.Tensor'), op(12, 'START', 'relu.default'), block(13, 'ACCESS', 'READ', 1, relu),
        op(14, 'END', 'relu.default'), op(15, 'START', 'add.Tensor'), block(16, 'ACCESS', 'WRITE', 1, add),
        op(17, 'END', 'add.Tensor'), block(18, 'FREE', 'PTA', 1, tid=9), block(19, 'MALLOC', 'HAL', 3, size=4096))


def test_watch_text(golden, memtap):
    with tempfile.TemporaryDirectory() as d:
        run = memtap('watch', '--id=1', sample(d))
        assert run.status == 0 and run.err == '', run.err
        assert run.out == (
            'PTA block of 0.000488 Mb(s) at 0x1000 on device 0 of process 7, allocation_id 1, owner PTA@ops@aten\n'
            '        0.000 ms MALLOC  thread 7 in torch._ops.aten.add.Tensor\n'
            '        2.000 ms WRITE   thread 7 by torch._ops.aten.add.Tensor\n'
            '                  1 operator: torch._ops.aten.mul.Tensor\n'
            '                  1 kernel: aclnnAdd\n'
            '        8.000 ms READ    thread 7 by torch._ops.aten.mul.Tensor, from byte 64\n'
            '                  1 operator: torch._ops.aten.relu.default\n'
            '       11.000 ms READ    thread 7 by torch._ops.aten.relu.default\n'
            '                  1 operator: torch._ops.aten.add.Tensor\n'
            '       14.000 ms WRITE   thread 7 by torch._ops.aten.add.Tensor\n'
            '       16.000 ms FREE    thread 9\n'
            '                  2 read(s), 2 write(s); freed after 16.000 ms by thread 9, not the one that allocated it\n'
        ), run.out


def numbers(run):
    return [x.split('allocation_id ')[1].split(',')[0] for x in run.out.splitlines() if 'allocation_id' in x]


def test_watch_choice(golden, memtap):
    with tempfile.TemporaryDirectory() as d:
        path = sample(d)
        for args, want in ((('--address=4600',), ['1']), (('--address=04600',), ['1']), (('--size=1-1G', '--pid=07'), ['1', '2', '3']), (('--address=0x11ff',), ['1']), (('--address=0x1200',), []),
                           (('--size=512',), ['1']), (('--size=1K-4K',), ['2', '3']), (('--owner=@aten',), ['1']),
                           (('--size=1-1G', '--device=1'), []), (('--size=1-1G', '--pid=8'), []),
                           (('--size=1-1G', '--id=2'), ['2'])):
            run = memtap('watch', *args, path)
            assert run.status == 0 and sorted(numbers(run)) == want, (args, run.out, run.err)
            assert bool(want) != ('none of 3 blocks is chosen' in run.err), run.err
        run = memtap('watch', '--size=1-1G', '--max-blocks=1', path)
        assert numbers(run) == ['1'] and '3 blocks are chosen, the first 1 were printed' in run.err


def test_watch_without_numbers(golden, memtap):
    """Dumps whose rows have no allocation_id: blocks are told apart by their addresses."""
    def row(i, event, kind, ptr, name='N/A'):
        return '%d,%s,%s,%s,%d,7,7,0,%d,"{addr:%d,size:512}",,' % (i, event, kind, name, 1000000 * i, ptr, ptr)
    with tempfile.TemporaryDirectory() as d:
        path = written(d, row(1, 'MALLOC', 'PTA', 4096), row(2, 'MALLOC', 'PTA', 8192), row(3, 'FREE', 'PTA', 8192),
                       row(4, 'FREE', 'PTA', 4096), row(5, 'MALLOC', 'PTA', 4096), row(6, 'MALLOC', 'PTA', 4096))
        run = memtap('watch', '--address=4096', path)
        assert run.status == 0, run.err
        assert [x.split()[0] for x in run.out.splitlines() if ' ms FREE' in x] == ['3.000'], run.out
        # The last two are of one address, and the end of the first of them is not there.
        assert run.out.count('PTA block') == 3 and run.out.count('not freed in the dump') == 2, run.out
        assert memtap('watch', '--address=8192', path).out.count('freed after 1.000 ms') == 1


def test_watch_operators(golden, memtap):
    """Outputs of the first run of START, until the end of END."""
    start, end = 'torch._ops.aten.add.Tensor', 'torch._ops.aten.relu.default'
    with tempfile.TemporaryDirectory() as d:
        path = sample(d)
        run = memtap('watch', '--op=%s,%s' % (start, end), path)
        assert sorted(numbers(run)) == ['1', '2'] and run.status == 0
        assert 'READ    thread 7 by torch._ops.aten.relu.default' in run.out
        assert 'WRITE' not in run.out and 'FREE' not in run.out, run.out
        assert numbers(memtap('watch', '--op=%s:1,%s' % (start, end), path)) == ['2']
        run = memtap('watch', '--op=torch._ops.aten.nosuch.default,' + end, path)
        assert numbers(run) == [] and 'no operator torch._ops.aten.nosuch.default has run' in run.err


def test_watch_control_characters(golden, memtap):
    """What a terminal would act on does not reach it, neither from names nor from stacks."""
    with tempfile.TemporaryDirectory() as d:
        row = block(1, 'MALLOC', 'PTA', 1, more=',owner:a\x1b[31m\u009b31m')
        path = written(d, row[:-2] + ',"f\x1b]0;x\x07(1): g\nh\u009b2J","c\x1b[2J"')
        for run in (memtap('watch', '--id=1', '--stacks', path), memtap('leaks', '--hal', '--stacks', path)):
            assert run.status == 0 and not set(run.out) & {'\x1b', '\x07', '\u009b'}, ascii(run.out)
        run = memtap('watch', '--id=1', '--stacks', path)
        assert 'a?[31m?31m' in run.out and '\t\th?2J\n' in run.out, ascii(run.out)
        run = memtap('watch', '--id=1', os.path.join(d, 'a\u009bb'))
        assert run.status == 1 and '\u009b' not in run.err and 'a?' in run.err, ascii(run.err)


def test_watch_usage(golden, memtap):
    path = golden('access')
    for args, text in (((), 'nothing says which blocks'), (('--id=0',), "--id '0'"), (('--size=2K-1K',), '--size'),
                       (('--size=x',), '--size'), (('--op=a',), '--op'), (('--op=a:b,c',), 'OUTPUT'),
                       (('--op=a,b,full-content',), '--op'), (('--pid=0x7',), '--pid'), (('--address=0x',), '--address'), (('--address=-1',), '--address'),
                       (('--id=1', '--format=xml'), '--format'), (('--nosuch',), 'nosuch')):
        run = memtap('watch', *args, path)
        assert run.status == 2 and text in run.err and run.out == '', (args, run.err)
