# SPDX-License-Identifier: Apache-2.0
"""Rows of operators against the log of a TorchDispatchMode in the program itself."""
import difflib

from equal_log import require

ITEM = {'torch.float32': 4, 'torch.float16': 2, 'torch.float64': 8, 'torch.int64': 8, 'torch.int32': 4, 'torch.int8': 1,
        'torch.uint8': 1, 'torch.bool': 1, 'torch.bfloat16': 2}
# Not functions of libtorch_cpu's at::_ops (memtap-record(8), OPERATORS).
ELSEWHERE = ('profiler.', 'npu.')


def access(kind, name, tensor):
    """A tensor as its row has it."""
    pointer, dtype, shape = tensor
    n = ITEM[dtype]
    for x in shape:
        n *= x
    return (kind, name, pointer, n, dtype, f"torch.Size([{', '.join(map(str, shape))}])")


def logged(op):
    """What the vendor's tool would write of an operator (msleaks.md 12.5, 17.6)."""
    name, view, reads, results = op[:4]
    base = name.split('.')[1]
    rows = [('START', name)]
    if not view and base != 'empty_like':
        rows += [access('WRITE' if r[0] else 'READ', name, r[1:]) for r in reads
                 if r[0] or not base.endswith('_like')]
        rows += [access('WRITE', name, r) for r in results]
    return rows + [('END', name)]


def traced(result, phase):
    """Rows of operators within a phase, by thread, each as logged() has it."""
    threads = {}
    offset = result.account['offset']
    for r in result.rows:
        if not phase['begin'] + offset <= r['time'] <= phase['end'] + offset:
            continue
        if r['type'] in ('ATEN_START', 'ATEN_END'):
            row = (r['type'][5:], r['name'].removeprefix('torch._ops.'))
        elif r['event'] == 'ACCESS':
            a = r['attr']
            row = (r['type'], r['name'].removeprefix('torch._ops.'), r['ptr'], int(a['size']), a['dtype'], a['shape'])
        else:
            continue
        threads.setdefault(r['tid'], []).append(row)
    return threads


def calls(rows):
    """The rows of each operator, from its START to its END."""
    out = []
    for r in rows:
        if r[0] == 'START':
            out.append([])
        require(out, 'a row before the first START:', r)
        out[-1].append(r)
    for c in out:
        require(c[0][0] == 'START' and c[-1] == ('END', c[0][1]), 'not from a START to its END:', c)
        require({x[1] for x in c} == {c[0][1]}, 'rows of another operator inside:', c)
    return out


def lcs(a, b):
    """Pairs of a common subsequence, by index."""
    pairs = []
    for tag, i1, i2, j1, _ in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == 'equal':
            pairs += [(i1 + k, j1 + k) for k in range(i2 - i1)]
    return pairs


def by_start(result, phase):
    """(thread, START, END, rows) of each traced operator, in the order of their beginnings; boot time."""
    offset = result.account['offset']
    times, out = {}, []
    for r in result.rows:
        if r['type'] in ('ATEN_START', 'ATEN_END') and phase['begin'] <= r['time'] - offset <= phase['end']:
            times.setdefault(r['tid'], []).append(r['time'] - offset)
    for tid, rows in traced(result, phase).items():
        found = calls(rows)
        require(len(times[tid]) == 2 * len(found), 'starts and ends', len(times[tid]), len(found))
        out += [(tid, times[tid][2 * i], times[tid][2 * i + 1], c) for i, c in enumerate(found)]
    return sorted(out, key=lambda x: x[1])


def seen_twice(log, ops):
    """
    Entries that a mode makes inside of one call, beside that of the call: for a view that is detached
    it sees the copy of the tensor's description, too, which without a mode is no operator.
    """
    again = set()
    for tid, start, end, _ in ops:
        inside = [k for k, o in enumerate(log) if o[5] == tid and start <= o[4] <= end]
        again.update(k for k in inside[1:] if log[k][0] == 'aten.detach.default')
    return again


def operators(result):
    """Of the operators that the mode saw: how many there are, how many have the same rows; the first difference."""
    phase = result.account['phases'][0]
    log = [o for o in sorted(phase['ops'], key=lambda o: o[4]) if not o[0].startswith(ELSEWHERE)]
    ops = by_start(result, phase)
    again = seen_twice(log, ops)
    want = [logged(o) for k, o in enumerate(log) if k not in again]
    got = [c for _, _, _, c in ops]
    pairs = lcs([g[0][1] for g in got], [w[0][1] for w in want])
    same = {j for i, j in pairs if got[i] == want[j]}
    matched = {i for i, _ in pairs}
    first = next(((w, [got[i] for i, k in pairs if k == j]) for j, w in enumerate(want) if j not in same), None)
    more = [got[i][0][1] for i in range(len(got)) if i not in matched]
    return len(want), len(same), first, more


def unlogged(result):
    """Names of the operators without the mode, and those with it."""
    names = []
    for phase in result.account['phases']:
        offset = result.account['offset']
        names.append([r['name'] for r in result.rows if r['type'] == 'ATEN_START'
                      and phase['begin'] + offset <= r['time'] <= phase['end'] + offset])
    return names


def difference(a, b):
    """The first place where two lists of names differ."""
    i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return a[max(0, i - 2):i + 3], b[max(0, i - 2):i + 3]


def of_vendor(rows):
    """Each operator of the vendor's file or of ours: its name, its accesses, and blocks taken (M) and given back (F)."""
    out, current = [], {}
    for r in sorted(rows, key=lambda r: r['id']):
        if r['type'] == 'ATEN_START':
            current[r['tid']] = [r['name']]
        elif r['type'] == 'ATEN_END':
            out.append(current.pop(r['tid']))
        elif r['tid'] in current and r['event'] == 'ACCESS':
            a = r['attr']
            current[r['tid']].append((r['type'], r['name'], a['size'], a['type'], a['dtype'], a['shape']))
        elif r['tid'] in current and r['type'] == 'PTA':
            current[r['tid']].append(r['event'][0])
    return [o for o in out if not o[0].startswith('torch._ops.profiler')]
