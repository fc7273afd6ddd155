# SPDX-License-Identifier: Apache-2.0
"""What the vendor's tool wrote of a run, against what memtap wrote of the same program: rows, traces, console.

Times, PIDs, addresses and numbers of blocks become numbers of their first appearance. Not compared, for they
are the simulated CANN's: names, streams and tasks of kernels, page types, flags, and where among the rows of
others those of torch_npu's worker thread fall (so the ordinals of kernels at a row, too). Driver memory is a
multiset: torch_npu gives back its segments in the order of the addresses of streams. System rows of V-now are out of
order, they stand at the end of its files.
"""
import bisect
import collections
import glob
import gzip
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, '..', 'live'))
import readers  # noqa: E402

DATA = os.path.join(HERE, '..', 'offline', 'data')
KERNELS = ('KERNEL_LAUNCH', 'KERNEL_START', 'KERNEL_END')
UNORDERED = ('HAL', 'PTA_WORKSPACE', 'ACL_INIT', 'ACL_FINI', 'OOM_RECENT_ALLOC', 'OOM_TOP_ALLOC', *KERNELS)
SIMULATED = ('streamId', 'taskId', 'page_type', 'flag')


class Numbers(dict):
    def __missing__(self, key):
        self[key] = len(self) + 1
        return self[key]


def vendor_file(case, pattern, folder):
    """Path of the one file of a case that matches, unpacked into a folder; None if there is none."""
    found = glob.glob(os.path.join(DATA, case, '**', pattern), recursive=True)
    if len(found) != 1:
        return None
    path = os.path.join(folder, os.path.basename(found[0]).removesuffix('.gz'))
    with (gzip.open if found[0].endswith('.gz') else open)(found[0], 'rb') as f, open(path, 'wb') as g:
        data = f.read()
        if path.endswith('.csv'):
            # V-now's begins again behind a fork.
            lines = data.splitlines(keepends=True)
            data = b''.join(x for i, x in enumerate(lines) if not i or x != lines[0])
        g.write(data)
    return path


def one_of(pattern):
    found = glob.glob(pattern)
    assert len(found) == 1, (pattern, found)
    return found[0]


def rows_of(path):
    return (readers.read_db if path.endswith('.db') else readers.read_csv)(path)


def segments_only(rows):
    """Without driver memory that holds no block of a pool: the simulated runtime's own, and other than in the
    vendor's runs."""
    blocks = sorted(r['ptr'] for r in rows if r['event'] == 'MALLOC' and r['type'] not in ('HAL', 'HOST'))
    known = {r['ptr'] for r in rows if r['event'] == 'MALLOC'}

    def empty(r):
        at = bisect.bisect_left(blocks, r['ptr'])
        return at == len(blocks) or blocks[at] >= r['ptr'] + (r['size'] or 0)
    kept = [r for r in rows if r['type'] != 'HAL' or r['device'] in ('host', 'cpu') or not empty(r)]
    # Of lists of blocks as well.
    left = known - {r['ptr'] for r in kept if r['event'] == 'MALLOC'}
    return [r for r in kept if int(r['attr'].get('ptr', '0'), 16) not in left]


def processes(rows):
    """{number: rows}: a process for each, in the order of their first devices and rows."""
    by_pid = collections.defaultdict(list)
    for r in rows:
        by_pid[r['pid']].append(r)
    devices = {p: min([r['device'] for r in v if r['device'].isdigit()] or ['N/A']) for p, v in by_pid.items()}
    order = sorted(by_pid, key=lambda p: (devices[p], min(r['time'] for r in by_pid[p])))
    return {n: by_pid[p] for n, p in enumerate(order, 1)}


def left_last(rows):
    """Blocks without a FREE last, by their numbers: the vendor's order of them is that of a hash table."""
    freed = {r['allocation_id'] for r in rows if r['event'] == 'FREE'}
    left = [r for r in rows if r['event'] == 'MALLOC' and r['allocation_id'] not in freed]
    have = {id(r) for r in left}
    return [r for r in rows if id(r) not in have] + sorted(left, key=lambda r: r['id'])


def canonical(rows, number, drop):
    """Rows of a process, in the order of the file, as tuples that two runs have in common."""
    rows = left_last(segments_only(rows))
    names = collections.defaultdict(Numbers)
    out = {}
    for r in sorted(rows, key=lambda r: r['id']):
        kernel = r['event'] in KERNELS
        attr = {k: v for k, v in r['attr'].items() if k not in SIMULATED + ('addr',) + drop}
        if 'allocation_id' in attr:
            attr['allocation_id'] = names['id', r['type']][attr['allocation_id']]
        for key in ('ptr', 'timestamp'):
            if key in attr:
                attr[key] = names[key, r['type']][attr[key]]
        out[id(r)] = (r['event'], r['type'], '' if kernel else r['name'], number, 0 if kernel else names['tid'][r['tid']],
                      r['device'], None if r['ptr'] is None else names['ptr', r['type']][r['ptr']], tuple(sorted(attr.items())))
    return [out[id(r)] for r in rows]


def first(ours, theirs):
    at = next((i for i, (x, y) in enumerate(zip(ours, theirs)) if x != y), min(len(ours), len(theirs)))
    return (f'{len(ours)} and {len(theirs)} rows, from row {at} on: {ours[at:at + 1]}, '
            f'the vendor {theirs[at:at + 1]}')


def compare(ours, theirs, drop=(), without=(), unordered=UNORDERED):
    """{class: what differs}, empty if nothing does; `order`: that of all rows but kernels'.

    drop: attributes, without: classes "EVENT/TYPE", that differ on purpose; unordered: types that are no part of
    the order.
    """
    sides = []
    for rows in (ours, theirs):
        kept = [r for r in rows if f'{r["event"]}/{r["type"]}' not in without]
        sides.append([x for n, v in processes(kept).items() for x in canonical(v, n, tuple(drop))])
    differs = {}
    classes = [collections.defaultdict(list) for _ in sides]
    for side, of in zip(sides, classes):
        for r in side:
            of[f'{r[0]}/{r[1]}'].append(r)
    for key in sorted(set(classes[0]) | set(classes[1])):
        if key.endswith('/HAL'):
            for of in classes:
                of[key] = sorted(r[:6] + (tuple(x for x in r[7] if x[0] != 'allocation_id'),) for r in of[key])
        if classes[0][key] != classes[1][key]:
            differs[key] = first(classes[0][key], classes[1][key])
    order = [[r for r in side if r[1] not in unordered] for side in sides]
    if not differs and order[0] != order[1]:
        differs['order'] = first(*order)
    return differs


def events_of(path, pids, without=()):
    """Events of a trace file, without ordinals; those of kernels last, for they fall anywhere."""
    with open(path, encoding='utf-8') as f:
        events = [e for e in json.load(f) if e and e['name'] not in without]
    names, out, kernels = collections.defaultdict(Numbers), [], []
    for e in events:
        name = re.sub(r'^mem \d+ leak$', 'mem leak', e['name'])
        kernel = name.startswith('kernel_')
        args = {k: names[k][v] if k == 'addr' else v for k, v in e.get('args', {}).items()}
        x = (e['ph'], 'kernel' if kernel else name, pids[e['pid']] if e['pid'] > 1 else -e['pid'],
             0 if kernel else names['tid'][e['tid']], e.get('s'), sorted(args.items()), sorted(e))
        (kernels if kernel else out).append(x)
    return out + kernels


def compare_traces(case, ours, folder, kernels=True, without=(), edit=None):
    """{file: what differs}; ours: {'npu0': path, ...}; not kernels: these are the simulated CANN's, too.

    without: names of events that differ on purpose; edit: of the vendor's events."""
    differs = {}
    theirs = {re.match(r'[a-z]+\d*', os.path.basename(p))[0] for p in glob.glob(os.path.join(DATA, case, '*_trace_*.json*'))}
    theirs -= {'python'}
    if theirs != set(ours):
        differs['files'] = f'{sorted(ours)}, the vendor {sorted(theirs)}'
    for name in theirs & set(ours):
        a = events_of(ours[name], Numbers(), without)
        b = events_of(vendor_file(case, name + '_trace_*.json*', folder), Numbers(), without)
        if edit:
            b = edit(b)
        if not kernels:
            a, b = ([e for e in x if e[1] != 'kernel'] for x in (a, b))
        if a != b:
            differs[name] = first(a, b)
    return differs


def analysis_lines(text):
    """Of a console: what analyses print, tables of devices in their order. Addresses and ordinals become a dot."""
    lines = text.splitlines()
    at = next((i for i, x in enumerate(lines) if x.startswith('======')), len(lines))
    text = re.sub(r'0x[0-9a-f]+|kernel_\d+', '.', '\n'.join(lines[at:]))
    return sorted(re.split(r'\n(?========+ [PE])', text)) if text else []
