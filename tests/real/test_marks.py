# SPDX-License-Identifier: Apache-2.0
"""Markers from Python, which never reach the library in a process that no tool has started."""
import glob
import os

import equal
from harness import Skip

CUT = 254  # bytes of a message that the vendor's tool prints


def printable(message):
    """What the vendor's tool prints of it: nothing that a spreadsheet takes for a formula."""
    return '' if message.startswith(('=', '+', '-', '@')) else message[:CUT]


def shown(row):
    """Type, message as far as the vendor prints it, is it marked as cut."""
    if row['type'] == 'Range_end':
        return row['type'], None, None
    note = row['attr'].get('note')
    return row['type'], row['name'][:CUT], note if note != 'message cut' else True


def marks(bench, module):
    folder = os.path.join(bench.build, 'tests', 'sim', 'python')
    env = {'REAL_MSTX': folder} if module else {}
    r = bench.traced('marks', env=env)
    equal.clean(r)
    rows = [x for x in r.rows if x['event'] == 'MSTX']
    want = r.account['marks']
    for tid in {m[0] for m in want} | {x['tid'] for x in rows}:
        equal.same(f'MSTX rows of thread {tid}', [shown(x) for x in rows if x['tid'] == tid],
                   [(k, None if k == 'Range_end' else printable(n), True if k != 'Range_end' and len(n) > CUT else None)
                    for t, k, n in want if t == tid])
    # which start an end belongs to
    started, open_ranges, ids = [], {}, set()
    for x in rows:
        mine = open_ranges.setdefault(x['tid'], [])
        if x['type'] == 'Range_start':
            mine.append(x)
            started.append(x)
        elif x['type'] == 'Range_end':
            ids.add(x['name'])
            mine.pop()
    equal.require(not any(open_ranges.values()), 'ranges still open')
    equal.require(len(ids) == len(started), 'ids of range ends', len(ids), 'starts', len(started))
    equal.require(r.summary['pools'] or not ids, 'the pool has a row within the ranges')
    return f'{len(rows)} marks equal'


def test_torch_npu(bench):
    if not os.path.exists(bench.site('torch_npu', 'npu', 'mstx.py')):
        raise Skip(f'{bench.version()} has no torch_npu.npu.mstx')
    return marks(bench, False)


def test_with_module(bench):
    folder = os.path.join(bench.build, 'tests', 'sim', 'python')
    tag = 'cpython-' + bench.python().replace('.', '')
    if not glob.glob(os.path.join(folder, f'mstx.{tag}*.so')):
        raise Skip(f'the module mstx is not built for Python {bench.python()}')
    return marks(bench, True)
