# SPDX-License-Identifier: Apache-2.0
"""The Python module msleaks without anybody who traces: what it does not do, and its analyses of dumps."""
import ast
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile

from harness import TOP
from test_leaks import hal, mark, write

PYTHON = os.path.join(TOP, 'python')


def library(memtap, folder):
    """A copy of a name that no recording on this machine probes."""
    built = os.path.join(os.path.dirname(os.path.abspath(memtap.binary)), 'python', 'libmemtap_marks.so')
    return shutil.copy(built, os.path.join(folder, 'libnobody.so'))


def run(memtap, code, status=0, cwd=None, **env):
    with tempfile.TemporaryDirectory() as folder:
        return run_with(memtap, library(memtap, folder), code, status, cwd, **env)


def run_with(memtap, lib, code, status, cwd, **env):
    full = dict(os.environ, PYTHONPATH=PYTHON, PYTHONDONTWRITEBYTECODE='1', MEMTAP=os.path.abspath(memtap.binary),
                MEMTAP_MARKS=lib)
    full.update(env)
    p = subprocess.run([sys.executable, '-W', 'error', '-c', code], env=full, cwd=cwd, text=True, timeout=120,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.returncode == status, (p.returncode, p.stderr)
    return p


def test_python_functions(golden, memtap):
    """The vendor's names, of msleaks.md 11.1, by both of its packages; none of them does anything here."""
    code = '''if True:
        import importlib, sys
        T = importlib.import_module(%r)
        D = importlib.import_module(%r + '.describe').describer
        T.start(); T.step(); T.config('--level=0', '--output=x'); T.config(level='0', events='alloc', output='y')
        with D(owner='a'), T.TakeSnapshot('n'), T.RecordFunction('f'):
            T.take_snapshot(); T.take_snapshot(0, 'named'); T.take_snapshot([0, 1])
        f = D(owner='b')(lambda x: x + 1)
        g = T.RecordFunction('g')(lambda x: x)
        assert (f(1), g(2)) == (2, 2)
        D(4096, owner='c'); D(object(), owner='d')
        T.tracer.start(); T.tracer.stop()
        T.watcher.watch(1); T.watcher.remove(1)
        T.init_framework_hooks('vllm_ascend', '11.0', 'worker', 'decompose'); T.cleanup_framework_hooks()
        T.enable_npu_sanitizer(); T.stop()
        assert T.describe.describer is D
        for bad in ('', None, 5):
            try:
                D(owner=bad)
                raise AssertionError(bad)
            except TypeError:
                pass
        for bad in ('--level=0\\n--x=1', '--x=' + 'y' * 300):
            try:
                T.config(bad)
                raise AssertionError(bad)
            except ValueError:
                pass
    '''
    folder = tempfile.mkdtemp()
    try:
        for name in ('msleaks', 'msmemscope'):
            p = run(memtap, code % (name, name), cwd=folder)
            assert not p.stdout + p.stderr, p
        assert not os.listdir(folder)
    finally:
        shutil.rmtree(folder)


def test_python_library(golden, memtap):
    """Its own code stands where nobody probes it; a path that is not whole is not looked for."""
    code = 'from msleaks import _marks; print(bool(_marks._library), _marks.traced())'
    assert run(memtap, code).stdout == 'True False\n'
    for path in ('libmemtap_marks.so', '/nonexistent/x.so', '/dev/null', memtap.binary):
        assert run(memtap, code, MEMTAP_MARKS=path).stdout == 'False False\n', path


def test_python_text(golden, memtap):
    """As much as memtap reads, and no character cut apart."""
    p = run(memtap, 'from msleaks import _marks as m\n'
                    'print(m.clean("a\\0b", 9), m.clean("\\u4e2d" * 3, 7), m.clean("\\udc80x", 9))')
    assert p.stdout == "b'ab' b'\\xe4\\xb8\\xad\\xe4\\xb8\\xad' b'?x'\n", p.stdout


def test_python_check_leaks(golden, memtap):
    folder = tempfile.mkdtemp()
    try:
        dump = write(folder, [mark(1), hal(2, 'MALLOC', '0x1000'), mark(3), mark(4)])
        check_leaks(memtap, dump, 'test')
    finally:
        shutil.rmtree(folder)


def check_leaks(memtap, dump, text):
    want = memtap('leaks', '--marks=' + text, dump).out
    assert 'Direct Hal memory leak' in want
    for call in ('T.check_leaks(%r, %r)', 'T.check_leaks(input_path=%r, mstx_info=%r, start_index=0)',
                 'T.analyze("leaks", input_path=%r, mstx_info=%r)', 'T.leakchecker.run(%r, %r, 0)'):
        code = 'import msleaks as T; r = %s' % (call % (dump, text))
        p = run(memtap, code + '; assert r')
        assert p.stdout == want, (call, p.stdout)
    # What looks like an option is a path; no shell is asked.
    p = run(memtap, 'import msleaks as T; T.check_leaks("--help", "x")', status=1)
    assert 'RuntimeError' in p.stderr and './--help' in p.stderr, p.stderr
    p = run(memtap, 'import msleaks as T; T.check_leaks("/nonexistent; true", "x")', status=1)
    assert '/nonexistent; true' in p.stderr, p.stderr
    p = run(memtap, 'import msleaks as T; T.check_leaks("x", "y", -1)', status=1)
    assert 'ValueError' in p.stderr, p.stderr


def test_python_check_inefficient(golden, memtap):
    dump = golden.dump('inefficient')
    before = open(dump).read()
    p = run(memtap, 'import msleaks as T; r = T.check_inefficient(%r); import sys; print(r, file=sys.stderr)' % dump)
    assert p.stdout == memtap('inefficient', dump).out
    rows = ast.literal_eval(p.stderr)
    table = memtap('inefficient', '--format=csv', dump).out.splitlines()
    assert len(rows) == len(table) - 1 > 0
    p = run(memtap, 'import msmemscope as T; print(len(T.analyze("inefficient", input_path=%r, mem_size=1 << 40)))' % dump)
    assert p.stdout.endswith('0\n'), p.stdout
    code = 'import msleaks as T; r = T.check_inefficient(%r, inefficient_type="late_deallocation"); print(len(r))'
    p = run(memtap, code % dump)
    late = [r for r in rows if 'late_deallocation' in r['inefficient_type'].split(',')]
    assert int(p.stdout.splitlines()[-1]) == len(late) > 0, p.stdout
    assert len(p.stdout.splitlines()) == len(late) + 1
    assert open(dump).read() == before


def test_python_analyzers(golden, memtap):
    p = run(memtap, 'import msleaks as T; print(T.list_analyzers(), T.get_analyzer_config("leaks"))')
    assert p.stdout == "['leaks', 'inefficient'] {'input_path': None, 'mstx_info': None, 'start_index': 0}\n", p.stdout
    for call in ('T.analyze("oom")', 'T.get_analyzer_config("")', 'T.check_inefficient("x", inefficient_type="bad")'):
        assert 'ValueError' in run(memtap, 'import msleaks as T; ' + call, status=1).stderr
    assert 'TypeError' in run(memtap, 'import msleaks as T; T.analyze("leaks", x=1)', status=1).stderr
    p = run(memtap, 'import msleaks as T; T.check_leaks("x", "y")', status=1, MEMTAP='', PATH='/nonexistent')
    assert 'set $MEMTAP' in p.stderr, p.stderr


def traces(memtap, code):
    """The rows of each python_trace that code writes, as if somebody traced it."""
    folder = tempfile.mkdtemp()
    try:
        p = run(memtap, 'import os, signal, sys, threading, time\nimport msleaks as T\nfrom msleaks import _marks, _trace\n'
                        '_marks.traced = lambda: True\n' + code, MEMTAP_OUTPUT=folder)
        found = {}
        for name in sorted(os.listdir(os.path.join(folder, 'dump'))):
            path = os.path.join(folder, 'dump', name)
            assert os.stat(path).st_mode & 0o777 == 0o600, name
            with open(path, newline='') as f:
                found[int(name.split('_')[2])] = list(csv.DictReader(f))
        return p.stdout.split(), found
    finally:
        shutil.rmtree(folder)


def test_python_trace_ends_for_all_threads(golden, memtap):
    """What other threads call behind stop() is in no file; one of an earlier one's number has its own Thread Id."""
    (end, *tids), found = traces(memtap, '''if True:
        go = threading.Event()
        tids = []
        def f(): pass
        def short():
            tids.append(threading.get_native_id())
            f()
        def work():
            go.wait()
            for _ in range(10000): f()
        T.tracer.start()
        for _ in range(5):
            t = threading.Thread(target=short); t.start(); t.join()
        t = threading.Thread(target=work); t.start()
        T.tracer.stop()
        print(time.time_ns(), *tids)
        go.set(); t.join()
    ''')
    (rows,) = found.values()
    assert not [r for r in rows if int(r['StartTime(ns)']) > int(end)], len(rows)
    calls = [r['Thread Id'] for r in rows if r['FuncInfo'].endswith(': f')]
    assert calls == tids and len(set(tids)) == 5, (calls, tids)


def test_python_trace_of_a_child(golden, memtap):
    """Its file has its own calls alone, whatever its parent's threads were doing."""
    (parent, child), found = traces(memtap, '''if True:
        def f(): pass
        T.tracer.start()
        f()
        _trace._file._lock.acquire()  # as another thread that writes
        pid = os.fork()
        if not pid:
            signal.alarm(60)
            f()
            T.tracer.stop()
            os._exit(0)
        _trace._file._lock.release()
        assert os.waitpid(pid, 0)[1] == 0
        T.tracer.stop()
        print(os.getpid(), pid)
    ''')
    assert set(found) == {int(parent), int(child)}, found
    for pid, rows in found.items():
        assert {(r['Process Id'], r['Thread Id']) for r in rows} == {(str(pid), str(pid))}, rows
        assert len([r for r in rows if r['FuncInfo'].endswith(': f')]) == 1, rows


def test_python_trace_names(golden, memtap):
    """A name that a spreadsheet would take for a formula, however it begins; decorated functions keep theirs."""
    names, found = traces(memtap, '''if True:
        for name in ('=1', '\\t=1', '\\r=1', '@x', '', 'plain'):
            with T.RecordFunction(name): pass
        def g(): pass
        print(T.RecordFunction('r')(g).__name__, T.TakeSnapshot(name='s')(g).__name__)
    ''')
    (rows,) = found.values()
    assert [r['FuncInfo'] for r in rows] == ["'=1", "'\t=1", "' =1", "'@x", '', 'plain'], rows
    assert names == ['g', 'g']


def test_python_manual(golden, memtap):
    """Each name of the module stands in its man page."""
    with open(os.path.join(TOP, 'man', 'memtap-python.7')) as f:
        page = f.read()
    names = run(memtap, 'import msleaks; print(*msleaks.__all__)').stdout.split()
    assert len(names) > 15
    for name in names:
        if name != 'cleanup_framework_hooks':
            assert name in page, name


def test_python_header(golden, memtap):
    """The numbers of the module, of the header and of the wire are the same."""
    def numbers(path, pattern):
        with open(os.path.join(TOP, path)) as f:
            return {m[1]: int(m[2]) for m in re.finditer(pattern, f.read())}
    wire = numbers('include/memtap/event.h', r'MT_ASK_(\w+) = (\d+)')
    header = numbers('include/memtap/marks.h', r'MEMTAP_(\w+) = (\d+)')
    p = run(memtap, 'from msleaks import _marks as m; print({n: getattr(m, n) for n in dir(m) if n.isupper()})')
    module = {k: v for k, v in ast.literal_eval(p.stdout).items() if not k.startswith('MAX') and isinstance(v, int)}
    assert wire.pop('NONE') == 0 and wire == header == module, (wire, header, module)
