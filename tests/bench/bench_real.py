#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slow-down of a real torch_npu training step by all default probes: a row of a Markdown table.

    tests/bench/bench_real.py --run "$(scripts/real-env.sh 2.7.1 2.7.1)" --build build [--repeats N]

One training loop runs all the time; memtap attaches and detaches again and again. Each repeat
compares the steps inside a window with those just before and behind it; the medians are printed,
of wall time and of the CPU time of all threads of the job, which other load does not disturb."""
import argparse
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'real'))
import harness  # noqa: E402

MS = 1000000


def measure(bench, repeats, seconds):
    """One dict a repeat: median wall and CPU ms of a step outside and inside, events, losses."""
    p = bench.program('steps')
    p.until('READY ')
    time.sleep(1)
    results = []
    for i in range(repeats):
        time.sleep(seconds)
        rec = bench.record(f'repeat{i}', '-p', p.pid).attached()
        time.sleep(seconds)
        results.append(rec.stop())
    time.sleep(seconds)
    p.line()
    p.until('DONE ')
    bench.end(p, *results)
    steps, out = results[0].account['ops'], []
    for r in results:
        s = r.summary
        begin = r.start - (s['attach_ms'] + 300) * MS
        end = r.stop + (s['detach_ms'] + 300) * MS
        near = seconds * 1e9 / 2
        outside = [x for x in steps if begin - near < x[0] and x[1] < begin or end < x[0] and x[1] < end + near]
        inside = [x for x in steps if r.start < x[0] and x[1] < r.stop]
        seen = s['accounting']['seen']
        one = {'rate': seen / ((r.stop - r.start) / 1e9), 'each': seen / max(1, len(inside)),
               'lost': s['accounting']['lost']}
        for key, part in (('out', outside), ('in', inside)):
            one['wall_' + key] = statistics.median(b - a for a, b, _ in part) / MS
            one['cpu_' + key] = statistics.mean(c for _, _, c in part) / MS
        out.append(one)
    return out


def ratios(found, what):
    return sorted(x[what + '_in'] / x[what + '_out'] for x in found)


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
        for x in found:
            print(' '.join(f'{k}:{v:.3f}' for k, v in x.items()), file=sys.stderr)
    mid = {k: statistics.median(x[k] for x in found) for k in found[0]}
    wall, cpu = ratios(found, 'wall'), ratios(found, 'cpu')
    print(f'| real torch_npu training step, all default probes | {mid["wall_out"]:.2f} ms, traced '
          f'{mid["wall_in"]:.2f} ms: ×{statistics.median(wall):.2f} ({wall[0]:.2f} to {wall[-1]:.2f}); CPU '
          f'{mid["cpu_out"]:.2f} ms, traced {mid["cpu_in"]:.2f} ms: ×{statistics.median(cpu):.2f} '
          f'({cpu[0]:.2f} to {cpu[-1]:.2f}); {a.repeats} pairs, {mid["each"]:.0f} events a step, '
          f'{mid["rate"]:.0f} a second, lost {sum(x["lost"] for x in found)} |')
    return 0


if __name__ == '__main__':
    sys.exit(main())
