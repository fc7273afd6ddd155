# SPDX-License-Identifier: Apache-2.0
"""memtap compare: the vendor's files byte for byte, and its algorithm on rows that differ."""
import os
import random
import shutil
import tempfile

from harness import HEADER, read_csv


def test_compare_golden(golden, memtap):
    for level in ('0', '1', '0,1'):
        with open(golden('compare_seed', 'memory_compare_level_%s.csv' % level.replace(',', '_'))) as f:
            want = f.read()
        run = memtap('compare', '--level=' + level, golden('compare_seed/base.csv'), golden('compare_seed/compare.csv'))
        assert run.status == 0 and run.out == want, (level, run.out[:500])
    run = memtap('compare', golden('compare_seed/base.csv'), golden('compare_seed/compare.csv'))
    op = memtap('compare', '--level=op', golden('compare_seed/base.csv'), golden('compare_seed/compare.csv'))
    assert run.out == op.out


def greedy(a, b):
    """Myers' greedy diff as msleaks.md 5.3 tells it, straight: the edits, forward."""
    n, m, v, trace = len(a), len(b), {1: 0}, []
    for d in range(n + m + 1):
        trace.append(dict(v))
        for k in range(-d, d + 1, 2):
            x = v[k + 1] if k == -d or (k != d and v[k - 1] < v[k + 1]) else v[k - 1] + 1
            y = x - k
            while x < n and y < m and a[x] == b[y]:
                x, y = x + 1, y + 1
            v[k] = x
            if x >= n and y >= m:
                break
        else:
            continue
        break
    edits, x, y = [], n, m
    for d in range(len(trace) - 1, -1, -1):
        v, k = trace[d], x - y
        prev = k + 1 if k == -d or (k != d and v[k - 1] < v[k + 1]) else k - 1
        px = v[prev]
        py = px - prev
        while x > px and y > py and x and y:
            edits.append('=')
            x, y = x - 1, y - 1
        if d:
            edits.append('+' if x == px else '-')
            x, y = px, py
    return edits[::-1]


def write(folder, name, ops, device=0):
    """Kernels by name, each followed by a pool row of its place as size."""
    path = os.path.join(folder, name + '.csv')
    with open(path, 'w') as f:
        f.write(HEADER + '\n')
        for i, op in enumerate(ops):
            f.write('%d,KERNEL_LAUNCH,KERNEL_LAUNCH,%s,%d,7,7,%d,N/A,,,\n' % (2 * i, op, 1000 + 2 * i, device))
            f.write('%d,MALLOC,PTA,N/A,%d,7,7,%d,512,"{allocation_id:1,addr:512,size:%d}",,\n'
                    % (2 * i + 1, 1001 + 2 * i, device, i))
    return path


def test_compare_is_the_greedy_diff(golden, memtap):
    """Also beyond the rounds that are kept, and with sequences that have nothing in common."""
    folder = tempfile.mkdtemp()
    rng = random.Random(3)
    try:
        for n, m, words in ((0, 0, 1), (0, 5, 3), (7, 0, 3), (40, 40, 2), (60, 50, 4), (300, 280, 12), (900, 700, 400)):
            a = ['k%d' % rng.randrange(words) for _ in range(n)]
            b = ['k%d' % rng.randrange(words) for _ in range(m)]
            run = memtap('compare', '--level=1', write(folder, 'a', a), write(folder, 'b', b))
            assert run.status == 0, run.err
            got = [line.split(',') for line in run.out.split('\n')[2:-1]]
            i = j = 0
            for row, edit in zip(got, greedy(a, b)):
                base, other = (str(i) if edit in '=-' else 'N/A'), (str(j) if edit in '=+' else 'N/A')
                name = b[j] if edit in '=+' else a[i]
                diff = str((j if edit in '=+' else 0) - (i if edit in '=-' else 0))
                assert row == ['KERNEL_LAUNCH', name, '0', base, other, diff], (n, m, row)
                i += edit in '=-'
                j += edit in '=+'
            assert len(got) == len(greedy(a, b))
    finally:
        shutil.rmtree(folder)


def test_compare_devices_and_names(golden, memtap):
    folder = tempfile.mkdtemp()
    try:
        a, b = write(folder, 'a', ['k<1;2>', '=1+1']), write(folder, 'b', ['k<1;2>', '=1+1'], 1)
        out = memtap('compare', '--level=1', a, b).out.split('\n')
        assert out[2:-1] == ["KERNEL_LAUNCH,k<1;2>,0,0,N/A,0", "KERNEL_LAUNCH,'=1+1,0,1,N/A,-1",
                             "KERNEL_LAUNCH,k<1;2>,1,N/A,0,0", "KERNEL_LAUNCH,'=1+1,1,N/A,1,1"], out
        # The device that came last is printed first.
        with open(a, 'a') as f:
            f.write('9,KERNEL_LAUNCH,KERNEL_LAUNCH,z,5000,7,7,3,N/A,,,\n')
        rows = read_csv(memtap('compare', '--level=1', a, a).out.split('\n', 1)[1])
        assert [r['Device Id'] for r in rows] == ['3', '0', '0'], rows
    finally:
        shutil.rmtree(folder)


def test_compare_output_file(golden, memtap):
    folder = tempfile.mkdtemp()
    try:
        run = memtap('compare', '-o', folder + '/new', golden('compare_seed/base.csv'), golden('compare_seed/compare.csv'))
        assert run.status == 0 and not run.out, run.err
        (name,) = os.listdir(folder + '/new/compare')
        assert name.startswith('memory_compare_2') and name in run.err
        assert os.stat(os.path.join(folder, 'new/compare', name)).st_mode & 0o777 == 0o600
        with open(os.path.join(folder, 'new/compare', name)) as f, \
                open(golden('compare_seed/memory_compare_level_0.csv')) as g:
            assert f.read() == g.read()
    finally:
        shutil.rmtree(folder)


def test_compare_refuses(golden, memtap):
    base = golden('compare_seed/base.csv')
    for args, status, word in (((base,), 2, 'two dumps'), ((base, base, base), 2, 'two dumps'),
                               (('--level=2', base, base), 2, "--level '2'"), (('--level=', base, base), 2, '--level'),
                               ((base, '/nowhere.csv'), 1, '/nowhere.csv')):
        run = memtap('compare', *args)
        assert run.status == status and word in run.err and not run.out, (args, run.err)
    folder = tempfile.mkdtemp()
    try:
        path = os.path.join(folder, 'm.csv')
        with open(path, 'w') as f:
            f.write(HEADER + '\n1,MALLOC,MINDSPORE,N/A,1000,7,7,0,512,"{allocation_id:1,addr:512,size:512}",,\n')
        run = memtap('compare', base, path)
        assert run.status == 1 and 'one framework' in run.err, run.err
        run = memtap('compare', path, path)
        assert run.status == 1 and '--level=1' in run.err, run.err
        assert memtap('compare', '--level=1', path, path).status == 0
    finally:
        shutil.rmtree(folder)
