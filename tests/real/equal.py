# SPDX-License-Identifier: Apache-2.0
"""memtap's rows against torch_npu's own account and the simulated driver's ground truth."""
from collections import defaultdict

GRANULE = 512
PADDING = 32  # bytes that torch_npu adds to each request


def require(ok, text, *more):
    if not ok:
        raise AssertionError(' '.join([text] + [str(m) for m in more]))


def block_size(requested):
    """The least size of the block for a request (msleaks.md 17)."""
    return (requested + PADDING + GRANULE - 1) // GRANULE * GRANULE


def clean(result, late=()):
    """Nothing lost, everything adds up, no probe withdrawn, no library met late."""
    s = result.summary
    a = s['accounting']
    require(a['exact'], 'the accounting does not add up:', a)
    require(a['lost'] == 0 and not s['losses'], 'lost:', s['losses'])
    require(a['undecodable'] == 0, 'undecodable:', a)
    require(s['rows_unwritten'] == 0 and s['late'] == 0, 'late or unwritten rows')
    require(s['frees_missed'] == 0, 'frees missed:', s['frees_missed'])
    require([x['path'] for x in s['late_libraries']] == list(late), 'late libraries:', s['late_libraries'])
    for f in s['files_probed']:
        require(not f['withdrawn'], 'withdrawn:', f)
        require(not f['failed'], 'failed probes:', f)
    require(s['rows_written'] == len(result.rows), 'rows in the file:', len(result.rows), s['rows_written'])
    require(a['rows'] + s['rows_extra'] == len(result.rows), 'rows:', a['rows'], s['rows_extra'])
    times = [r['time'] for r in result.rows]
    require(times == sorted(times), 'rows are not in the order of their times')


def same(what, got, want):
    """Two lists equal; else the first difference."""
    for i, (g, w) in enumerate(zip(got, want)):
        require(g == w, f'{what}: entry {i}: memtap {g}, account {w};', 'before:', got[max(0, i - 2):i])
    require(len(got) == len(want), f'{what}: memtap {len(got)}, account {len(want)}',
            'first more:', (got[len(want):] + want[len(got):])[:2])


def history(result, device=0):
    """PTA rows against the allocator's own trace, event by event. Their number."""
    trace = result.account['history'][device]
    base = result.account['base'][device]
    rows = result.of('PTA', device)
    want = [e for e in trace if e[0] in ('alloc', 'free_requested')]
    same('PTA rows', [(r['event'], r['ptr']) for r in rows],
         [('MALLOC' if e[0] == 'alloc' else 'FREE', e[1]) for e in want])
    used, reserved, live, sizes, i = base['allocated'], base['reserved'], {}, {}, 0
    for action, address, size, _ in trace:
        if action in ('segment_alloc', 'segment_map'):
            reserved += size
        elif action in ('segment_free', 'segment_unmap'):
            reserved -= size
        if action not in ('alloc', 'free_requested'):
            continue
        r = rows[i]
        i += 1
        if action == 'alloc':
            require(r['size'] % GRANULE == 0 and r['size'] >= block_size(size),
                    'block of', r['size'], 'for a request of', size)
            require(address not in live, 'allocated twice:', hex(address))
            live[address] = r['size']
            sizes[address] = size
            used += r['size']
        else:
            require(sizes.get(address, size) == size, 'history frees another size')
            require(live.pop(address, r['size']) == r['size'], 'FREE of another size:', r)
            used -= r['size']
        require(r['used'] == used, f'row {i}: used {r["used"]}, sum of the blocks {used}')
        require(r['total'] == reserved, f'row {i}: total {r["total"]}, segments {reserved}')
    counters(result, rows, device)
    return len(rows)


def counters(result, rows, device=0):
    """Numbers of rows and the last totals against memory_stats()."""
    base, end = result.account['base'][device], result.account['stats'][device]
    n = {e: sum(r['event'] == e for r in rows) for e in ('MALLOC', 'FREE')}
    require(n['MALLOC'] == end['mallocs'] - base['mallocs'], 'MALLOC rows:', n, 'stats:', base, end)
    require(n['FREE'] >= end['frees'] - base['frees'], 'FREE rows:', n, 'stats:', base, end)
    if rows:
        require(rows[-1]['used'] == end['allocated'], 'used of the last row:', rows[-1], end)


def operations(result):
    """PTA rows against a program's own list of single operations with the counters after each."""
    ops, rows = result.account['ops'], result.of('PTA', 0)
    same('operations', [(r['event'][0], r['ptr']) for r in rows], [(o[0], o[1]) for o in ops])
    for r, (kind, _, size, t0, t1, s) in zip(rows, ops):
        got = (r['used'], r['total'], int(r['attr']['active']))
        require(got == (s['allocated'], s['reserved'], s['active']), 'totals', got, 'stats', s, 'row', r)
        t = r['time'] - result.account['offset']
        require(t0 - 2000000 <= t <= t1 + 2000000, 'time of', r, 'not within', t0, t1)
        require(r['size'] >= block_size(size), 'size of', r, 'for', size)
    return len(ops)


HAL = {'halMemAlloc': 'MALLOC', 'halMemFree': 'FREE', 'halMemCreate': 'MALLOC', 'halMemRelease': 'FREE'}


def inside(result, record):
    return record['t0'] > result.start and record['t1'] < result.stop


def by_thread(items, tid, value):
    out = defaultdict(list)
    for x in items:
        out[tid(x)].append(value(x))
    return dict(out)


def hal(result):
    """HAL rows against the simulated driver's truth, thread by thread."""
    calls = [t for t in result.truth if t['fn'] in HAL and t['ret'] == 0 and inside(result, t)]
    frees = ('halMemFree', 'halMemRelease')
    rows = result.of('HAL')

    def sized(event, ptr, size):
        return (event, ptr, size if event == 'MALLOC' else None)

    same_threads('HAL rows',
                 by_thread(rows, lambda r: r['tid'], lambda r: sized(r['event'], r['ptr'], r['size'])),
                 by_thread(calls, lambda t: t['tid'],
                           lambda t: sized(HAL[t['fn']], t['args'][0] if t['fn'] in frees else t['out'],
                                           t['size'])))
    return len(calls)


def same_threads(what, got, want):
    for tid in sorted(set(got) | set(want)):
        same(f'{what} of thread {tid}', got.get(tid, []), want.get(tid, []))


def launches(result):
    """KERNEL_LAUNCH rows against the simulated runtime's truth: names and order in each thread."""
    calls = [t for t in result.truth if t['fn'].startswith('rt') and 'Launch' in t['fn']
             and t['ret'] == 0 and inside(result, t)]
    same_threads('KERNEL_LAUNCH rows',
                 by_thread(result.of('KERNEL_LAUNCH'), lambda r: r['tid'], lambda r: r['name']),
                 by_thread(calls, lambda t: t['tid'], lambda t: t['name']))
    return len(calls)


def segments(result, device=0):
    """HAL rows of the pool's segments: each segment_alloc has its MALLOC, each segment_free its FREE."""
    trace = [e for e in result.account['history'][device] if e[0] in ('segment_alloc', 'segment_free')]
    rows = {(r['event'], r['ptr'], n): r for n, r in numbered(result.of('HAL'))}
    seen = defaultdict(int)
    for action, address, size, _ in trace:
        event = 'MALLOC' if action == 'segment_alloc' else 'FREE'
        seen[event, address] += 1
        r = rows.get((event, address, seen[event, address]))
        require(r, action, hex(address), 'has no HAL', event)
        require(r['size'] >= size, 'segment of', size, 'in', r)
    return len(trace)


def numbered(rows):
    """Each row with the how-manieth of its event and address it is."""
    seen = defaultdict(int)
    for r in rows:
        seen[r['event'], r['ptr']] += 1
        yield seen[r['event'], r['ptr']], r
