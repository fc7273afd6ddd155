# SPDX-License-Identifier: Apache-2.0
"""Memory of the host in ranges: NumPy's arrays and torch's tensors of the CPU, against what the program says."""
import collections

import equal
from harness import unharmed


def test_numpy(bench):
    r = bench.traced('host', record=('--exact-ranges',))
    equal.require(r.summary['accounting']['exact'] and not r.summary['accounting']['lost'], 'account', r.summary['accounting'])
    host = r.summary['host_memory']
    equal.require((host['ranges'], host['stopped'], host['missed']) == (3, 3, 0), 'ranges', host)
    rows = sorted(r.of('HOST', 'host'), key=lambda x: x['time'])
    sizes = collections.Counter(x['size'] for x in rows if x['event'] == 'MALLOC' and 3000000 <= x['size'] < 4000000)
    due = collections.Counter(size for _, size in r.account['made'])
    equal.require(sizes == due, 'sizes', sizes - due, due - sizes)
    equal.require(not [x for x in rows if x['event'] == 'MALLOC' and x['size'] >= 5000000], 'rows outside of ranges')
    # Each block that was made has gone, and its rows belong together.
    made = {x['allocation_id']: x for x in rows if x['event'] == 'MALLOC' and x['size'] in due}
    freed = {x['allocation_id']: x for x in rows if x['event'] == 'FREE' and x['allocation_id'] in made}
    equal.require(len(made) == len(freed) == sum(due.values()), 'blocks', len(made), len(freed))
    equal.require(all(made[i]['ptr'] == freed[i]['ptr'] and made[i]['time'] <= freed[i]['time'] for i in made), 'pairs')
    equal.require({x['ptr'] for x in made.values()} == {a for a, _ in r.account['made']}, 'addresses')
    unharmed(bench, r, 'host')
    return f'{len(made)} blocks of NumPy and torch, {len(rows)} rows in all; stopped {host["stopped_most_ns"] / 1e6:.0f} ms at most'
