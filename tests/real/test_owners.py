# SPDX-License-Identifier: Apache-2.0
"""Who owns the memory, read from outside, against what the program says of its own tensors."""
import csv
import subprocess

import equal
from harness import Skip

RECORD = ('--owners=objects',)


def decomposed(bench, r, *args):
    """Blocks that live at the end: address -> (label, source, bytes)."""
    done = subprocess.run([bench.memtap, 'decompose', '--blocks', *args, r.directory], capture_output=True, text=True, check=False)
    equal.require(not done.returncode, 'decompose:', done.stderr[-500:])
    return {int(x['Ptr']): (x['Owner'], x['Source'], int(x['Size(byte)'])) for x in csv.DictReader(done.stdout.splitlines())
            if x['Event Type'] == 'PTA' and not x['Freed(ns)']}


def agree(bench, r, least=0.99):
    """The share of the bytes of weights, gradients and states whose block has their label."""
    blocks = decomposed(bench, r)
    total, right, wrong, kinds = 0, 0, [], {}
    for kind, address, size in r.account['owned']:
        total += size
        kinds[kind] = kinds.get(kind, 0) + 1
        label, source, bytes_ = blocks.get(address, ('none', '', 0))
        if label == f'PTA@model@{kind}' and source == 'objects' and size <= bytes_ < size + 1024:
            right += size
        else:
            wrong.append((kind, hex(address), size, label, source, bytes_))
    equal.require(total and right >= least * total, f'{right} of {total} bytes agree; wrong:', wrong[:6])
    # What nobody owns must not be said to be owned.
    mine = {a for _, a, _ in r.account['owned']}
    more = [x for x in blocks.items() if x[1][1] == 'objects' and x[0] not in mine]
    extra = sum(x[1][2] for x in more)
    equal.require(extra <= (1 - least) * total, 'owned too much:', more[:6])
    return kinds, right / total


def trained(bench, model, optimizer, *args, record=RECORD):
    r = bench.traced('owners', model, optimizer, *args, record=record)
    if r.account is None:
        raise AssertionError(f'{model} {optimizer} did not end: {r.said[-500:]}')
    kinds, share = agree(bench, r)
    o = r.summary['owners']
    equal.require(o['optimizers'] >= 1 and o['modules'] >= 3 and not o['cut'] and not o['stuck'], 'owners:', o)
    return kinds, f'{share:.2%} of {sum(kinds.values())} tensors {kinds}, {o["readings"]} readings in {o["seconds"]:.2f} s'


def wanted(kinds, *names):
    equal.require(all(kinds.get(n, 0) > 1 for n in names), 'too little happened:', kinds)


def test_mlp_sgd(bench):
    kinds, note = trained(bench, 'mlp', 'sgd')
    wanted(kinds, 'weight', 'gradient', 'optimizer_state')
    return note


def test_cnn_adam(bench):
    kinds, note = trained(bench, 'cnn', 'adam')
    wanted(kinds, 'weight', 'gradient', 'optimizer_state', 'buffer')
    return note


def test_transformer_adamw(bench):
    kinds, note = trained(bench, 'transformer', 'adamw')
    wanted(kinds, 'weight', 'gradient', 'optimizer_state')
    return note
