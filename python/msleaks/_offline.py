# SPDX-License-Identifier: Apache-2.0
"""Analyses of dumps: the commands of memtap, as the vendor's functions call them."""
import os
import shutil
import subprocess
import sys
from typing import Any, Dict, List, Optional

# What each takes, and what its arguments are when they are left out; None: has to be given.
_ANALYZERS: Dict[str, Dict[str, Any]] = {
    'leaks': {'input_path': None, 'mstx_info': None, 'start_index': 0},
    'inefficient': {'input_path': None, 'mem_size': 0, 'inefficient_type': None, 'idle_threshold': 3000},
}
_TYPES = 'early_allocation', 'late_deallocation', 'temporary_idleness'


def _memtap() -> str:
    """The command: $MEMTAP, the one this package came with, or the one in PATH."""
    asked = os.environ.get('MEMTAP')
    if asked:
        return asked
    try:
        from ._where import MEMTAP
        if os.access(MEMTAP, os.X_OK):
            return MEMTAP
    except ImportError:
        pass
    found = shutil.which('memtap')
    if not found:
        raise RuntimeError('memtap is not installed where this can find it: set $MEMTAP to its path')
    return found


def _run(arguments: List[str], show: bool = True) -> str:
    done = subprocess.run([_memtap(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          encoding='utf-8', errors='replace')
    if done.stderr:
        sys.stderr.write(done.stderr)
    if done.returncode:
        raise RuntimeError(f'memtap {arguments[0]}: ended with {done.returncode}: {done.stderr.strip()[-500:]}')
    if show:
        sys.stdout.write(done.stdout)
    return done.stdout


def _path(path: Any) -> str:
    text = os.fspath(path)
    # A name, not an option.
    return os.path.join('.', text) if text.startswith('-') else text


def check_leaks(input_path: str, mstx_info: str, start_index: int = 0) -> str:
    """Driver memory allocated between the first and the second mark `mstx_info` that lives at the third."""
    if not isinstance(start_index, int) or start_index < 0:
        raise ValueError('start_index wants a number from 0')
    return _run(['leaks', '--marks=' + mstx_info, f'--start-index={start_index}', _path(input_path)])


def check_inefficient(input_path: str, mem_size: int = 0, inefficient_type: Optional[Any] = None,
                      idle_threshold: int = 3000) -> List[Dict[str, str]]:
    """
    Blocks that are held inefficiently, one dictionary each, as `memtap inefficient` tells them; they
    are printed, too. inefficient_type: one of early_allocation, late_deallocation, temporary_idleness,
    or several. The dump is left as it is.
    """
    types = [inefficient_type] if isinstance(inefficient_type, str) else list(inefficient_type or _TYPES)
    for t in types:
        if t not in _TYPES:
            raise ValueError(f'inefficient_type {t!r}: there are {", ".join(_TYPES)}')
    import csv
    import io
    options = [f'--min-size={int(mem_size)}', f'--idle-threshold={int(idle_threshold)}']
    if len(types) == len(_TYPES):
        _run(['inefficient', *options, _path(input_path)])
    text = _run(['inefficient', '--format=csv', *options, _path(input_path)], show=False)
    rows = [r for r in csv.DictReader(io.StringIO(text)) if set(r.get('inefficient_type', '').split(',')) & set(types)]
    if len(types) < len(_TYPES):
        for r in rows:
            print(', '.join(f'{k} {v}' for k, v in r.items() if v))
    return rows


def analyze(analyzer_type: str, **arguments: Any) -> Any:
    """The analysis of this name, see list_analyzers(), with its arguments."""
    config = get_analyzer_config(analyzer_type)
    for name in arguments:
        if name not in config:
            raise TypeError(f'analyze({analyzer_type!r}): no argument {name!r}; it takes {", ".join(config)}')
    return {'leaks': check_leaks, 'inefficient': check_inefficient}[analyzer_type](**arguments)


def list_analyzers() -> List[str]:
    """The names that analyze() takes."""
    return list(_ANALYZERS)


def get_analyzer_config(analyzer_type: str) -> Dict[str, Any]:
    """The arguments of an analysis and their defaults."""
    if analyzer_type not in _ANALYZERS:
        raise ValueError(f'no analyzer {analyzer_type!r}; there are {", ".join(_ANALYZERS)}')
    return dict(_ANALYZERS[analyzer_type])
