# SPDX-License-Identifier: Apache-2.0
"""Operators of torch and their tensors: rows against a TorchDispatchMode inside the program."""
import glob
import gzip
import os
import re

import equal
import equal_ops
import readers
from harness import Skip, unharmed

ASKED = ('--ops', '--events=alloc,free,launch,access', '--level=0,1')


def before_modes(bench):
    return tuple(int(x) for x in bench.version().split()[1].split('.')[:2]) < (2, 3)


def compare(bench, which):
    r = bench.traced('ops', which, '3', record=ASKED)
    equal.clean(r)
    equal.pool(r)
    want, same, first, more = equal_ops.operators(r)
    equal.require(want >= 60, 'the mode saw few operators:', want)
    # torch_npu for 2.1 implements operators that torch makes of others without telling the gradients.
    least = 0.85 if before_modes(bench) else 0.99
    equal.require(same >= least * want, f'{same} of {want} operators have the same rows; first difference:', first)
    equal.require(len(more) <= (1 - least) * want, 'operators that the mode did not see:', more[:5])
    logged, alone = equal_ops.unlogged(r)
    # There a mode changes what torch_npu does.
    equal.require(before_modes(bench) or logged == alone, 'without the mode other operators:', equal_ops.difference(logged, alone))
    held = [x for x in r.rows if x['event'] == 'ACCESS' and x['ptr']]
    blocks = {x['attr']['allocation_id'] for x in r.of('PTA', event='MALLOC')}
    equal.require(sum(x['attr']['allocation_id'] in blocks for x in held) > len(held) / 2,
                  'most tensors lie in blocks that were seen')
    unharmed(bench, r, 'ops', which, '3')
    return f'{same} of {want} operators equal, {len(held)} accesses'


def test_sgd(bench):
    return compare(bench, 'forward' if before_modes(bench) else 'sgd')


def test_adam(bench):
    return compare(bench, 'forward' if before_modes(bench) else 'adam')


def test_foreach(bench):
    return compare(bench, 'forward' if before_modes(bench) else 'foreach')


def test_chosen(bench):
    """--ops=REGEX: only those, and no accesses where none are asked for."""
    r = bench.traced('ops', 'forward' if before_modes(bench) else 'sgd', '1', record=(r'--ops=^aten\.(mm|addmm)\.',))
    equal.clean(r)
    names = {x['name'] for x in r.rows if x['event'] == 'OP_LAUNCH'}
    equal.require('torch._ops.aten.addmm.default' in names, 'addmm has rows')
    equal.require(names <= {'torch._ops.aten.addmm.default', 'torch._ops.aten.mm.default'}, 'others:', names)
    equal.require(not [x for x in r.rows if x['event'] == 'ACCESS'], 'no accesses')
    return f'{len(names)} operators'


def test_vendor(bench):
    """The front end against what the vendor's tool wrote of the same program, of torch 2.9."""
    if before_modes(bench):
        raise Skip(f'{bench.version()}: the vendor has no operators before torch 2.3')
    here = os.path.dirname(os.path.abspath(__file__))
    (packed,) = glob.glob(os.path.join(here, '..', 'offline', 'data', 'access', 'leaks_dump_*.csv.gz'))
    path = os.path.join(bench.folder, 'golden.csv')
    with gzip.open(packed) as f, open(path, 'wb') as out:
        out.write(f.read())
    golden = readers.read_csv(path)
    out = os.path.join(bench.folder, 'vendor')
    p = bench.start('vendor', [bench.memtap, 'msleaks', '--events=alloc,free,access,launch', '--level=0,1',
                               f'--output={out}', '--analysis=inefficient', bench.run,
                               os.path.join(bench.programs, 'vendor_access.py')], {'SIM_WS_BYTES': '65536'})
    equal.require(p.wait() == 0, p.tail())
    rows = readers.read_csv(readers.dump_of(out))
    # A mode sees the detaching of a view twice.
    want, got = ([o for o in equal_ops.of_vendor(x) if 'aten.detach.' not in o[0]] for x in (golden, rows))
    equal.same('operators', got, want)
    said = re.search(r'(\d+) of (\d+) block\(s\)', p.text())
    # Its blocks are those of torch_npu 2.9; later ones have others.
    known = bench.version().split()[1].startswith(('2.7', '2.8', '2.9'))
    equal.require(said and (said[0] == '46 of 142 block(s)' or not known), 'inefficient blocks:', said and said[0])
    return f'{len(want)} operators as the vendor has them, {said[1]} of {said[2]} blocks inefficient'
