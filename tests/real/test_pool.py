# SPDX-License-Identifier: Apache-2.0
"""The caching allocator: rows against its history and its counters, and nothing changed by tracing."""
import equal


def everything(r):
    """All comparisons that hold for any program with a history; a note for the closing bracket."""
    equal.clean(r)
    rows = sum(equal.history(r, d) for d in range(len(r.account['history'])))
    n = equal.hal(r)
    for d in range(len(r.account['history'])):
        equal.segments(r, d)
    k = equal.launches(r)
    return f'{rows} PTA, {n} HAL, {k} launches equal'


def unharmed(bench, r, name, *args, env=None):
    """Alone the program must print and return the same."""
    status, printed = bench.untraced(name, *args, env=env)
    equal.require(status == r.status, 'untraced exit status', status, 'traced', r.status)
    equal.same('stdout', r.stdout, printed)
    equal.require(printed, 'the program prints nothing')


def test_storm(bench):
    r = bench.traced('storm')
    note = everything(r)
    n = equal.operations(r)
    unharmed(bench, r, 'storm')
    return f'{note}; totals after each of {n} operations'


def test_train(bench):
    r = bench.traced('train')
    note = everything(r)
    equal.require(len(r.of('KERNEL_LAUNCH')) > 100, 'few launches')
    unharmed(bench, r, 'train')
    return note
