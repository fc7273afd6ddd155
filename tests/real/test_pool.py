# SPDX-License-Identifier: Apache-2.0
"""The caching allocator: rows against its history and its counters, and nothing changed by tracing."""
import equal
from harness import Skip, unharmed


def everything(r, completed=True):
    """All comparisons that hold for any program with an account; a note for the closing bracket."""
    equal.clean(r)
    rows = equal.pool(r)
    if completed:
        equal.completed(r)
    n = equal.hal(r)
    for d in equal.devices(r):
        equal.segments(r, d)
    k, o = equal.launches(r), equal.oom(r)
    return f'{rows} PTA, {n} HAL, {k} launches' + (f', {o} OOM' if o else '') + ' equal'


def test_storm(bench):
    r = bench.traced('storm')
    note = everything(r)
    n = equal.operations(r)
    equal.require(n >= 2000 and len(r.of('HAL')) > 5, 'too little happened')
    unharmed(bench, r, 'storm')
    return f'{note}; totals after each of {n} operations'


def test_train(bench):
    r = bench.traced('train')
    note = everything(r)
    equal.require(len(r.of('KERNEL_LAUNCH')) > 100, 'few launches')
    threads = {x['tid'] for x in r.of('PTA')}
    equal.require(len(threads) > 1, 'autograd has a thread of its own, rows name', threads)
    unharmed(bench, r, 'train')
    return note


def test_threads(bench):
    if bench.rc2():
        raise Skip(f'{bench.version()} reads blocks behind its lock: with threads it crashes now and then, untraced too')
    r = bench.traced('threads')
    note = everything(r)
    equal.require(r.of('PTA', 0) and r.of('PTA', 1), 'both devices have rows')
    equal.require(len({x['tid'] for x in r.of('PTA')}) == 6, 'six threads allocate')
    unharmed(bench, r, 'threads')
    return note


def test_streams(bench):
    env = {'SIM_EVENT_DELAY_US': 100000}
    r = bench.traced('streams', env=env)
    note = everything(r)
    equal.operations(r)
    held = [o for o in r.account['ops'] if o[0] == 'F' and o[5]['active'] > o[5]['allocated']]
    equal.require(len(held) >= 12, 'freed blocks that a stream still holds:', len(held))
    if equal.full(r):
        equal.require(len({x['attr']['stream'] for x in r.of('PTA')}) == 4, 'rows name the four streams')
    unharmed(bench, r, 'streams', env=env)
    return f'{note}, {len(held)} freed while in use'


def test_oom(bench):
    env = {'SIM_HBM_BYTES': 8 << 30}
    r = bench.traced('oom', env=env)
    note = everything(r)
    s = r.account['stats'][0]
    # torch_npu asks once more after it has emptied its cache
    equal.require(len(r.of('OOM_TRIGGER')) == s['ooms'] + s['retries'], 'OOM_TRIGGER rows', r.summary['oom'], s)
    for x in r.of('OOM_TRIGGER'):
        equal.require(x['attr']['func'] == 'halMemAlloc' and int(x['attr']['req_size']) >= 1 << 30, x)
    unharmed(bench, r, 'oom', env=env)
    return note


def test_empty_cache(bench):
    r = bench.traced('empty_cache')
    note = everything(r)
    freed = 0
    for t0, t1, s in r.account['clear']:
        offset = r.account['offset']
        rows = [x for x in r.rows if t0 <= x['time'] - offset <= t1]
        equal.require(rows and all(x['type'] == 'HAL' and x['event'] == 'FREE' for x in rows),
                      'empty_cache writes', [(x['event'], x['type']) for x in rows])
        freed += len(rows)
        equal.require(freed == s['segment_frees'] - r.account['base'][0]['segment_frees'],
                      'segments freed', freed, s)
    unharmed(bench, r, 'empty_cache')
    return note


def test_not_cached(bench):
    if not bench.knows('PYTORCH_NO_NPU_MEMORY_CACHING'):
        raise Skip(f'{bench.version()} does not read PYTORCH_NO_NPU_MEMORY_CACHING')
    env = {'PYTORCH_NO_NPU_MEMORY_CACHING': 1}
    r = bench.traced('storm', '400', env=env)
    note = everything(r)
    equal.require(not r.of('PTA') and len(r.of('HAL')) == 400, 'HAL only, one row an operation')
    unharmed(bench, r, 'storm', '400', env=env)
    return note


def test_losses(bench):
    """
    A ring far too small, and nobody who empties it: what is missing is exactly what memtap says it
    has lost.
    """
    r = bench.traced('storm', record=('--ring-size', '4K'), held=True)
    a = r.summary['accounting']
    equal.require(a['exact'], 'the accounting does not add up:', a)
    rows, (want, of_row) = r.of('PTA'), equal.happened(r)
    equal.require(equal.part_of([of_row(x) for x in rows], want), 'rows are no part of the account')
    happened = len(want) + equal.back_in_pool(r)
    lost = sum(x['count'] for x in r.summary['losses'] if 'reportMemory' in x['probe'])
    equal.require(lost > 0 and rows, 'lost', lost, 'rows', len(rows))
    seen = len(rows) + r.summary['without_row']['PTA blocks back in the pool']
    equal.require(seen + lost == happened, 'seen', seen, 'lost', lost, 'in the history', happened)
    told = sum(int(x['attr']['count']) for x in r.of('LOST') if x['attr']['count'].isdigit())
    equal.require(told == a['lost'], 'LOST rows tell of', told, 'lost', a['lost'])
    return f'{lost} of {happened} lost and told'
