# SPDX-License-Identifier: Apache-2.0
"""Row by row: are memtap's rows exactly those that the ground truth owes?

    problems = compare(rows, records, summary, rules)

Every call inside the window (begins after the attach, returns before the stop) has one row with
the right values; every row stands for one call; none twice. Calls across an edge may have a row.
"""
import collections

import truth as T

EDGE = 25 * T.NS_MS   # a thread may lose the processor between probe and truth's clock
SLACK = 400 * T.NS_MS  # the same, in the middle of a run: bounded by the calls around it
BLOCKS = ('MALLOC', 'FREE')


def row_key(row):
    id_ = row['ptr'] if row['event'] in BLOCKS else None
    return row['pid'], row['tid'], row['event'], row['type'], id_


def moment(e):
    """When in its call the row of e has its time; calls of one key may enclose each other."""
    return e.t1 if e.when == T.RETURN else e.t0


def bounds(list_, eps):
    """Earliest and latest time of each expected row, clipped by its neighbours of the same key."""
    for i, e in enumerate(list_):
        before = moment(list_[i - 1]) if i else 0
        after = moment(list_[i + 1]) if i + 1 < len(list_) else 1 << 63
        e.lo, e.hi = e.t0 - eps, e.t1 + eps
        if e.when == T.ENTRY:
            e.lo, e.hi = max(e.t0 - SLACK, before), e.t0 + eps
        elif e.when == T.AROUND:
            e.hi = min(e.t1 + T.NS_MS // 10, max(e.t1 + eps, after - 1))
        elif e.when == T.RETURN:
            e.lo, e.hi = e.t1 - eps, min(e.t1 + SLACK, after - 1)


def check_fields(e, row):
    bad = []
    preattach = row['attr'].get('preattach') == 'true'
    for k, v in e.fields.items():
        if k == 'size' and preattach and row['size'] is None:
            continue
        if row[k] != v:
            bad.append(f'{k} {row[k]!r}, truth {v!r}')
    for k, v in e.attrs.items():
        if row['attr'].get(k) != v:
            bad.append(f'{k} {row["attr"].get(k)!r}, truth {v!r}')
    if e.check:
        what = e.check(row)
        if what:
            bad.append(what)
    return bad


class Report(list):
    """Problems, with the counts of what was compared."""

    def __init__(self):
        super().__init__()
        self.due = self.matched = self.edge = 0
        self.kinds = collections.Counter()


def match(due, rows, inside, report, eps):
    """One key: both lists in time order."""
    bounds(due, eps)
    j = 0
    for e in due:
        while j < len(rows) and rows[j]['boot'] < e.lo:
            report.append(f'row without a call: {brief(rows[j])}, next call {e}')
            j += 1
        if j < len(rows) and rows[j]['boot'] <= e.hi:
            for what in check_fields(e, rows[j]):
                report.append(f'{what}: {e} / {brief(rows[j])}')
            rows[j]['expected'] = e
            report.matched += 1
            report.edge += not inside(e)
            report.kinds[e.event + ' ' + e.type] += 1
            j += 1
        elif inside(e):
            report.append(f'no row: {e}')
    for row in rows[j:]:
        report.append(f'row without a call: {brief(row)}')


def brief(row):
    return (f'{row["id"]} {row["event"]} {row["type"]} {row["name"]!r} pid {row["pid"]} tid {row["tid"]} '
            f'boot {row.get("boot")} dev {row["device"]} ptr {row["ptr"]} {row["attr"]}')


def compare(rows, records, summary, rules, offset=None, eps=200, skip=(), window=None, keep=None):
    """skip: keys (event, type) that were filtered out by an option; keep: what else decides."""
    report = Report()
    if window:
        begin, end = window
    else:
        begin, end = summary['attached_boot_ns'], summary['stopped_boot_ns']
    rules.attached = begin
    if offset is None:
        offset = summary['boot_to_real_ns']

    def inside(e):
        return e.t0 >= begin + EDGE * (not rules.from_start) and e.t1 <= end - EDGE

    due, got = collections.defaultdict(list), collections.defaultdict(list)
    for e in T.expected(records, rules):
        if (e.event, e.type) not in skip and (keep is None or keep(e)):
            due[e.key()].append(e)
            report.due += inside(e)
    for row in rows:
        row['boot'] = row['time'] - offset
        if row['event'] == 'SYSTEM' and row['type'] in ('START_TRACE', 'STOP_TRACE', 'LOST'):
            continue
        got[row_key(row)].append(row)
    for key in due.keys() | got.keys():
        list_ = sorted(due.get(key, ()), key=moment)
        mine = sorted(got.get(key, ()), key=lambda r: r['time'])
        # what is far outside the window cannot have a row and must not attract one
        match(list_, mine, inside, report, eps)
    return report


def invariants(rows, summary=None, block_order=False):
    """Rules of the file itself, without the truth."""
    bad = []
    last_id, last_time, live, seen = {}, 0, {}, set()
    ordered = sorted(rows, key=lambda r: (r['time'], r['id'])) if block_order else rows
    ids = collections.defaultdict(list)
    for row in ordered:
        ids[row['pid']].append(row['id'])
        if row['attr'].get('late') == 'true':
            continue
        if row['time'] < last_time:
            bad.append(f'time goes back: {brief(row)}')
        last_time = row['time']
        if row['event'] not in BLOCKS:
            continue
        key = row['pid'], row['type'], row['ptr'], row['attr'].get('alloc_type') == 'create'
        n = row['allocation_id']
        if n is None or n < 1:
            bad.append(f'allocation_id: {brief(row)}')
        if row['event'] == 'MALLOC':
            if n in seen:
                bad.append(f'allocation_id {n} again: {brief(row)}')
            live[key] = n
        else:
            had = live.pop(key, None)
            if had is None and row['type'] == 'HAL':
                had = live.pop((*key[:3], True), None)
            if had is not None and had != n and row['attr'].get('preattach') != 'true':
                bad.append(f'FREE with allocation_id {n}, MALLOC had {had}: {brief(row)}')
            if had is None and row['attr'].get('preattach') != 'true':
                bad.append(f'FREE of no block: {brief(row)}')
        seen.add(n)
    for pid, list_ in ids.items():
        if block_order:
            list_ = sorted(list_)
        if list_ != list(range(1, len(list_) + 1)):
            wrong = next((i for i, v in enumerate(list_) if v != i + 1), 0)
            bad.append(f'IDs of {pid}: {len(list_)} rows, at place {wrong + 1}: {list_[wrong:wrong + 3]}')
    starts = collections.Counter(r['pid'] for r in rows if r['type'] == 'START_TRACE')
    stops = collections.Counter(r['pid'] for r in rows if r['type'] == 'STOP_TRACE')
    if set(starts.values()) - {1} or starts != stops or set(ids) != set(starts):
        bad.append(f'START_TRACE {dict(starts)}, STOP_TRACE {dict(stops)}, processes {sorted(ids)}')
    if summary:
        bad += accounting(rows, summary)
    return bad


def accounting(rows, summary, lossless=True):
    """The identity of design.md, and the file against the summary."""
    a, bad = summary['accounting'], []
    if not a['exact']:
        bad.append(f'accounting is not exact: {a}')
    if a['seen'] != a['rows'] + a['without_row'] + a['lost'] + a['undecodable']:
        bad.append(f'accounting does not add up: {a}')
    if lossless and (a['lost'] or a['undecodable'] or summary['rows_unwritten']):
        bad.append(f'losses in a normal run: {a}')
    if len(rows) != summary['rows_written'] or len(rows) != a['rows'] + summary['rows_extra']:
        bad.append(f'{len(rows)} rows in the file, {summary["rows_written"]} written, '
                   f'{a["rows"]} + {summary["rows_extra"]} in the summary')
    # N/A: an unknown number of calls that nothing saw, as of a library that was probed late
    lost = sum(int(r['attr']['count']) for r in rows if r['type'] == 'LOST' and r['attr']['count'] != 'N/A')
    if lost != a['lost'] + a['undecodable'] or lost != sum(l['count'] for l in summary['losses']):
        bad.append(f'LOST rows say {lost}, the summary {a["lost"]} and {a["undecodable"]}: {summary["losses"]}')
    return bad
