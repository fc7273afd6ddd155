# SPDX-License-Identifier: Apache-2.0
"""python_trace_*.csv: calls of Python and C functions, by sys.setprofile; named pieces of code."""
import csv
import errno
import functools
import os
import sys
import threading
import time
from typing import Any, List, Optional, Tuple

from . import _marks

_FORMULA = '=', '+', '-', '@', '\t', '\r'
HEADER = ('FuncInfo', 'StartTime(ns)', 'EndTime(ns)', 'Thread Id', 'Process Id')


def _cell(name: str) -> str:
    """What a spreadsheet would take for a formula is none; the csv module leaves \\r without quotes, which ends a row."""
    return ("'" if name.startswith(_FORMULA) else '') + name.replace('\r', ' ')


class _File:
    """The file of this process, made at the first row: 0600, new, never through a link."""

    def __init__(self) -> None:
        self.output: Optional[str] = None  # config(output=)
        self.path: Optional[str] = None
        self._file: Any = None
        self._writer: Any = None
        self._pid = 0
        self._lock = threading.Lock()

    def _folder(self) -> str:
        # The one that memtap writes to, when it has started the program.
        base = self.output or os.environ.get('MEMTAP_OUTPUT') or {
            'msmemscope': 'memscopeDumpResults'}.get(_marks.tool(), 'leaksDumpResults')
        return os.path.join(os.path.abspath(base), 'dump')

    def _open(self) -> bool:
        pid = os.getpid()
        if self._pid == pid:
            return self._writer is not None
        # A forked child has its own.
        self._pid, self._file, self._writer = pid, None, None
        folder = self._folder()
        stem = os.path.join(folder, f'python_trace_{pid}_{time.strftime("%Y%m%d%H%M%S")}')
        try:
            os.makedirs(folder, 0o750, exist_ok=True)
            for n in range(1000):
                self.path = f'{stem}_{n}.csv' if n else stem + '.csv'
                try:
                    fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                    break
                except FileExistsError:
                    continue
            else:
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        except OSError as e:
            _marks.tell(f'python trace: {folder} cannot be written: {e.strerror}; config(output=FOLDER) names another')
            return False
        self._file = os.fdopen(fd, 'w', newline='', encoding='utf-8', errors='replace')
        self._writer = csv.writer(self._file, lineterminator='\n')
        self._writer.writerow(HEADER)
        return True

    def forked(self) -> None:
        """In the child: its lock may be held by a thread that it does not have."""
        self._lock = threading.Lock()

    def rows(self, rows: List[Tuple]) -> None:
        with self._lock:
            try:
                if self._open():
                    self._writer.writerows([(_cell(r[0]), *r[1:]) for r in rows])
                    self._file.flush()
            except OSError as e:
                _marks.tell(f'python trace: {self.path}: {e.strerror}')


_file = _File()


def _module_call() -> Any:
    """Code of torch.nn.Module.__call__, whose frames are named after their module; None without torch."""
    module = getattr(getattr(sys.modules.get('torch'), 'nn', None), 'Module', None)
    return getattr(getattr(module, '__call__', None), '__code__', None)


class _Thread:
    """Calls that are open in a thread, and rows that wait to be written."""

    def __init__(self) -> None:
        self.open: List[Tuple[str, int, Any]] = []
        self.rows: List[Tuple] = []
        self.tid = threading.get_native_id()


class Tracer:
    """Trace of Python functions: start() and stop(), of all threads that begin in between and this one."""

    def __init__(self) -> None:
        self._threads: List[_Thread] = []
        self._local = threading.local()  # a thread that ends leaves its number to others
        self._active = False
        self._begun: Tuple = ()
        self._module_call: Any = None

    def _name(self, frame: Any) -> str:
        code = frame.f_code
        if code is self._module_call:
            return 'nn.Module: ' + type(frame.f_locals.get('self')).__name__
        return f'{code.co_filename}({frame.f_lineno}): {code.co_name}'

    def _row(self, t: _Thread, name: str, begin: int, end: Any) -> None:
        t.rows.append((name, begin, end, t.tid, os.getpid()))
        if len(t.rows) >= 4096:
            rows, t.rows = t.rows, []
            _file.rows(rows)

    def _event(self, frame: Any, event: str, arg: Any) -> None:
        now = time.time_ns()
        if not self._active:  # stop() of another thread
            sys.setprofile(None)
            return
        if frame.f_code.co_filename == __file__:  # stop()
            return
        t = getattr(self._local, 'thread', None)
        if t is None:
            t = self._local.thread = _Thread()
            self._threads.append(t)
        if event == 'call':
            t.open.append((self._name(frame), now, frame.f_code))
        elif event == 'c_call':
            t.open.append((self._name(frame), now, None))
            t.open.append((repr(arg), now, arg))
        elif event == 'return':
            # Of a call from before the start there is nothing to end.
            if t.open and t.open[-1][2] is frame.f_code:
                name, begin, _ = t.open.pop()
                self._row(t, name, begin, now)
        elif t.open and t.open[-1][2] is arg:
            for _ in range(2):
                name, begin, _ = t.open.pop()
                self._row(t, name, begin, now)

    def start(self) -> None:
        """Begin. Does nothing when memtap does not trace this process, or it has begun."""
        if self._active or not _marks.traced():
            return
        frame = sys._getframe(1)
        self._module_call = _module_call()
        self._threads, self._local = [], threading.local()
        self._begun = (f'start: {self._name(frame)}', time.time_ns(), threading.get_native_id())
        self._active = True
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def stop(self) -> None:
        """End, and write what is left."""
        sys_stop = time.time_ns()
        if not self._active:
            return
        sys.setprofile(None)
        threading.setprofile(None)
        self._active = False
        frame = sys._getframe(1)
        pid = os.getpid()
        rows: List[Tuple] = [(f'stop: {self._name(frame)}', sys_stop, 'N/A', threading.get_native_id(), pid)]
        for t in list(self._threads):
            begun, t.rows = t.rows, []
            _file.rows(begun)
            rows += [(name, begin, 'N/A', t.tid, pid) for name, begin, _ in reversed(t.open)]
        rows.append((self._begun[0], self._begun[1], 'N/A', self._begun[2], pid))
        _file.rows(rows)
        self._threads = []

    def forked(self) -> None:
        """In the child: what was called so far stands in its parent's file."""
        self._threads, self._local = [], threading.local()
        self._begun = (*self._begun[:2], threading.get_native_id()) if self._begun else ()


tracer = Tracer()


def _forked() -> None:
    _file.forked()
    tracer.forked()


os.register_at_fork(after_in_child=_forked)


class RecordFunction:
    """A named piece of code in python_trace: a context manager, and a decorator."""

    def __init__(self, name: str) -> None:
        self._name = str(name)
        self._begun: List[int] = []

    def __enter__(self) -> 'RecordFunction':
        self._begun.append(time.time_ns() if _marks.traced() else 0)
        return self

    def __exit__(self, *exc: Any) -> None:
        begin = self._begun.pop()
        if begin:
            _file.rows([(self._name, begin, time.time_ns(), threading.get_native_id(), os.getpid())])

    def __call__(self, function):
        @functools.wraps(function)
        def recorded(*args, **kwargs):
            with RecordFunction(self._name):
                return function(*args, **kwargs)
        return recorded
