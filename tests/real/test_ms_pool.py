# SPDX-License-Identifier: Apache-2.0
"""MindSpore's pools in each of their forms: rows against its own statistics and memory tracker."""
import equal
import equal_ms
from harness import unharmed


def conf(text):
    return {'MS_ALLOC_CONF': text}


def storm(bench, env):
    r = bench.traced('ms_storm', env=env)
    n = equal_ms.operations(r)
    h = equal.hal(r)
    equal.require(n > 600, 'too little happened')
    s = r.summary
    refused = sum(o[0] == 'X' for o in r.account['ops'])
    equal.require(s['without_row']['failed calls'] >= refused, 'refused', refused, s['without_row'])
    # pinned and CPU pools: seen, told apart, and no row of them
    equal.require(s['without_row']['MindSpore host pools'] >= 100, 'host pools', s['without_row'])
    return r, f'{n} operations with used and total equal, {h} HAL, {refused} refused, ' \
              f'{s["without_row"]["MindSpore host pools"]} of host pools left out'


def test_default(bench):
    r, note = storm(bench, {})
    unharmed(bench, r, 'ms_storm')
    return note


def test_without_vmm(bench):
    return storm(bench, conf('enable_vmm:false'))[1]


def test_older(bench):
    return storm(bench, conf('older_pool:true'))[1]


def test_older_without_vmm(bench):
    return storm(bench, conf('older_pool:true,enable_vmm:false'))[1]


def test_enhanced(bench):
    """memory_tracker makes the enhanced pool, and gives its own list of events."""
    r, note = storm(bench, conf('memory_tracker:true'))
    return f'{note}; {equal_ms.tracked(r)} equal to the tracker\'s list'


def test_train(bench):
    r = bench.traced('ms_train')
    n = equal_ms.at_rest(r)
    k, h = equal.launches(r), equal.hal(r)
    equal.require(n > 500 and k > 200, 'too little happened', n, k)
    unharmed(bench, r, 'ms_train')
    return f'{n} rows, {k} launches, {h} HAL equal; {len(r.account["ops"])} steps with used and total equal'


def test_train_enhanced(bench):
    r = bench.traced('ms_train', env=conf('memory_tracker:true'))
    equal_ms.at_rest(r)
    return f'{equal_ms.tracked(r)} rows equal to the tracker\'s list'


def test_train_older(bench):
    r = bench.traced('ms_train', env=conf('older_pool:true,memory_tracker:true'))
    equal_ms.at_rest(r)
    return f'{equal_ms.tracked(r, one_lock=False)} rows equal to the tracker\'s list'


def test_threads(bench):
    r = bench.traced('ms_threads')
    n = equal_ms.at_rest(r)
    equal.require(n > 800, 'too little happened', n)
    return f'{n} rows, {len(r.account["ops"])} times at rest equal'


def test_threads_older(bench):
    r = bench.traced('ms_threads', env=conf('older_pool:true'))
    return f'{equal_ms.at_rest(r)} rows, {len(r.account["ops"])} times at rest equal'


def full(bench, text):
    r = bench.traced('ms_oom', env={'SIM_HBM_BYTES': 4 << 30, **conf(text)})
    n = equal_ms.operations(r)
    return f'{n} operations equal, {equal_ms.refused(r)}'


def test_oom(bench):
    return full(bench, '')


def test_oom_without_vmm(bench):
    return full(bench, 'enable_vmm:false')


def test_parts(bench):
    """Lists cut from one block, parts kept of blocks that are freed."""
    r = bench.traced('ms_parts')
    n = equal_ms.at_rest(r, live=True)
    equal.require(r.summary['frees_preattach'] == 1, 'blocks from before', r.summary['frees_preattach'])
    equal.require(r.summary['without_row']['MindSpore blocks cut apart'] > 500, r.summary['without_row'])
    return f'{n} rows, the blocks after each of {len(r.account["ops"])} operations'


def test_parts_older(bench):
    r = bench.traced('ms_parts', env=conf('older_pool:true'))
    return f'{equal_ms.at_rest(r, live=True)} rows, the blocks after each of {len(r.account["ops"])} operations'
