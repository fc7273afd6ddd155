# SPDX-License-Identifier: Apache-2.0
"""Two ranks on HCCL: attached to by their PIDs, and from the first call by the launcher's command."""
import copy
import glob
import json
import os
import socket

import equal
from harness import HERE, printed

RANKS = 2
BUFFERS = 2 * 200 << 20  # of one communicator


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def of_process(r, pid, account):
    """The part of a result that is one process's."""
    part = copy.copy(r)
    part.rows = [x for x in r.rows if x['pid'] == pid]
    part.truth = [t for t in r.truth if t['pid'] == pid]
    part.account = account
    # The ranks of a launcher share its stderr; a thread's lines are its process's.
    others = {str(x['tid']) for x in r.rows if x['pid'] != pid}
    part.said = ''.join(x for x in r.said.splitlines(True) if x.split('] ', 1)[-1].split(' ', 1)[0] not in others)
    return part


def rank(part, k, to_exit):
    """Everything of one rank equal. The numbers."""
    n = sum(equal.history(part, d, to_exit) for d in range(RANKS)) if equal.kept(part) else equal.pool(part, to_exit)
    h, c = equal.hal(part), equal.launches(part)
    equal.require(part.of('PTA', k), 'rank', k, 'has no PTA rows on its device')
    buffers = [x for x in part.of('HAL', k, 'MALLOC') if 'HCCL' in x['attr']['owner']]
    equal.require(sum(x['size'] for x in buffers) >= BUFFERS, 'buffers of HCCL in rank', k, buffers)
    names = {x['name'] for x in part.of('KERNEL_LAUNCH')}
    equal.require(any('allReduce' in x for x in names), 'no all-reduce in', names)
    return f'rank {k}: {n} PTA, {h} HAL, {c} launches'


def environment(k, port):
    return {'RANK': k, 'WORLD_SIZE': RANKS, 'LOCAL_RANK': k, 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': port}


def test_two_pids(bench):
    port = free_port()
    ranks = [bench.program('ranks', env=environment(k, port), tag=f'.{k}') for k in range(RANKS)]
    for p in ranks:
        p.until('READY ')
    rec = bench.record('ranks.dir', *[w for p in ranks for w in ('-p', p.pid)]).attached()
    for p in ranks:
        p.line()
    for p in ranks:
        p.until('DONE ')
    r = rec.stop()
    equal.clean(r)
    notes, truth, want = [], [], 0
    for k, p in enumerate(ranks):
        equal.require(bench.end(p, r) == 0, 'rank', k, 'fails when traced:', p.tail())
        truth += r.truth
        part = of_process(r, p.pid, r.account)
        notes.append(rank(part, k, False))
        want += equal.back_in_pool(part)
    equal.require(r.summary['without_row']['PTA blocks back in the pool'] == want, 'blocks back in the pool', want)
    port = free_port()
    alone = [bench.program('ranks', env=environment(k, port), tag=f'.{k}.alone', wait=False) for k in range(RANKS)]
    for p, q in zip(ranks, alone):
        equal.require(q.wait() == 0 and printed(q) == printed(p) != [], 'untraced:', printed(q), printed(p))
        equal.require(f' {sum(range(1, RANKS + 1)):.1f} ' in printed(p)[-1], 'the all-reduce gave', printed(p))
    return ' | '.join(notes)


def test_launcher(bench):
    """memtap record -- python3 -m torch.distributed.run: both ranks from the first call to the last."""
    python, env = bench.interpreter()
    account, truth = (os.path.join(bench.folder, f'ranks.{w}') for w in ('account', 'truth'))
    rec = bench.record('ranks', '--', python, '-s', '-m', 'torch.distributed.run', '--nproc-per-node', RANKS,
                       '--master-port', free_port(), os.path.join(HERE, 'programs', 'ranks.py'),
                       env={**env, 'REAL_OUT': account, 'SIM_TRUTH': truth, 'PYTHONHASHSEED': '0'})
    rec.process.wait()
    r = rec.stop(None)
    equal.clean(r)
    for path in glob.glob(glob.escape(truth) + '.*'):
        with open(path, encoding='utf-8') as f:
            r.truth += [json.loads(x) for x in f]
    r.said = rec.process.text('err')
    notes = []
    for k in range(RANKS):
        with open(f'{account}.{k}', encoding='utf-8') as f:
            own = json.load(f)
        notes.append(rank(of_process(r, own['pid'], own), k, True))
    return ' | '.join(notes)
