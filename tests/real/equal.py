# SPDX-License-Identifier: Apache-2.0
"""memtap's rows against torch_npu's own account and the simulated driver's ground truth."""
from collections import defaultdict

import equal_log
from equal_log import require

GRANULE = 512
PADDING = 32  # bytes that torch_npu adds to each request


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
    # of every released torch_npu the file tells where they are
    require(not s['late_functions'] and not s['functions_unseen'], 'late Python functions:', s['late_functions'])
    for f in s['files_probed']:
        require(not f['withdrawn'], 'withdrawn:', f)
        require(not f['failed'], 'failed probes:', f)
    require(s['rows_written'] == len(result.rows), 'rows in the file:', len(result.rows), s['rows_written'])
    require(a['rows'] + s['rows_extra'] == len(result.rows), 'rows:', a['rows'], s['rows_extra'])
    times = [r['time'] for r in result.rows]
    back = next((i for i in range(1, len(times)) if times[i] < times[i - 1]), 0)
    require(not back, 'rows are not in the order of their times:', result.rows[back - 1:back + 1])


def same(what, got, want):
    """Two lists equal; else the first difference."""
    for i, (g, w) in enumerate(zip(got, want)):
        require(g == w, f'{what}: entry {i}: memtap {g}, account {w};', 'before:', got[max(0, i - 2):i])
    require(len(got) == len(want), f'{what}: memtap {len(got)}, account {len(want)}',
            'first more:', (got[len(want):] + want[len(got):])[:2])


def kept(result):
    """Does this release keep a history? Else its log is the account."""
    return 'history' in result.account


def full(result):
    """Do records have streams and active bytes? Those of generation 5.0, from c10's function, do not."""
    return kept(result) or not result.of('PTA')


def devices(result):
    return range(len(result.account['base']))


def pool_trace(result, device):
    """The caching allocator's part of the trace, and the workspace blocks that stand among it."""
    trace, workspace, i = [], [], 0
    events = result.account['history'][device] if kept(result) else []
    while i < len(events):
        if events[i][0] == 'workspace_snapshot':
            group = events[i:i + 3]
            require([e[0] for e in group] == ['workspace_snapshot', 'segment_alloc', 'alloc'] and
                    len({e[1] for e in group}) == 1, 'unknown shape of the workspace in the trace:', group)
            workspace.append(events[i])
            i += 3
            continue
        trace.append(events[i])
        i += 1
    return trace, workspace


def happened(result, device=0):
    """What the allocator says it did, and what that is of a row: lists to compare."""
    if not kept(result):
        return equal_log.entries(result.said), equal_log.of_row
    trace, _ = pool_trace(result, device)
    return ([('MALLOC' if e[0] == 'alloc' else 'FREE', e[1]) for e in trace if e[0] in ('alloc', 'free_requested')],
            lambda r: (r['event'], r['ptr']))


def pool(result, to_exit=False):
    """
    PTA rows against the allocator's own account, event by event. Their number. With to_exit the
    capture went on until the process had ended: what was still alive may have been freed.
    """
    if kept(result):
        return sum(history(result, d, to_exit) for d in devices(result))
    rows = equal_log.history(result, same, to_exit)
    for d in devices(result):
        counters(result, [r for r in rows if r['device'] == str(d)], d)
    return len(rows)


def history(result, device=0, to_exit=False):
    """PTA rows of a device against the allocator's trace."""
    trace, _ = pool_trace(result, device)
    base = result.account['base'][device]
    rows = result.of('PTA', device)
    want = [e for e in trace if e[0] in ('alloc', 'free_requested')]
    if to_exit:
        require(all(r['event'] == 'FREE' for r in rows[len(want):]), 'MALLOC rows behind the history')
        rows = rows[:len(want)]
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


def back_in_pool(result):
    """How often blocks went back to the pool, by the trace; 6.0.rc2 says so of each free at once."""
    action = 'free_requested' if result.rc2 else 'free_completed'
    return sum(e[0] == action for d in devices(result) for e in pool_trace(result, d)[0])


def completed(result):
    """Blocks that went back to the pool: events without a row, counted, as in the trace."""
    n = back_in_pool(result)
    rule = result.summary['without_row']['PTA blocks back in the pool']
    require(rule == n, 'blocks back in the pool: memtap', rule, 'trace', n)


def operators(result):
    """What operators were given as workspaces, by the simulated engine's truth."""
    return [t for t in result.truth if t['fn'] == 'CommonOpExecutorRun' and t['args'][1] and inside(result, t)]


def workspace_by_use(result):
    """Layout C: one pair of rows around each operator of aclnn that has a workspace, on its thread."""
    ops = by_thread(operators(result), lambda t: t['tid'], lambda t: t['args'][0])
    rows = by_thread(result.of('PTA_WORKSPACE'), lambda r: r['tid'], lambda r: (r['event'], r['ptr']))
    for tid in sorted(set(rows) | set(ops)):
        same(f'workspace rows and operators of thread {tid}', rows.get(tid, []),
             [(e, p) for p in ops.get(tid, []) for e in ('MALLOC', 'FREE')])


def workspace_by_growth(result):
    """Layout B tells of growth and release alone: right after the driver gives the block or takes it back."""
    last = {}
    for r in result.rows:
        if r['type'] == 'HAL':
            last[r['tid']] = r['event'], r['ptr']
        elif r['type'] == 'PTA_WORKSPACE':
            require(last.get(r['tid']) == (r['event'], r['ptr']), 'workspace row', r, 'behind', last.get(r['tid']))
    known = {r['ptr'] for r in result.of('PTA_WORKSPACE')}
    missing = {t['args'][0] for t in operators(result)} - known
    require(not missing, 'operators use workspaces without a row', missing)


def workspace(result, device=0, overlap=False):
    """
    PTA_WORKSPACE rows: sums, sizes of the trace's blocks, and one for each use or growth. Their number.
    With overlap uses of several streams do: torch_npu's own sum then goes by the block used last.
    """
    sizes = {e[1]: e[2] for e in pool_trace(result, device)[1]}
    rows, live = result.of('PTA_WORKSPACE', device), {}
    by_use = any(r['total'] != r['used'] for r in rows)
    (workspace_by_use if by_use else workspace_by_growth)(result)
    for r in rows:
        require('preattach' not in r['attr'], 'FREE of an unknown workspace', r)
        if r['event'] == 'MALLOC':
            require(r['ptr'] not in live, 'workspace in use twice:', r)
            live[r['ptr']] = r['size']
            require(r['ptr'] not in sizes or overlap or r['size'] == sizes[r['ptr']], 'workspace size', r, sizes)
        else:
            require(live.pop(r['ptr'], None) == r['size'], 'FREE of no workspace in use:', r)
        require(overlap or r['used'] == sum(live.values()), 'workspace in use', r, live)
        require(r['used'] <= r['total'], 'workspace total', r)
    require(not by_use or not live, 'workspaces still in use:', live)
    return len(rows)


def workspace_in_pool(result):
    """Each workspace of an operator is a block of the caching allocator, large enough. Their number."""
    left = defaultdict(list)
    for r in result.of('PTA', event='MALLOC'):
        left[r['ptr']].append(r['size'])
    ops = operators(result)
    for t in ops:
        block = max(left[t['args'][0]], default=0)
        require(block >= block_size(t['args'][1]), 'no block for the workspace', t)
        left[t['args'][0]].remove(block)
    return len(ops)


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
        got, want = [r['used'], r['total']], [s['allocated'], s['reserved']]
        if full(result):
            got.append(int(r['attr']['active']))
            want.append(s['active'])
        require(got == want, 'totals', got, 'stats', s, 'row', r)
        t = r['time'] - result.account['offset']
        require(t0 - 2000000 <= t <= t1 + 2000000, 'time of', r, 'not within', t0, t1)
        require(r['size'] >= block_size(size), 'size of', r, 'for', size)
    return len(ops)


HAL = {'halMemAlloc': 'MALLOC', 'halMemFree': 'FREE', 'halMemCreate': 'MALLOC', 'halMemRelease': 'FREE'}


# ns before the attach in which a probe may already be there, and after the stop in which memtap,
# having read the clock, may wait for a processor before it closes the probes
SLACK = 50000000


def inside(result, record):
    return record['t0'] > result.start and record['t1'] < result.stop


def at_start(result, record):
    """Across the beginning of the window: may have a row."""
    begin = result.start - int(result.summary['attach_ms'] * 1e6) - SLACK
    return record['t0'] <= result.start and record['t1'] > begin


def at_stop(result, record):
    return record['t0'] > result.start and record['t1'] >= result.stop and record['t0'] < result.stop + SLACK


def by_thread(items, tid, value):
    out = defaultdict(list)
    for x in items:
        out[tid(x)].append(value(x))
    return dict(out)


def part_of(short, long):
    """Is it the long list with some entries left out?"""
    rest = iter(long)
    return all(x in rest for x in short)


def windowed(what, result, rows, calls, key):
    """Rows of a window against calls with t0, t1, tid: each thread's in order, edges optional."""
    got = by_thread(rows, lambda r: r['tid'], lambda r: key(r, True))
    want, before, after = (by_thread([c for c in calls if test(result, c)], lambda c: c['tid'],
                                     lambda c: key(c, False)) for test in (inside, at_start, at_stop))
    for tid in sorted(set(got) | set(want)):
        g, w = got.get(tid, []), want.get(tid, [])
        b, a = before.get(tid, []), after.get(tid, [])
        if not any(g[i:i + len(w)] == w and part_of(g[:i], b) and part_of(g[i + len(w):], a)
                   for i in range(max(0, len(g) - len(w)) + 1)):
            same(f'{what} of thread {tid}, edges {len(b)} {len(a)}', g, w)
            require(False, what, 'differ')
    return sum(map(len, want.values()))


def hal(result):
    """HAL rows against the simulated driver's truth, thread by thread. Their number."""
    frees = ('halMemFree', 'halMemRelease')
    calls = [t for t in result.truth if t['fn'] in HAL and t['ret'] == 0]

    def key(x, is_row):
        if is_row:
            return x['event'], x['ptr'], x['size'] if x['event'] == 'MALLOC' else None
        free = x['fn'] in frees
        return HAL[x['fn']], x['args'][0] if free else x['out'], None if free else x['size']

    return windowed('HAL rows', result, result.of('HAL'), calls, key)


def launches(result):
    """KERNEL_LAUNCH rows against the simulated runtime's truth: names and order in each thread."""
    calls = [t for t in result.truth if t['fn'].startswith('rt') and 'Launch' in t['fn'] and t['ret'] == 0]
    return windowed('KERNEL_LAUNCH rows', result, result.of('KERNEL_LAUNCH'), calls, lambda x, _: x['name'])


def oom(result):
    """One OOM_TRIGGER row for each allocation call of ACL that fails, none for its retries inside."""
    calls = [t for t in result.truth if t['fn'].startswith('aclrtMalloc') and t['ret']]
    refused = [t for t in result.truth if t['fn'] in ('halMemAlloc', 'halMemCreate') and t['ret']
               and inside(result, t)]
    n = windowed('OOM_TRIGGER rows', result, result.of('OOM_TRIGGER'), calls, lambda x, _: 'OOM_Trigger')
    require(result.summary['oom'] == n, 'oom in the summary', result.summary['oom'], n)
    require(result.summary['failed_allocations'] == len(refused), 'failures in the summary',
            result.summary['failed_allocations'], 'refused by the driver', len(refused))
    return n


def segments(result, device=0):
    """HAL rows of the pool's segments: each segment_alloc has its MALLOC, each segment_free its FREE."""
    if not kept(result):
        return 0  # equal_log looks at them
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
