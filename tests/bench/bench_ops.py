#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What probing all operators of torch costs: time to attach, and ns an operator. Rows "what<TAB>figure<TAB>ratio<TAB>how".

    tests/bench/bench_ops.py --run ENV/run --build build [--quick]
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

import jobs

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'real', 'programs', 'op_rate.py')
ALL = ('--ops', '--events=alloc,free,launch')
ACCESS = ('--ops', '--events=alloc,free,launch,access')


class Target:
    def __init__(self, run):
        self.p = subprocess.Popen([run, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        while self.line() != 'READY':
            pass

    def line(self):
        text = self.p.stdout.readline()
        if not text:
            raise RuntimeError(f'the program ended with {self.p.wait()}')
        return text.strip()

    def operator(self, where, n):
        self.p.stdin.write(f'{where} {n}\n')
        self.p.stdin.flush()
        while True:
            text = self.line()
            if text.startswith('took '):
                return float(text.split()[1])

    def end(self):
        self.p.stdin.close()
        self.p.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--run', required=True)
    p.add_argument('--build', required=True)
    p.add_argument('--quick', action='store_true')
    opts = p.parse_args()
    rounds, n = (3, 3000) if opts.quick else (7, 10000)
    times, attach, detach = {}, {}, {}
    with tempfile.TemporaryDirectory(prefix='memtap-bench-') as opts.tmp:
        one, other = Target(opts.run), Target(opts.run)
        for where in ('cpu', 'npu'):
            one.operator(where, n)

        def ask(case):
            for where in ('cpu', 'npu'):
                times.setdefault((case, where), []).append(one.operator(where, n))

        for _ in range(rounds):
            ask('alone')
            for case, pid, more in (('default', one, ()), ('other', other, ALL), ('ops', one, ALL), ('access', one, ACCESS)):
                run = jobs.record(opts, pid.p.pid, 0.2, more=more, look=lambda _, c=case: ask(c))
                attach.setdefault(case, []).append(run.summary['attach_ms'])
                detach.setdefault(case, []).append(run.summary['detach_ms'])
                lost = run.summary['accounting']['lost']
                if lost:
                    print(f'{case}: {lost} lost', file=sys.stderr)
        one.end()
        other.end()
    mid = {k: statistics.median(v) for k, v in times.items()}
    how = f'median of {rounds}'
    for case, what in (('default', 'without operators'), ('ops', 'with all operators of torch'),
                       ('access', 'with them and accesses, lists of tensors too')):
        print(f'attach, {what}', f'{statistics.median(attach[case]):.0f} ms',
              f'detach {statistics.median(detach[case]):.0f} ms', how, sep='\t')
    for case, what in (('other', 'in another process than the traced one'), ('ops', 'traced'),
                       ('access', 'traced, with accesses')):
        for where in ('cpu', 'npu'):
            base = mid['default', where] if case != 'other' else mid['alone', where]
            print(f'an operator (add_, {where}) {what}', f'{mid[case, where] - base:.0f} ns more',
                  f'{mid[case, where]:.0f} ns, × {mid[case, where] / base:.2f}',
                  f'CPU time of the calling thread, {how}', sep='\t')


if __name__ == '__main__':
    main()
