# SPDX-License-Identifier: Apache-2.0
"""Ways to run torch_npu: expandable segments, workspaces by task queue, the older launch path."""
import equal
from harness import Skip, unharmed
from test_pool import everything

EXPANDABLE = {'PYTORCH_NPU_ALLOC_CONF': 'expandable_segments:True'}


def test_expandable(bench):
    r = bench.traced('train', env=EXPANDABLE)
    note = everything(r)
    kinds = {x['attr']['alloc_type'] for x in r.of('HAL', 0, 'MALLOC')}
    equal.require(kinds == {'create'}, 'HAL rows of expandable segments are', kinds)
    unharmed(bench, r, 'train', env=EXPANDABLE)
    return note


def test_expandable_oom(bench):
    env = {**EXPANDABLE, 'SIM_HBM_BYTES': 8 << 30}
    r = bench.traced('oom', env=env)
    note = everything(r)
    equal.require(r.of('OOM_TRIGGER'), 'no OOM')
    unharmed(bench, r, 'oom', env=env)
    return note


SIZES = {'SIM_WS_BYTES': '65536,aclnnAdd:3000000,aclnnMul:5000000'}


def in_pool(bench, queue):
    """The workspaces are blocks of the caching allocator."""
    r = bench.traced('train', env={'SIM_WS_BYTES': 3000000, 'TASK_QUEUE_ENABLE': queue})
    note = everything(r)
    n = equal.workspace_in_pool(r)
    equal.require(not r.of('PTA_WORKSPACE') and n > 100, 'workspaces in the pool', n, r.of('PTA_WORKSPACE')[:1])
    return f'{note}, {n} workspaces among them'


def test_workspace_queue_0(bench):
    return in_pool(bench, 0)


def test_workspace_queue_1(bench):
    return in_pool(bench, 1)


def has_workspaces(r, bench):
    if not r.of('PTA_WORKSPACE') and not equal.pool_trace(r, 0)[1]:
        n = equal.workspace_in_pool(r)
        raise Skip(f'{bench.version()} has no workspace allocator: all {n} workspaces are blocks of the pool')


def test_workspace_queue_2(bench):
    r = bench.traced('train', env={'SIM_WS_BYTES': 3000000, 'TASK_QUEUE_ENABLE': 2})
    note = everything(r)
    has_workspaces(r, bench)
    rows = r.of('PTA_WORKSPACE')
    equal.require(rows, 'no workspace row')
    n = equal.workspace(r)
    callers = {x['tid'] for x in rows}
    equal.require(not callers & {x['tid'] for x in r.of('PTA')}, 'workspaces are of the queue thread')
    unharmed(bench, r, 'train', env={'SIM_WS_BYTES': 3000000, 'TASK_QUEUE_ENABLE': 2})
    return f'{note}; {n} PTA_WORKSPACE'


def test_workspace_growth(bench):
    """Several sizes, streams and devices: blocks grow, empty_cache takes them."""
    if not bench.knows('NPUWorkspaceAllocator'):
        raise Skip(f'{bench.version()} has no workspace allocator')
    env = {**SIZES, 'TASK_QUEUE_ENABLE': 2}
    r = bench.traced('workspaces', env=env)
    note = everything(r)
    has_workspaces(r, bench)
    n = sum(equal.workspace(r, d) for d in range(2))
    grown = {x['ptr'] for x in r.of('PTA_WORKSPACE')}
    equal.require(n > 8 and len(grown) > 4, 'rows', n, 'blocks', len(grown))
    unharmed(bench, r, 'workspaces', env=env)
    return f'{note}; {n} PTA_WORKSPACE in {len(grown)} blocks'


def test_workspace_overlap(bench):
    """A queue for each stream: their uses of one device overlap, and a free names the block used last."""
    if not bench.knows('PER_STREAM_QUEUE'):
        raise Skip(f'{bench.version()} has one queue a device')
    env = {**SIZES, 'TASK_QUEUE_ENABLE': 2, 'PER_STREAM_QUEUE': 1}
    r = bench.traced('workspaces', env=env)
    note = everything(r)
    n = sum(equal.workspace(r, d, overlap=True) for d in range(2))
    rows = r.of('PTA_WORKSPACE', 0)
    equal.require(len({x['tid'] for x in rows}) > 3, 'threads', {x['tid'] for x in rows})
    crossed = sum(a['event'] == b['event'] == 'MALLOC' for a, b in zip(rows, rows[1:]))
    unharmed(bench, r, 'workspaces', env=env)
    return f'{note}; {n} PTA_WORKSPACE, {crossed} begun in another one'


def test_old_launches(bench):
    r = bench.traced('train', env={'SIM_OP_LAUNCH': 'rt', 'SIM_RT_HANDLES': 'master'})
    return everything(r)
