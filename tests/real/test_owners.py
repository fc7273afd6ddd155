# SPDX-License-Identifier: Apache-2.0
"""Who owns the memory, read from outside, against what the program says of its own tensors."""
import bisect
import collections
import csv
import os
import re
import subprocess

import equal
from harness import Skip

STATES = ('weight', 'gradient', 'optimizer_state')


class Blocks:
    """What memtap decompose tells of each block of the caching allocator."""

    def __init__(self, bench, r):
        done = subprocess.run([bench.memtap, 'decompose', '--blocks', r.directory], capture_output=True, text=True, check=False)
        equal.require(not done.returncode, 'decompose:', done.stderr[-500:])
        self.by_address = collections.defaultdict(list)
        for x in csv.DictReader(done.stdout.splitlines()):
            if x['Event Type'] == 'PTA':
                x['from'], x['to'] = int(x['Timestamp(ns)']), int(x['Freed(ns)'] or 1 << 62)
                self.by_address[int(x['Ptr'])].append(x)

    def living(self, time):
        """Those that lived at a time, by address; as many as there are addresses."""
        return sorted(((a, x) for a, v in self.by_address.items() for x in v if x['from'] <= time < x['to']),
                      key=lambda x: x[0])


def around(living, address):
    """The block that an address lies in."""
    i = bisect.bisect_right(living, address, key=lambda x: x[0]) - 1
    if i >= 0 and address < living[i][0] + int(living[i][1]['Size(byte)']):
        return living[i][1]
    return None


def right(block, kind):
    return block and block['Owner'] == f'PTA@model@{kind}' and block['Source'] == 'objects' and float(block['Confidence']) == 1


def agree(bench, r, steps=slice(-1, None), slack=1024, least=0.99):
    """The share of the bytes of tensors, at the end of steps, whose block has their label; and no other block has one."""
    blocks = Blocks(bench, r)
    total, good, extra, wrong, kinds = 0, 0, 0, [], collections.Counter()
    for boot, tensors in r.account['steps'][steps]:
        time = boot + r.account['offset']
        living, used = blocks.living(time), collections.Counter()
        # Several may lie in one piece of memory: it is told as the first of what it is.
        of = {}
        for kind, address, size in tensors:
            of.setdefault(address, (kind, size))
        for address, (kind, size) in of.items():
            total += size
            kinds[kind] += 1
            block = around(living, address)
            if right(block, kind):
                good += size
                used[int(block['Ptr'])] += size
            else:
                wrong.append((kind, hex(address), size, block))
        # What nobody owns must not be said to be owned: by blocks, and beside the rounding of each.
        more = [(x, used[a]) for a, x in living if x['Source'] == 'objects' and int(x['Size(byte)']) >= used[a] + slack]
        extra += sum(int(x['Size(byte)']) - u for x, u in more)
        equal.require(extra <= (1 - least) * total, 'owned too much:', more[:6])
    equal.require(total and good >= least * total, f'{good} of {total} bytes agree; wrong:', wrong[:6])
    return kinds, good / total


def trained(bench, model, optimizer, *args, steps=slice(-1, None), slack=1024, env=None):
    if optimizer != 'sgd' or model == 'fsdp':  # not each release has all of them
        status, _ = bench.untraced('owners', model, optimizer, '1', '0', env=env)
        if status:
            raise Skip(f'{bench.version()} has no {model} with {optimizer}: {bench.processes[-1].tail()[-150:]}')
    r = bench.traced('owners', model, optimizer, *args, record=('--owners=objects',), env=env)
    if r.account is None:
        raise AssertionError(f'{model} {optimizer} did not end: {r.said[-500:]}')
    kinds, share = agree(bench, r, steps, slack)
    o = r.summary['owners']
    equal.require(o['modules'] >= 3 and not o['cut'] and not o['stuck'] and not o['failed'], 'owners:', o)
    want = ('weight',) if optimizer == 'none' else STATES
    equal.require(all(kinds[n] for n in want) and (optimizer == 'none' or o['optimizers']), 'too little:', kinds, o)
    return r, f'{share:.2%} of {dict(kinds)}, {o["readings"]} readings, {o["searches"]} searches in {o["seconds"]:.2f} s'


def test_mlp_sgd(bench):
    return trained(bench, 'mlp', 'sgd')[1]


def test_mlp_adam_fused(bench):
    return trained(bench, 'mlp', 'adam-fused')[1]


def test_mlp_npu_fused(bench):
    """torch_npu's own: parameters, gradients and states are pieces of a few blocks."""
    return trained(bench, 'mlp', 'npu')[1]


def test_cnn_adam(bench):
    return trained(bench, 'cnn', 'adam')[1]


def test_cnn_adamw_foreach(bench):
    return trained(bench, 'cnn', 'adamw-foreach')[1]


def test_transformer_adamw_fused(bench):
    return trained(bench, 'transformer', 'adamw-fused')[1]


def test_checkpoint_adamw(bench):
    return trained(bench, 'checkpoint', 'adamw')[1]


def test_fsdp_adamw(bench):
    """FSDP2: parameters, gradients and states are DTensors, which have no memory themselves."""
    return trained(bench, 'fsdp', 'adamw')[1]


def test_only_forward(bench):
    """Without an optimizer the modules tell."""
    return trained(bench, 'transformer', 'none')[1]


def test_each_step(bench):
    """Gradients live from backward to the next zero_grad: those of all steps, not of the last alone."""
    return trained(bench, 'mlp', 'adamw', '12', '0.4', steps=slice(2, None))[1]


def test_before_attach(bench):
    """Weights of before the attach, which no row has: told with their size."""
    r, note = trained(bench, 'transformer', 'adam', '12', '0.15', 'late')
    early = [x for v in Blocks(bench, r).by_address.values() for x in v if not int(x['allocation_id'])]
    equal.require(len(early) == r.summary['owners']['preattach'] and
                  len(early) == sum(k == 'weight' for k, _, _ in r.account['steps'][-1][1]), 'earlier blocks:', len(early))
    return f'{note}; {len(early)} of before the attach'


def test_front_end(bench):
    """msleaks --analysis=decompose: the owner in rows of MALLOC, in the words of the vendor's tool and of its newer one."""
    told = []
    # The newer one's implies accesses, so what an operator touches says so.
    for name, optimizer, prefix, ops in (('msleaks', 'adam', 'PTA@model@', ''), ('msmemscope', 'sgd', 'PTA@', '@ops')):
        link = os.path.join(bench.folder, name)
        os.symlink(bench.memtap, link)
        out = os.path.join(bench.folder, name + '.out')
        p = bench.program('owners', 'mlp', optimizer, '12', '0.15', tag=name, wait=False,
                          prefix=(link, '--analysis=decompose', f'--output={out}'))
        equal.require(p.wait() == 0, name, p.tail())
        owners = collections.Counter()
        for folder, _, files in os.walk(out):
            for f in files:
                if '_dump_' in f:
                    with open(os.path.join(folder, f), encoding='utf-8') as rows:
                        for x in csv.DictReader(rows):
                            m = re.search(r'owner:([^,}]*)', x['Attr'])
                            if x['Event'] == 'MALLOC' and x['Event Type'] == 'PTA':
                                owners[m[1] if m else ''] += 1
                equal.require(not f.startswith('owners_'), 'a file that the vendor has not:', f)
        states = 12 if optimizer == 'adam' else 6
        equal.require(owners[prefix + 'weight' + ops] == 6 and owners[prefix + 'optimizer_state' + ops] == states and
                      owners[prefix + 'gradient' + ops] >= 12 and owners['PTA' + ops] > 10, name, owners)
        told.append(f'{name} {dict(owners)}')
    return '; '.join(told)
