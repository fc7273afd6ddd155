# SPDX-License-Identifier: Apache-2.0
"""memtap's MINDSPORE rows against MindSpore's own statistics and the list its memory tracker keeps."""
import equal
from equal import require, same

def common(r):
    """What holds for each program; its rows."""
    equal.clean(r)
    rows, known = r.of('MINDSPORE'), False
    for x in rows:
        # which device it is may not be known before the driver is called
        require(x['device'] == '0' or (x['device'] == 'N/A' and not known), 'device of', x)
        known |= x['device'] == '0'
        require(x['used'] <= x['total'], 'used above total', x)
    peaks(r, rows)
    return rows


def peaks(r, rows):
    """The highest totals of the rows and of before are MindSpore's own."""
    base, end = r.account['base'], r.account['stats']
    for column, what in (('used', 'max_allocated'), ('total', 'max_reserved')):
        top = max([base[what]] + [x[column] for x in rows])
        require(top == end[what], what, 'of the rows', top, 'of MindSpore', end[what])
    pool = [p for p in r.summary['pools'] if p['type'] == 'MINDSPORE' and p['device'] == 0]
    require(len(pool) == 1 and not pool[0]['since_attach_only'], 'pools of the summary', r.summary['pools'])
    require(pool[0]['used'] == end['allocated'], 'used in the summary', pool, end)


def operations(r):
    """Each operation of the program has its row, with the totals that the statistics had behind it."""
    rows = common(r)
    ops = [o for o in r.account['ops'] if o[0] in 'MF']
    same('operations', [(x['event'][0], x['ptr']) for x in rows], [(o[0], o[1]) for o in ops])
    for x, (_, _, size, t0, t1, s) in zip(rows, ops):
        require((x['used'], x['total']) == (s['allocated'], s['reserved']), 'totals of', x, 'statistics', s)
        require(x['size'] == equal.block_size(size), 'size of', x, 'for', size)
        t = x['time'] - r.account['offset']
        require(t0 - 2000000 <= t <= t1 + 2000000, 'time of', x, 'not within', t0, t1)
    return len(ops)


def at_rest(r, live=False):
    """
    Rows up to the end of each operation, when nothing runs: their sums and what they tell are
    the statistics. live: the operation's address has the blocks that must be there. Number of rows.
    """
    rows, i, blocks = common(r), 0, {}
    used = r.account['base']['allocated']
    for kind, due, _, _, t1, s in r.account['ops']:
        first, unknown = i, False
        while i < len(rows) and rows[i]['time'] - r.account['offset'] <= t1:
            x = rows[i]
            i += 1
            if x['event'] == 'MALLOC':
                require(x['ptr'] not in blocks, 'given twice:', x)
                blocks[x['ptr']] = x['size']
                used += x['size']
            elif x['ptr'] in blocks:
                require(blocks.pop(x['ptr']) == x['size'], 'FREE of another size', x)
                used -= x['size']
            else:
                require(x['attr'].get('preattach') == 'true', 'FREE of no block:', x)
                unknown = True  # nobody knows its size
        if unknown:
            used = s['allocated']
        if i > first:
            last = rows[i - 1]
            require((last['used'], last['total']) == (s['allocated'], s['reserved']), 'after', kind, last, s)
        require(used == s['allocated'], 'sum of the rows after', kind, used, 'statistics', s)
        if live:
            same('blocks after ' + kind, sorted(blocks.items()), [tuple(b) for b in due])
    require(i == len(rows), 'rows behind the last operation:', rows[i:i + 2])
    return len(rows)


def tracked(r, one_lock=True):
    """
    Event by event against the list of MindSpore's own tracker. Their number. In the older pool an
    allocation returns after the lock: there, allocations and frees each have their order.
    """
    rows, events = common(r), []
    for address, size, used, start, end in r.account['blocks']:
        if start > r.account['stamp']:
            events.append((start, 'MALLOC', address, size, used))
        if end is not None and end > r.account['stamp']:
            # the size of a block from before the attach is not known
            events.append((end, 'FREE', address, size if start > r.account['stamp'] else None, None))
    got = [(x['event'], x['ptr'], x['size'], x['used'] if one_lock and x['event'] == 'MALLOC' else None)
           for x in rows]
    want = [e[1:] if one_lock else (*e[1:4], None) for e in sorted(events)]
    if not one_lock:
        for kind in ('MALLOC', 'FREE'):
            same('the tracker\'s ' + kind, *([x for x in v if x[0] == kind] for v in (got, want)))
        return len(rows)
    # The tracker is not told of blocks that a stream still used and that go when it is done.
    later = r.summary['without_row']['MindSpore frees that wait or find nothing']
    require(len(got) - len(want) == later, 'rows', len(got), 'tracker', len(want), 'freed later', later)
    if not later:
        same('the tracker\'s events', got, want)
    require(equal.part_of(want, got), 'the tracker\'s events are no part of the rows')
    same('the tracker\'s allocations', *([x for x in v if x[0] == 'MALLOC'] for v in (got, want)))
    return len(rows)


def refused(r):
    """One OOM row for each call of ACL that fails; each request that the pool refuses is counted."""
    calls = [t for t in r.truth if t['fn'].startswith('aclrtMalloc') and t['ret']]
    driver = sum(t['fn'] in ('halMemAlloc', 'halMemCreate') and t['ret'] != 0 for t in r.truth)
    asked = sum(o[0] == 'X' for o in r.account['ops'])
    require(asked > 5, 'nothing was refused')
    require(r.summary['failed_allocations'] == driver + asked, 'failures', r.summary['failed_allocations'],
            'of the driver', driver, 'of the pool', asked)
    n = equal.windowed('OOM_TRIGGER rows', r, r.of('OOM_TRIGGER'), calls, lambda x, _: 'OOM_Trigger')
    return f'{asked} refused, {driver} of them by the driver, {n} OOM rows'
