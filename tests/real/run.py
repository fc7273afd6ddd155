#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests on a real framework: one line each, a closing line, exit status 1 on failures.

    tests/real/run.py --run ENV/run --build DIR [--mindspore] [--list] [--label TEXT] [NAME...]
    tests/real/run.py --machine FOLDER --build DIR …

ENV/run starts Python with released torch and torch_npu wheels, or with MindSpore's, on the
simulated CANN (scripts/real-env.sh makes it); FOLDER has an emulated aarch64 machine that has
imported torch_npu (scripts/real-machine.sh), DIR is a cross build then, and without NAME the core
tests run: CORE, one after the other. NAME selects by substring. REAL_KEEP=1 keeps a failed test's files.
"""
import argparse
import concurrent.futures
import glob
import importlib
import os
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import guest  # noqa: E402
import harness  # noqa: E402

# Of each kind one: what is the same code on every machine is tested on this one.
CORE = ('pool.storm', 'pool.train', 'pool.threads', 'pool.streams', 'pool.oom', 'pool.empty_cache',
        'attach.again_and_again', 'attach.before_import', 'stacks.train')


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--run')
    p.add_argument('--machine', help='folder of an emulated machine to run on')
    p.add_argument('--build', default=os.path.join(HERE, '..', '..', 'build'))
    p.add_argument('--label', default='')
    p.add_argument('--mindspore', action='store_true', help='the tests on MindSpore: test_ms_*.py')
    p.add_argument('--jobs', type=int, default=min(2, os.cpu_count() or 1), help='tests at once (2)')
    p.add_argument('--list', action='store_true')
    p.add_argument('--retry', action='store_true', help='run a failed test once more, and say so')
    p.add_argument('--trace', action='store_true', help='a traceback with each failure')
    p.add_argument('names', nargs='*')
    a = p.parse_args()
    if not a.run and not a.machine and not a.list:
        p.error('--run or --machine is needed')
    if a.machine and not a.names:
        a.names = CORE
    return a


def find(names, mindspore=False):
    """(name, function) of every test_* function of a framework's test_*.py files, in the order written."""
    tests = []
    for path in sorted(glob.glob(os.path.join(HERE, 'test_*.py'))):
        if os.path.basename(path).startswith('test_ms_') != mindspore:
            continue
        module = importlib.import_module(os.path.basename(path)[:-3])
        group = module.__name__.removeprefix('test_')
        own = [(n, f) for n, f in vars(module).items()
               if n.startswith('test_') and getattr(f, '__module__', '') == module.__name__]
        tests += [(f'{group}.{n.removeprefix("test_")}', f) for n, f in own]
    return [t for t in tests if not names or any(n in t[0] for n in names)]


def unknown(names):
    """Names that no test has, of whichever framework: one that is not here may be of the other."""
    known = [t[0] for t in find((), False) + find((), True)]
    return [n for n in names if not any(n in k for k in known)]


def why_not(memtap):
    """Why nothing can be traced here, or None."""
    if os.geteuid() != 0:
        return 'not root'
    if not os.access(memtap, os.X_OK):
        return f'{memtap} is not built'
    # The output is opened before BPF is tried.
    with tempfile.TemporaryDirectory(prefix='memtap-real-') as d:
        done = subprocess.run([memtap, 'record', '-d', '0.2', '-q', '-o', os.path.join(d, 'out'), '--', '/bin/true'],
                              capture_output=True, text=True, timeout=60)
    for word in ('CAP_', 'Operation not permitted'):
        if word in done.stderr:
            return 'BPF does not work here: ' + done.stderr.strip().splitlines()[-1]
    return None


def run_one(function, bench_of, trace):
    try:
        with bench_of() as bench:
            note = function(bench)
        return 'ok', note or ''
    except harness.Skip as e:
        return 'skip', str(e)
    except Exception as e:  # a broken test must not end the others
        if trace:
            traceback.print_exc()
        return 'FAIL', ' '.join(f'{type(e).__name__}: {e}'.split())[:500]


def main():
    a = arguments()
    tests = find(a.names, a.mindspore)
    if a.list:
        print('\n'.join(n for n, _ in tests))
        return 1 if unknown(a.names) else 0
    build = os.path.abspath(a.build)
    if a.machine:
        reason, jobs = guest.why_not(), 1
    else:
        reason, jobs = why_not(os.path.join(build, 'memtap')), max(1, a.jobs)
    count = {'ok': 0, 'FAIL': 0, 'skip': 0}
    for name in unknown(a.names):
        count['FAIL'] += 1
        print(f'FAIL {a.label}{name} (no test is named so)', flush=True)

    def bench_of():
        if a.machine:
            return guest.Bench(os.path.abspath(a.machine), build)
        return harness.Bench(os.path.abspath(a.run), build)

    def one(test):
        t = time.monotonic()
        state, note = ('skip', reason) if reason else run_one(test[1], bench_of, a.trace)
        if state == 'FAIL' and a.retry:
            first = note
            state, note = run_one(test[1], bench_of, a.trace)
            if state == 'ok':
                note += f'; at the second try, the first: {first}'
        return test[0], state, note, '' if state == 'skip' else f', {time.monotonic() - t:.1f} s'

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(one, t) for t in tests]):
            name, state, note, took = done.result()
            count[state] += 1
            print(f'{state:4} {a.label}{name} ({note}{took})'.replace('(, ', '('), flush=True)
    print(f'{count["ok"]} passed, {count["FAIL"]} failed, {count["skip"]} skipped')
    return 1 if count['FAIL'] or not (tests or a.names) else 0


if __name__ == '__main__':
    sys.exit(main())
