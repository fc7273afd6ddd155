# SPDX-License-Identifier: Apache-2.0
"""Ways into the allocator beside plain tensors, each against torch_npu's own account."""
import os
import subprocess

import equal
from harness import HERE, Skip, unharmed
from test_pool import everything


def needs(bench, name):
    if not bench.has(name):
        raise Skip(f'{bench.version()} has no {name}')


def given_back(r):
    """empty_cache returned segments, and the driver's rows are as many."""
    s, base = r.account['clear'][0][2], r.account['base'][0]
    n = s['segment_frees'] - base['segment_frees']
    equal.require(n > 0, 'no segment of a private pool was given back', s, base)
    return n


def test_external(bench):
    """MallocBlock and FreeBlock: blocks that no tensor has."""
    r = bench.traced('external')
    note = everything(r)
    n = equal.operations(r)
    rows = r.of('PTA', 0, 'MALLOC')
    equal.same('sizes by GetBlockSize', [x['size'] for x in rows[::2]], r.account['sizes'])
    unharmed(bench, r, 'external')
    return f'{note}; totals after each of {n} operations'


def test_pools(bench):
    needs(bench, 'MemPool')
    r = bench.traced('pools')
    note = everything(r)
    unharmed(bench, r, 'pools')
    return note


def test_graphs(bench):
    needs(bench, 'NPUGraph')
    r = bench.traced('graphs')
    note = everything(r)
    n = given_back(r)
    unharmed(bench, r, 'graphs')
    return f'{note}, {n} segments of graphs given back; ' + '; '.join(x for x in r.stdout if x.startswith('train'))


def test_pluggable(bench):
    """An allocator of the user: no record of torch_npu's, the driver's rows are all there is."""
    needs(bench, 'NPUPluggableAllocator')
    library = os.path.join(bench.folder, 'pluggable.so')
    subprocess.run(['gcc', '-shared', '-fPIC', '-O1', '-o', library, os.path.join(HERE, 'programs', 'pluggable.c'),
                    '-L' + bench.cann(), '-lascendcl', '-Wl,--allow-shlib-undefined'], check=True)
    r = bench.traced('pluggable', library)
    equal.clean(r)
    equal.require(not r.of('PTA'), 'PTA rows without its allocator', r.of('PTA')[:1])
    n, k = equal.hal(r), equal.launches(r)
    rows = [x for x in r.of('HAL', 0, 'MALLOC')]
    equal.same('addresses', [x['ptr'] for x in rows], [a for a, _ in r.account['own']])
    for x, (_, size) in zip(rows, r.account['own']):
        equal.require(x['size'] >= size, 'size of', x, 'for', size)
    equal.require(len(r.of('HAL', 0, 'FREE')) == r.account['frees'] > 0, 'FREE rows', r.account['frees'])
    unharmed(bench, r, 'pluggable', library)
    return f'{n} HAL, {k} launches equal, no PTA'


def test_loader(bench):
    """Workers by fork and by spawn, which take the traced process for their parent."""
    r = bench.traced('loader')
    note = everything(r)
    pids = {x['pid'] for x in r.rows}
    equal.require({x['pid'] for x in r.of('PTA')} == {r.pid}, 'PTA rows of workers', pids)
    pinned = [x for x in r.of('HAL', 'host', 'MALLOC')]
    equal.require(pinned, 'no pinned memory')
    unharmed(bench, r, 'loader')
    return f'{note}, {len(pinned)} pinned, {len(pids)} processes'


def test_checkpoint(bench):
    r = bench.traced('checkpoint')
    note = everything(r)
    plain, *ways = r.account['peaks']
    equal.require(all(p < plain for p in ways), 'checkpointing does not lower the peak', r.account['peaks'])
    unharmed(bench, r, 'checkpoint')
    return note
