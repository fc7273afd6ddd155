#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays ground-truth files and checks that they are consistent in themselves: totals of the pools,
no double use of an address, nested calls inside their callers. Usage: check_truth.py FILE..."""
import collections
import json
import sys


def load(path):
    with open(path, encoding='utf-8') as f:
        rows = [json.loads(line) for line in f]
    for r in rows:
        if 'name' in r:  # bytes, one code point each
            r['name'] = r['name'].encode('latin-1').decode('utf-8', 'replace')
    return rows


def check(path):
    rows = load(path)
    errors = []
    if any(r['fn'] == 'truth_dropped' for r in rows):
        errors.append('records were dropped')

    # A pool's records of one device are made under its lock: t0 is their order.
    alloc, active, live = collections.Counter(), collections.Counter(), {}
    ws_alloc, ws_reserved = collections.Counter(), collections.Counter()
    n = collections.Counter()
    two_level = any(r['fn'].startswith('ws_use') for r in rows)
    for r in sorted((r for r in rows if r['fn'].startswith(('pta_', 'ws_', 'exec'))),
                    key=lambda r: r['t0']):
        if r['fn'] == 'exec':
            for c in (alloc, active, live, ws_alloc, ws_reserved):
                c.clear()
            continue
        d, fn, size = r['device'], r['fn'], r['size']
        n[fn] += 1
        if fn == 'pta_malloc':
            alloc[d] += size
            active[d] += size
            if (d, r['out']) in live:
                errors.append('%s: address handed out twice: %r' % (path, r))
            live[d, r['out']] = size
            if size < r['args'][0] + 32 or size % 512:
                errors.append('%s: size %r' % (path, r))
        elif fn == 'pta_free':
            alloc[d] -= size
            if live.get((d, r['out'])) != size:
                errors.append('%s: free of no block: %r' % (path, r))
            live.pop((d, r['out']), None)
        elif fn == 'pta_block_free':
            active[d] -= size
            # BLOCK_FREE comes before FREE: the block is no longer allocated by then
            if r['alloc'] not in (alloc[d], alloc[d] - size):
                errors.append('%s: allocated at block_free: %r' % (path, r))
        elif fn.startswith('ws_segment') and not two_level and r['reserved'] == 0:
            ws_alloc[d] += size if fn.endswith('malloc') else -size
        elif fn.startswith('ws_segment'):
            ws_reserved[d] += size if fn.endswith('malloc') else -size
        elif fn.startswith('ws_use'):
            ws_alloc[d] += size if fn.endswith('malloc') else -size
        if fn in ('pta_malloc', 'pta_free') and r['alloc'] != alloc[d]:
            errors.append('%s: allocated %d, should be %d: %r' % (path, r['alloc'], alloc[d], r))
            alloc[d] = r['alloc']
        if n['pta_block_free'] and fn.startswith('pta_') and r['active'] != active[d]:
            errors.append('%s: active %d, should be %d: %r' % (path, r['active'], active[d], r))
            active[d] = r['active']
        if fn.startswith('ws_') and r['alloc'] != ws_alloc[d]:
            errors.append('%s: workspace %d: %r' % (path, ws_alloc[d], r))
            ws_alloc[d] = r['alloc']
        if len(errors) > 10:
            break

    # Driver memory: an address is live once, each device free is of a live one (or fails).
    live = {}
    hal = [r for r in rows if r['fn'] in ('halMemAlloc', 'halMemFree', 'exec')]
    # A free makes room within its call, an allocation takes it within its own: order by start of
    # frees and end of allocations.
    for r in sorted(hal, key=lambda r: r['t1'] if r['fn'] == 'halMemAlloc' else r['t0']):
        if r['fn'] == 'exec':
            live.clear()
        elif r['ret']:
            continue
        elif r['fn'] == 'halMemAlloc':
            if r['out'] in live:
                errors.append('%s: halMemAlloc of a live address: %r' % (path, r))
            live[r['out']] = r
        elif live.pop(r['out'], None) is None:
            errors.append('%s: halMemFree of no block: %r' % (path, r))

    # Every acl launcher contains exactly one rt launch.
    by_tid = collections.defaultdict(list)
    for r in rows:
        by_tid[r['tid']].append(r)
    for tid, mine in by_tid.items():
        rt = sorted(r['t0'] for r in mine if r['fn'].startswith('rt') and 'stream' in r)
        for r in mine:
            if r['fn'].startswith('aclrtLaunchKernel'):
                inside = sum(1 for t in rt if r['t0'] <= t <= r['t1'])
                if inside != 1:
                    errors.append('%s: %d launches inside %r' % (path, inside, r))
    for e in errors[:10]:
        print(e)
    print('%s: %d rows, %d errors' % (path, len(rows), len(errors)))
    return bool(errors)


if __name__ == '__main__':
    sys.exit(any([check(p) for p in sys.argv[1:]]))
