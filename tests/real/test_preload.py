# SPDX-License-Identifier: Apache-2.0
"""Beside the vendor's own preload: torch_npu then reports to mstx too, and nothing is counted twice."""
import glob
import os

import equal
from harness import Skip
from test_pool import everything

HOOKS = ('libleaks_ascend_hal_hook.so', 'libascend_mstx_hook.so', 'libascend_kernel_hook.so')


def test_preload(bench):
    paths = [os.path.join(bench.build, 'tests', 'sim', 'hooks', h) for h in HOOKS]
    log = os.path.join(bench.folder, 'hooks')
    r = bench.traced('train', env={'LD_PRELOAD': ':'.join(paths), 'SIM_HOOKS_LOG': log}, tag='.hooked')
    note = everything(r)
    calls = {}
    for path in glob.glob(log + '.*'):
        with open(path, encoding='utf-8') as f:
            for line in f:
                name, n = line.split()
                calls[name] = calls.get(name, 0) + int(n)
    equal.require(calls.get('halMemAlloc', 0) > 0, 'the hooks were not called:', calls)
    if not calls.get('mstxMemRegionsRegister'):
        raise Skip(f'this torch_npu makes no mstx memory calls (they begin with 7.0.0): {calls}')
    rows = [x for x in r.rows if x['event'] == 'MALLOC' and x['type'].startswith('PTA')]
    # Those before the attach are the tool's alone.
    equal.require(len(rows) <= calls['mstxMemRegionsRegister'], len(rows), calls)
    return f'{note}; mstx registered {calls["mstxMemRegionsRegister"]} regions'
