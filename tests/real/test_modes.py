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


def workspaces(bench, queue, size=3000000):
    r = bench.traced('train', env={'SIM_WS_BYTES': size, 'TASK_QUEUE_ENABLE': queue})
    note = everything(r)
    return r, note, [x for x in r.of('PTA', 0, 'MALLOC') if x['size'] >= equal.block_size(size)]


def test_workspace_queue_0(bench):
    r, note, large = workspaces(bench, 0)
    equal.require(not r.of('PTA_WORKSPACE') and len(large) > 100, 'workspaces are blocks of the pool', len(large))
    return note


def test_workspace_queue_1(bench):
    r, note, large = workspaces(bench, 1)
    equal.require(not r.of('PTA_WORKSPACE') and len(large) > 100, 'workspaces are blocks of the pool', len(large))
    return note


def test_workspace_queue_2(bench):
    r, note, _ = workspaces(bench, 2)
    rows = r.of('PTA_WORKSPACE')
    if not rows and not equal.pool_trace(r, 0)[1]:
        raise Skip('this release has no workspace allocator')
    equal.require(rows, 'no workspace row')
    n = equal.workspace(r)
    callers = {x['tid'] for x in rows}
    equal.require(not callers & {x['tid'] for x in r.of('PTA')}, 'workspaces are of the queue thread')
    unharmed(bench, r, 'train', env={'SIM_WS_BYTES': 3000000, 'TASK_QUEUE_ENABLE': 2})
    return f'{note}; {n} PTA_WORKSPACE'


def test_old_launches(bench):
    r = bench.traced('train', env={'SIM_OP_LAUNCH': 'rt', 'SIM_RT_HANDLES': 'master'})
    return everything(r)
