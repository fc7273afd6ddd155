# SPDX-License-Identifier: Apache-2.0
"""memtap leaks and gap: byte for byte what the vendor's tool printed at the end of the same run."""
import os
import shutil
import tempfile

from harness import HEADER, TOP, rows_of

# Cases in which our text differs; why, tells differences.txt under that word.
DIFFERS = {'custom': 'asked', 'decompose_only': 'asked', 'train_steps23': 'asked', 'now_fork': 'fork'}
STEPS = os.path.join(TOP, 'tests/unit/data/steps/leaks_dump.csv')


def cases(golden):
    return sorted(c for c in os.listdir(golden()) if os.path.exists(golden(c, 'console.txt')))


def console(golden, case):
    with open(golden(case, 'console.txt')) as f:
        return f.read()


def test_leaks_of_each_golden_case(golden, memtap):
    equal = 0
    for case in cases(golden):
        run = memtap('leaks', golden(case))
        assert run.status == 0, (case, run.err)
        if case in DIFFERS:
            assert run.out != console(golden, case), '%s does not differ any more' % case
            continue
        assert run.out == console(golden, case), '%s:\n%s' % (case, run.out)
        equal += 1
    assert equal >= 25, equal


def test_leaks_differences_are_those(golden, memtap):
    # The vendor's tool was not asked for leaks there; the child printed the table once more.
    for case in ('custom', 'decompose_only', 'train_steps23'):
        assert console(golden, case) == ''
        assert memtap('leaks', golden(case)).out.startswith('======= Pytorch Caching memory pool Gap')
    assert console(golden, 'now_fork') == 2 * memtap('leaks', golden('now_fork')).out


def test_leaks_that_were_freed_later(golden, memtap):
    gap = ('======= Pytorch Caching memory pool Gap Analysis of Device 0 =======\n'
           '\tMinAlloc/MaxAlloc(%)     MinAllocMem(MB)          StepId                   \n'
           'MinGap\t0.0486                   0.0005                   4                        \n'
           'MaxGap\t99.7080                  1.0005                   3                        \n')
    run = memtap('leaks', '--freed', STEPS)
    assert run.out == (
        '====== ERROR: Detected memory leaks on device 0 ======\n'
        'Direct Pytorch Caching memory pool leak of 1.000000 Mb(s) at 0x12c041500000 in kernel_3 at step 2.\n'
        '====== SUMMARY: 1 Mb(s) leaked in 1 allocation(s) ======\n') + gap, run.out
    run = memtap('leaks', STEPS)
    assert run.out == gap and '1 block(s) outlived a step' in run.err, run.out + run.err


def test_leaks_gap_alone(golden, memtap):
    whole = memtap('leaks', golden('train_mstx')).out
    assert whole.endswith(memtap('gap', golden('train_mstx')).out)
    assert memtap('gap', golden('train_mstx')).out.startswith('======= Pytorch')


def test_leaks_hal(golden, memtap):
    run = memtap('leaks', '--hal', STEPS)
    assert run.out == (
        '[client 25559][device: 0]: Leak memory in Malloc operator, addr: 0x12c041400000, size: 20971520\n'
        '[client 25559][device: 0]: Leak memory in Malloc operator, addr: 0x12c042800000, size: 4096\n'
        '====== SUMMARY: 20.0039 Mb(s) of driver memory live in 2 block(s) at the end ======\n'), run.out
    for case in ('train_mstx', 'dev2', 'hccl', 'now_fork'):
        live = {}
        for r in rows_of(golden.dump(case)) if case != 'hccl' else rows_of(golden.dump('hccl')):
            if r['Event Type'] == 'HAL':
                key = (r['Process Id'], r['Ptr'])
                live.pop(key, None)
                if r['Event'] == 'MALLOC':
                    live[key] = r
        out = memtap('leaks', '--hal', golden(case)).out
        assert out.count('Leak memory in Malloc') == len(live), (case, out)


def write(folder, rows):
    path = os.path.join(folder, 'leaks_dump_1.csv')
    with open(path, 'w') as f:
        f.write(HEADER + '\n' + ''.join(r + '\n' for r in rows))
    return path


def hal(i, event, ptr, size=2097152, device=0, pid=7):
    attr = '"{allocation_id:%d,addr:%s,size:%d}"' % (i, ptr, size)
    return '%d,%s,HAL,N/A,%d,%d,%d,%d,%s,%s,,' % (i, event, 1000 + i, pid, pid, device, ptr, attr)


def mark(i, text='test', device=0, pid=7):
    return '%d,MSTX,Mark,"%s",%d,%d,%d,%d,N/A,,,' % (i, text, 1000 + i, pid, pid, device)


def test_leaks_between_marks(golden, memtap):
    folder = tempfile.mkdtemp()
    try:
        # Of before A, of A to B and freed before C, of A to B, of B to C; then the same without marks.
        path = write(folder, [hal(1, 'MALLOC', '0x0000000000001000'), mark(2), mark(3, 'other'),
                              hal(4, 'MALLOC', '0x0000000000002000'), hal(5, 'MALLOC', '0x000012c041200000'),
                              hal(6, 'MALLOC', '0x0000000000003000', 10), mark(7),
                              hal(8, 'FREE', '0x0000000000002000'), hal(9, 'MALLOC', '0x0000000000004000'), mark(10),
                              hal(11, 'FREE', '0x000012c041200000'), hal(12, 'MALLOC', '0x1', 5, 1)])
        run = memtap('leaks', '--marks=test', path)
        assert run.out == (
            'INFO: Starting to analyze data for device 0...\n'
            'INFO: Starting to analyze data for device 1...\n'
            'ERROR: Device 1 has fewer than 3 data points. Please re-collect the data points.\n'
            '\nLeak Analysis Results for the Custom Range:\n'
            '====== ERROR: Detected memory leaks on device 0 ======\n'
            'Direct Hal memory leak of 2.0 Mb(s) at 0x000012c041200000 in Index 5.\n'
            'Direct Hal memory leak of 9.5367431640625e-06 Mb(s) at 0x0000000000003000 in Index 6.\n'), run.out
        run = memtap('leaks', '--marks=test', '--start-index=1', path)
        assert 'INFO: Start index 1 is out of bounds. Device 0 has a total of 3 MSTX events.\n' in run.out, run.out
        assert 'Custom Range' not in run.out
        run = memtap('leaks', '--marks=test', STEPS)
        assert run.out.endswith('Custom Range:\nNo hal memory leaks detected on device 0.\n'), run.out
    finally:
        shutil.rmtree(folder)


def pta(i, event, ptr, device=0, pid=7, used=512):
    attr = '"{allocation_id:%d,addr:%d,size:512,total:4096,used:%d}"' % (i, ptr, used)
    return '%d,%s,PTA,N/A,%d,%d,%d,%d,%d,%s,,' % (i, event, 1000 + i, pid, pid, device, ptr, attr)


def step(i, number, begin=True, device=0, pid=7):
    kind, name = ('Range_start', 'step start') if begin else ('Range_end', 'Range end from id %d' % number)
    return '%d,MSTX,%s,"%s",%d,%d,%d,%d,N/A,,,' % (i, kind, name, 1000 + i, pid, pid, device)


def test_leaks_of_processes_and_devices(golden, memtap):
    """Two processes on a device are told apart; the same address in each is two blocks."""
    folder = tempfile.mkdtemp()
    try:
        rows = []
        for pid in (7, 8):
            rows += [step(1, 1, pid=pid), step(2, 1, False, pid=pid), step(3, 2, pid=pid),
                     pta(4, 'MALLOC', 4096, pid=pid), step(5, 2, False, pid=pid), step(6, 3, pid=pid),
                     step(8, 3, False, pid=pid), step(9, 4, pid=pid), step(11, 4, False, pid=pid)]
        rows.append(pta(12, 'FREE', 4096, pid=8))
        out = memtap('leaks', write(folder, rows)).out
        for pid in (7, 8):
            assert 'memory leaks on device 0 of process %d ======\nDirect Pytorch' % pid in out, out
            assert 'Gap Analysis of Device 0 of Process %d =' % pid in out, out
        # Freed while step 4 runs: it has lived long, and is no leak.
        rows[-1] = pta(10, 'FREE', 4096, pid=8)
        run = memtap('leaks', write(folder, rows))
        assert 'on device 0 of process 7' in run.out and 'leaks on device 0 of process 8' not in run.out
        run = memtap('leaks', '--freed', write(folder, rows))
        assert 'leaks on device 0 of process 8' in run.out
    finally:
        shutil.rmtree(folder)


def test_leaks_with_ranges_that_overlap(golden, memtap):
    """Ends are told by their ids, also when the first starts are missing, and unknown ids end nothing."""
    folder = tempfile.mkdtemp()
    try:
        def other(i):
            return '%d,MSTX,Range_start,"other",%d,7,7,0,N/A,,,' % (i, 1000 + i)
        outs = []
        for first in (1, 5):
            rows = [step(1, first), step(2, first, False),
                    step(3, first + 1), other(4), pta(5, 'MALLOC', 4096, used=512), pta(6, 'MALLOC', 512, used=1024),
                    step(7, first + 1, False), pta(8, 'FREE', 512, used=600),
                    step(9, first + 3), step(10, first + 2, False), step(11, 2, False) if first > 1 else step(11, 77, False),
                    pta(12, 'MALLOC', 8192, used=2400), step(13, first + 3, False),
                    pta(14, 'FREE', 4096, used=1), pta(15, 'FREE', 8192, used=1)]
            outs.append(memtap('leaks', write(folder, rows)).out)
            assert 'at 0x1000 in kernel_0 at step 2.' in outs[-1] and 'in 1 allocation(s)' in outs[-1], outs[-1]
            # The least and most of each step: 512 of 1024, then 600 of 2400.
            gaps = [x.split() for x in outs[-1].split('\n') if 'Gap\t' in x]
            assert [(g[1], g[3]) for g in gaps] == [('25.0000', '3'), ('50.0000', '2')], outs[-1]
        assert outs[0] == outs[1]
    finally:
        shutil.rmtree(folder)


def test_leaks_marks_of_no_device(golden, memtap):
    """A recorder that came late may not know the device of a thread: its steps count for all devices."""
    folder = tempfile.mkdtemp()
    try:
        rows = [step(1, 1, device=0), step(2, 1, False), step(3, 2), pta(4, 'MALLOC', 4096), pta(5, 'MALLOC', 8192, 1),
                step(6, 2, False), step(7, 3), step(8, 3, False)]
        rows = [r.replace(',0,N/A,', ',N/A,N/A,') if 'MSTX' in r else r for r in rows]
        out = memtap('leaks', write(folder, rows)).out
        for device, ptr in ((0, '0x1000'), (1, '0x2000')):
            assert ('leaks on device %d ======\nDirect Pytorch Caching memory pool leak of 0.000488 Mb(s) at %s in '
                    'kernel_0 at step 2.' % (device, ptr)) in out, out
    finally:
        shutil.rmtree(folder)


def test_leaks_with_stacks(golden, memtap):
    folder = tempfile.mkdtemp()
    try:
        rows = [step(1, 1), step(2, 1, False), step(3, 2),
                pta(4, 'MALLOC', 4096)[:-2] + ',"a.py(3): f\nb.py(4): g","lib(f+0x1) [0x2]\n"',
                step(5, 2, False), step(6, 3), step(7, 3, False)]
        out = memtap('leaks', '--stacks', write(folder, rows)).out
        assert ('at step 2.\n\tPython:\n\t\ta.py(3): f\n\t\tb.py(4): g\n\tC:\n\t\tlib(f+0x1) [0x2]\n'
                '====== SUMMARY') in out, out
    finally:
        shutil.rmtree(folder)


def test_leaks_usage(golden, memtap):
    for args, word in ((('leaks',), 'no DIR or FILE'), (('gap',), 'no DIR or FILE'),
                       (('leaks', '--start-index=x', 'a'), "--start-index 'x'"), (('leaks', '--nonsense', 'a'), 'Try'),
                       (('leaks', '--start-index=1', 'a'), '--marks'), (('leaks', '--hal', '--marks=a', 'b'), '--hal')):
        run = memtap(*args)
        assert run.status == 2 and word in run.err and not run.out, (args, run.err)
    for args in (('leaks', '/nowhere'), ('gap', '/nowhere/x.csv'), ('leaks', TOP + '/tests/offline/run.py')):
        run = memtap(*args)
        assert run.status == 1 and args[1] in run.err and not run.out, (args, run.err)


def test_leaks_of_several_dumps(golden, memtap):
    run = memtap('gap', golden('alloc'), golden('train_mstx'))
    assert run.out == ('== %s ==\n%s== %s ==\n%s' % (golden('alloc'), memtap('gap', golden('alloc')).out,
                                                    golden('train_mstx'), memtap('gap', golden('train_mstx')).out))


def test_leaks_when_rows_are_missing(golden, memtap):
    folder = tempfile.mkdtemp()
    try:
        with open(write(folder, [step(1, 1), 'nonsense'] + [pta(2, 'MALLOC', 512)]), 'a') as f:
            f.write('3,FREE,PT')
        run = memtap('leaks', '--strict', folder)
        assert run.status == 3 and 'last row is not whole' in run.err and 'no row of a dump' in run.err, run.err
        assert memtap('leaks', folder).status == 0
        lost = '4,SYSTEM,LOST,N/A,2000,7,7,0,N/A,"{reason:ring full,probe:N/A,count:5,first:1,last:2}",,'
        run = memtap('leaks', '--strict', write(folder, [step(1, 1), lost]))
        assert run.status == 3 and '1 LOST rows' in run.err, run.err
    finally:
        shutil.rmtree(folder)


def cpu(memtap, *args):
    """Seconds of processor time, the least of three runs: others run beside it."""
    best = None
    for _ in range(3):
        before = os.times()
        assert memtap(*args).status == 0
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        best = used if best is None else min(best, used)
    return best


def test_leaks_of_many(golden, memtap):
    """Devices, marks, steps and open ranges without number: no more than a few times what reading them costs."""
    def ranges(i, word, name, device='N/A'):
        return '%d,MSTX,Range_%s,%s,%d,7,7,%s,N/A,,,' % (i, word, name, 1000 + i, device)
    n = 60000
    devices = [pta(i, 'MALLOC', 4096 * i, device=i, pid=8 + i) for i in range(1, n)]
    steps = [r for i in range(n, n + n // 2) for r in (
        ranges(2 * i, 'start', 'step start'), ranges(2 * i + 1, 'end', 'Range end from id %d' % (i - n + 1)))]
    folder = tempfile.mkdtemp()
    try:
        for rows, args in ((devices, ()), (devices + steps, ()), ([mark(i, device=i) for i in range(1, n)], ('--marks=test',)),
                           ([ranges(i, 'start', 'x', 0) for i in range(1, 20 * n)], ())):
            path = write(folder, rows)
            plain, used = cpu(memtap, 'inefficient', path), cpu(memtap, 'leaks', *args, path)
            assert used < 5 * plain + 0.4, (len(rows), args, plain, used)
    finally:
        shutil.rmtree(folder)
