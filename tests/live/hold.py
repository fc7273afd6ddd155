#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the files of one recording against the ground truth that sim-train wrote of itself.

    tests/live/hold.py DIR TRUTH [--layout c]     DIR/summary.json is the run's --summary-json

One line; exit status 1 and the differences on stderr if a row is missing, wrong or there twice.
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare as C  # noqa: E402
import readers  # noqa: E402
import truth as T  # noqa: E402


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('dir')
    p.add_argument('truth')
    p.add_argument('--layout', default='c')
    a = p.parse_args()
    with open(os.path.join(a.dir, 'summary.json')) as f:
        summary = json.load(f)
    dump = readers.dump_of(a.dir, 'csv')
    rows = readers.read_csv(dump) if dump else []
    report = C.compare(rows, T.read(a.truth), summary, T.Rules(layout=a.layout, from_start=False))
    bad = list(report) + C.invariants(rows) + C.accounting(rows, summary)
    for path in readers.traces_of(a.dir).values():
        readers.read_trace(path)
    if not report.matched:
        bad.append('no row could be compared')
    for line in bad[:20]:
        print(line, file=sys.stderr)
    print(f'{report.matched} of {len(rows)} rows are calls that the job itself logged, value by value; '
          f'{len(bad)} differences')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
