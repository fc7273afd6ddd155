#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slow-down of a real torch_npu training step by all default probes: a row of a Markdown table.

    tests/bench/bench_real.py --run "$(scripts/real-env.sh 2.7.1 2.7.1)" --build build [--repeats N]

One training loop runs all the time; memtap attaches and detaches again and again. Each repeat
compares the steps inside a window with those just before it; the medians are printed."""
import argparse
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'real'))
import harness  # noqa: E402

MS = 1000000


def measure(bench, repeats, seconds):
    """[(median step before, median step inside, events a second, lost)] in ms."""
    p = bench.program('steps')
    p.until('READY ')
    time.sleep(1)
    results = []
    for i in range(repeats):
        time.sleep(seconds)
        rec = bench.record(f'repeat{i}', '-p', p.pid).attached()
        time.sleep(seconds)
        results.append(rec.stop())
    p.line()
    p.until('DONE ')
    bench.end(p, *results)
    steps = results[0].account['ops']
    out = []
    for r in results:
        s = r.summary
        begin = r.start - int(s['attach_ms'] * MS) - 300 * MS
        before = [b - a for a, b in steps if begin - seconds * 1e9 + 300 * MS < a and b < begin]
        inside = [b - a for a, b in steps if r.start < a and b < r.stop]
        out.append((statistics.median(before) / MS, statistics.median(inside) / MS,
                    s['accounting']['seen'] / ((r.stop - r.start) / 1e9), s['accounting']['lost'],
                    s['accounting']['seen'] / max(1, len(inside))))
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--run', required=True)
    p.add_argument('--build', required=True)
    p.add_argument('--repeats', type=int, default=7)
    p.add_argument('--seconds', type=float, default=2.0)
    p.add_argument('--verbose', action='store_true', help='each repeat on stderr')
    a = p.parse_args()
    with harness.Bench(os.path.abspath(a.run), os.path.abspath(a.build)) as bench:
        found = measure(bench, a.repeats, a.seconds)
    if a.verbose:
        for before, inside, rate, lost, each in found:
            print(f'{before:.3f} ms, traced {inside:.3f} ms, {inside / before:.3f}; {rate:.0f} events/s, '
                  f'{each:.0f} a step, lost {lost}', file=sys.stderr)
    ratios = sorted(i / b for b, i, *_ in found)
    rate = statistics.median(x[2] for x in found)
    print(f'| real torch_npu training step, all default probes | {statistics.median(x[0] for x in found):.2f} ms, '
          f'traced {statistics.median(x[1] for x in found):.2f} ms: ×{statistics.median(ratios):.2f} '
          f'({ratios[0]:.2f} to {ratios[-1]:.2f}, {a.repeats} pairs); {rate:.0f} events/s, '
          f'lost {sum(x[3] for x in found)} |')
    return 0


if __name__ == '__main__':
    sys.exit(main())
