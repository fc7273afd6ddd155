# SPDX-License-Identifier: Apache-2.0
"""Python stacks that pystacks.py says and that pywalk sees, held against each other."""
import json

DEPTH = 128  # MT_PY_DEPTH


def said(text):
    """[scenario, thread id, [[line, name, qualname, file], ...]] for each mark."""
    return [json.loads(line) for line in text.splitlines() if line.startswith('[')]


def seen(text):
    """[thread id, reason, frames] for each stack."""
    out = []
    for line in text.splitlines():
        word, _, rest = line.partition(' ')
        if word == 'stack':
            tid, n, reason = rest.split(' ', 2)
            out.append([int(tid), reason, []])
        elif word == 'frame':
            number, name, qualname, path = rest.split('\t')
            out[-1][2].append([int(number), name, qualname, path])
    return out


def differ(mark, stack):
    """What is not the same, or None."""
    expected, got, reason = mark[2][:DEPTH], stack[2], stack[1]
    if got != expected:
        at = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
        return (f'{mark[0]}: frame {at} of {len(expected)}, {len(got)} seen ({reason}): {got[at:at + 2]} '
                f'instead of {expected[at:at + 2]}')
    wanted = 'complete' if len(mark[2]) <= DEPTH else 'too deep'
    return None if reason == wanted else f'{mark[0]}: {reason!r} instead of {wanted!r}'


def compare(marks, stacks):
    """Problems of a run whose marks were all seen, in their order."""
    if len(marks) != len(stacks):
        return [f'{len(stacks)} stacks of {len(marks)} marks']
    bad = []
    for mark, stack in zip(marks, stacks):
        if stack[0] and mark[1] != stack[0]:
            bad.append(f'{mark[0]}: thread {stack[0]} instead of {mark[1]}')
        bad += filter(None, [differ(mark, stack)])
    return bad


def gone(marks, stacks):
    """Problems of a run whose code may be gone when it is named, and how many frames have no name."""
    bad, unnamed = [], 0
    if len(marks) != len(stacks):
        return [f'{len(stacks)} stacks of {len(marks)} marks'], 0
    for mark, stack in zip(marks, stacks):
        got = [w if g[1] == 'NA' else g for g, w in zip(stack[2], mark[2])]
        unnamed += sum(g[1] == 'NA' for g in stack[2])
        bad += filter(None, [differ(mark, [stack[0], stack[1], got + stack[2][len(got):]])])
    return bad, unnamed
