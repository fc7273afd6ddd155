# SPDX-License-Identifier: Apache-2.0
"""
memtap's rows against the account of generation 5.0, which keeps no history: the line that its
allocator logs for each allocation and free, with the block's size and the totals after it, and the
blocks of memory_snapshot() before and after.
"""
import re
from collections import defaultdict

LINE = re.compile(r'\[acl \d\] (\d+) \S+ \[PTA\]:"PTA CachingAllocator (malloc|free): (?:malloc|free) = (\d+), '
                  r'cached = (\d+), allocated = (\d+)"')


def require(ok, text, *more):
    if not ok:
        raise AssertionError(' '.join([text] + [str(m) for m in more]))


def entries(text):
    """(thread, event, size, used, total) of each line of the allocator."""
    return [(int(m[1]), 'MALLOC' if m[2] == 'malloc' else 'FREE', int(m[3]), int(m[5]), int(m[4]))
            for m in LINE.finditer(text)]


def of_row(r):
    return r['tid'], r['event'], r['size'], r['used'], r['total']


def blocks(snapshot, device):
    """{address: size} of the blocks in use, {address: size} of the segments."""
    used, segments = {}, {}
    for s in snapshot:
        if s['device'] != device:
            continue
        segments[s['address']] = s['total_size']
        address = s['address']
        for b in s['blocks']:
            if b['state'] == 'active_allocated':
                used[address] = b['size']
            address += b['size']
    return used, segments


def by_thread(items):
    out = defaultdict(list)
    for x in items:
        out[x[0]].append(x)
    return out


def history(result, same, to_exit):
    """PTA rows against the log, in the order of its lines if there is one device. Those that were compared."""
    want = entries(result.said)
    devices = range(len(result.account['base']))
    rows = result.of('PTA')
    got = [of_row(r) for r in rows]
    if to_exit:
        require(all(r['event'] == 'FREE' for r in rows[len(want):]), 'MALLOC rows behind the log')
        rows, got = rows[:len(want)], got[:len(want)]
    if len(devices) == 1:
        same('PTA rows and the log', got, want)
    else:  # two allocators: their lines are in order in each thread only
        got, want = by_thread(got), by_thread(want)
        for tid in sorted(set(got) | set(want)):
            same(f'PTA rows and the log, thread {tid}', got[tid], want[tid])
    for d in devices:
        addresses(result, [r for r in rows if r['device'] == str(d)], d, to_exit)
    return rows


def addresses(result, rows, device, to_exit):
    """From the blocks at the beginning the rows lead to the blocks at the end, and so do the totals."""
    live, before = blocks(result.account['snapshots'][0], device)
    end, after = blocks(result.account['snapshots'][1], device)
    used = result.account['base'][device]['allocated']
    for r in rows:
        if r['event'] == 'MALLOC':
            require(r['ptr'] not in live, 'allocated twice:', r)
            live[r['ptr']] = r['size']
            used += r['size']
        else:
            require(live.pop(r['ptr'], None) == r['size'], 'FREE of a block not in use:', r)
            used -= r['size']
        require(r['used'] == used, 'sum of the blocks', used, 'row', r)
    require(to_exit or live == end, 'blocks in use at the end:', len(live), 'rows,', len(end), 'snapshot')
    if to_exit:
        return
    driver = {}
    for r in result.of('HAL', device):
        if r['event'] == 'MALLOC':
            driver[r['ptr']] = r['size']
        else:
            driver.pop(r['ptr'], None)
            before.pop(r['ptr'], None)
    if any(r['attr'].get('alloc_type') == 'create' for r in result.of('HAL')):
        # expandable: the driver gives handles, which the snapshot does not have
        grown = sum(after.values()) - sum(before.values())
        require(sum(driver.values()) == grown, 'handles', driver, 'segments', grown)
        return
    for address, size in after.items():
        require(address in before or driver.get(address, 0) >= size, 'segment', hex(address), 'of', size,
                'has no HAL row')
