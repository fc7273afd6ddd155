#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the live tests: one line a test, one closing line, exit status 1 on failures.

    tests/live/run.py [--build DIR] [--list] [--long] [NAME...]

NAME selects by substring of file.test. They need root and BPF; without these each is skipped.
"""
import argparse
import glob
import importlib
import os
import pickle
import select
import signal
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--build', default=os.path.join(HERE, '..', '..', 'build'))
    p.add_argument('--list', action='store_true', help='names only')
    p.add_argument('--sim', help='build folder that has the simulated stack (default: --build)')
    p.add_argument('--long', action='store_true', help='also the tests of 20 s and more')
    p.add_argument('--retry', action='store_true',
                   help='run a failed test once more: a machine that stops for seconds fails any; says so')
    p.add_argument('--time', action='store_true', help='tell how long each took')
    p.add_argument('--jobs', type=int, default=1,
                   help='tests side by side (1): most of their time is waiting. Those that look at the whole machine '
                        'run alone behind the others, as do those that failed, under --retry')
    p.add_argument('names', nargs='*')
    return p.parse_args()


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


def name_of(test):
    parts = test.id().split('.')
    return f'{parts[0].removeprefix("test_")}.{parts[-1].removeprefix("test_")}'


def find(names):
    tests = []
    for path in sorted(glob.glob(os.path.join(HERE, 'test_*.py'))):
        module = importlib.import_module(os.path.basename(path)[:-3])
        tests += flatten(unittest.defaultTestLoader.loadTestsFromModule(module))
    return [t for t in tests if not names or any(n in name_of(t) for n in names)]


def unknown(names, tests):
    """Names that select nothing: a typing error must not pass for a success."""
    return [n for n in names if not any(n in name_of(t) for t in tests)]


def reason(text):
    """The telling line of a traceback, and the whole of it for stderr."""
    lines = [l for l in text.strip().splitlines() if l.strip()]
    for line in lines:
        if line.startswith(('AssertionError', 'ValueError', 'Error', 'KeyError', 'FileNotFoundError')):
            more = lines[lines.index(line) + 1:][:1] if line.endswith('problems:') else []
            return ' '.join([line, *more])[:300]
    return lines[-1][:300] if lines else '?'


def run_one(test):
    result = unittest.TestResult()
    test.run(result)
    if result.skipped:
        return 'skip', result.skipped[0][1], ''
    for _, text in result.errors + result.failures:
        return 'FAIL', reason(text), text
    return 'ok', '', ''


class Stopped:
    """SIGTERM (of a CI's time limit, say) ends the test at hand, which then cleans up."""
    now = False
    children = {}

    def __init__(self, *_):
        Stopped.now = True
        for pid in Stopped.children:
            os.kill(pid, signal.SIGTERM)
        if not Stopped.children:
            raise SystemExit('stopped by SIGTERM')


def is_alone(test):
    return getattr(getattr(test, test._testMethodName), 'alone', False)


def side_by_side(tests, jobs):
    """Yields (test, result of run_one, seconds) as they end; each in a process of its own."""
    waiting = list(tests)
    while waiting or Stopped.children:
        while waiting and len(Stopped.children) < jobs and not Stopped.now:
            test, (out, back) = waiting.pop(0), os.pipe()
            pid = os.fork()
            if not pid:
                Stopped.children.clear()
                os.close(out)
                result = ('FAIL', 'it ended early', '')
                try:
                    result = run_one(test)
                finally:
                    with os.fdopen(back, 'wb') as f:
                        pickle.dump(result, f)
                    sys.stdout.flush()
                    os._exit(0)
            os.close(back)
            Stopped.children[pid] = test, out, time.monotonic()
        if not Stopped.children:
            return
        ready = select.select([c[1] for c in Stopped.children.values()], [], [])[0]
        pid = next(p for p, c in Stopped.children.items() if c[1] in ready)
        test, out, t0 = Stopped.children[pid]
        with os.fdopen(out, 'rb') as f:
            data = f.read()
        os.waitpid(pid, 0)
        del Stopped.children[pid]
        yield test, pickle.loads(data) if data else ('FAIL', 'its process was killed', ''), time.monotonic() - t0


def one_by_one(tests):
    for test in tests:
        t0 = time.monotonic()
        yield test, run_one(test), time.monotonic() - t0
        if Stopped.now:
            return


def in_lanes(tests, jobs):
    """All of them: side by side, then those that are to be alone."""
    if jobs < 2:
        yield from one_by_one(tests)
        return
    yield from side_by_side([t for t in tests if not is_alone(t)], jobs)
    yield from one_by_one([t for t in tests if is_alone(t)])


def main():
    signal.signal(signal.SIGTERM, Stopped)
    a = arguments()
    os.environ['MEMTAP_BUILD'] = os.path.abspath(a.build)
    if a.sim:
        os.environ['MEMTAP_SIM'] = os.path.abspath(a.sim)
    if a.long:
        os.environ['MEMTAP_LONG'] = '1'
    sys.path.insert(0, HERE)
    import harness
    tests = find(a.names)
    count = {'ok': 0, 'FAIL': 0, 'skip': 0}
    for name in unknown(a.names, tests):
        count['FAIL'] += 1
        print(f'FAIL {name} (no test is named so)', file=sys.stderr if a.list else sys.stdout, flush=True)
    if a.list:
        print('\n'.join(map(name_of, tests)))
        return 1 if count['FAIL'] else 0
    why = harness.why_not()
    again = {}

    def tell(test, state, text, full, seconds):
        count[state] += 1
        took = f' [{seconds:.1f} s]' if a.time else ''
        print(f'{state} {name_of(test)}' + (f' ({text})' if text else '') + took, flush=True)
        if full:
            print(full, file=sys.stderr, flush=True)

    if why:
        for test in tests:
            tell(test, 'skip', why, '', 0)
        tests = []
    for test, (state, text, full), seconds in in_lanes(tests, a.jobs):
        if state == 'FAIL' and a.retry and not Stopped.now:
            print(full, file=sys.stderr, flush=True)
            again[test] = text
        else:
            tell(test, state, text, full, seconds)
    for test, (state, text, full), seconds in one_by_one(again):
        if state == 'ok':
            text = f'at the second try; the first: {again[test]}'
        tell(test, state, text, full, seconds)
    print(f'{count["ok"]} passed, {count["FAIL"]} failed, {count["skip"]} skipped')
    return 1 if count['FAIL'] else 0


if __name__ == '__main__':
    sys.exit(main())
