# SPDX-License-Identifier: Apache-2.0
"""
The vendor's msleaks for programs that memtap traces: start, stop, steps, owners, snapshots.

All functions do nothing when nobody traces the process. They only tell memtap, which stands outside:
nothing is loaded, hooked or changed in the process. See memtap-python(7).
"""
from typing import Any

from . import _marks, _trace, describe, leakchecker
from ._offline import analyze, check_inefficient, check_leaks, get_analyzer_config, list_analyzers
from ._snapshot import TakeSnapshot, free_total, take_snapshot
from ._trace import RecordFunction, tracer

__all__ = ['RecordFunction', 'TakeSnapshot', 'analyze', 'check_inefficient', 'check_leaks',
           'cleanup_framework_hooks', 'config', 'describe', 'enable_npu_sanitizer', 'get_analyzer_config',
           'init_framework_hooks', 'leakchecker', 'list_analyzers', 'start', 'step', 'stop', 'take_snapshot',
           'tracer', 'watcher']


def start() -> None:
    """Collect from here on, in a recording with --collect-mode=custom or after stop()."""
    if _marks.traced():
        _marks.mark(_marks.START, 0, free_total())


def stop() -> None:
    """Collect nothing until the next start()."""
    _marks.mark(_marks.STOP)


def step() -> None:
    """A step ends here and the next begins: a STEP row, a boundary for the analysis of leaks."""
    _marks.mark(_marks.STEP)


def config(*options: str, **named: Any) -> None:
    """
    What is collected from here on: config('--level=0', '--events=alloc,free') or
    config(level='0', events='alloc,free'). level, events and device can only ask for less than
    memtap was started with; output is the folder of python_trace; the rest is memtap's own.
    """
    lines = [str(o) for o in options]
    lines += [f'--{name.replace("_", "-")}={value}' for name, value in named.items()]
    for line in lines:
        if line.startswith('--output='):
            _trace._file.output = line[len('--output='):] or None
        elif len(line.encode('utf-8', 'replace')) > _marks.MAX_TEXT or '\n' in line:
            raise ValueError(f'config: {line[:40]!r}… is no option')
        else:
            _marks.mark(_marks.CONFIG, 0, _marks.clean(line, _marks.MAX_TEXT))


class _Watcher:
    """Contents of device memory cannot be read from outside the process."""

    @staticmethod
    def _refuse(name: str) -> None:
        if _marks.traced():
            _marks.tell(f'watcher.{name}: memtap cannot read the contents of device memory from outside the process, '
                        'so nothing is watched; with describe.describer(tensor, owner=NAME), memtap watch '
                        '--owner=NAME tells afterwards what happened to its block')

    def watch(self, *args: Any, **kwargs: Any) -> None:
        """Says that nothing is watched."""
        self._refuse('watch')

    def remove(self, *args: Any, **kwargs: Any) -> None:
        """Says so, too."""
        self._refuse('remove')


watcher = _Watcher()


def init_framework_hooks(framework: str = '', version: str = '', component: str = '', hook_type: str = '') -> None:
    """memtap hooks nothing in the process: owners come from describe, and memtap decompose."""
    if _marks.traced():
        _marks.tell('init_framework_hooks: memtap hooks nothing in the process; memtap decompose tells owners by '
                    'stacks, describe.describer by labels')


def cleanup_framework_hooks() -> None:
    """There are none."""


def enable_npu_sanitizer() -> None:
    """memtap has none."""
    if _marks.traced():
        _marks.tell('enable_npu_sanitizer: memtap has no sanitizer')
