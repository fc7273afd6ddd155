# SPDX-License-Identifier: Apache-2.0
"""Calls of memtap_mark(), the function that memtap probes; without its library they do nothing."""
import ctypes
import os
import sys
import threading
import warnings
from typing import Optional

START, STOP, STEP, ENTER, LEAVE, LABEL, CONFIG, SNAPSHOT, MARK = range(1, 10)
MAX_TEXT = 255  # bytes that memtap reads
MAX_LABEL = 128
NAME = 'libmemtap_marks.so'

_told: set = set()


def tool() -> str:
    """How messages call us: as the package that was imported."""
    return 'msmemscope' if 'msmemscope' in sys.modules else 'msleaks'


def tell(text: str) -> None:
    """A warning, once each."""
    if text not in _told:
        _told.add(text)
        warnings.warn(f'[{tool()}] {text}', RuntimeWarning, stacklevel=3)


def _places():
    asked = os.environ.get('MEMTAP_MARKS')
    if asked:
        yield asked
        return
    yield os.path.join(os.path.dirname(os.path.abspath(__file__)), NAME)
    try:
        from ._where import LIBRARY
        yield LIBRARY
    except ImportError:
        pass


def _load() -> Optional[ctypes.PyDLL]:
    for path in _places():
        # By its whole path: a name alone would be looked for in folders of others.
        if not os.path.isabs(path) or not os.path.exists(path):
            continue
        try:
            # PyDLL keeps the interpreter's lock: nothing comes between a call and its mark.
            lib = ctypes.PyDLL(path)
            lib.memtap_mark.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_char_p]
            lib.memtap_mark.restype = None
            lib.memtap_traced.argtypes = []
            return lib
        except (OSError, AttributeError):
            continue
    return None


_library = _load()
_lock = threading.Lock()


def traced() -> bool:
    """Is there a probe in memtap_mark() right now?"""
    return bool(_library and _library.memtap_traced())


def clean(text: str, limit: int) -> bytes:
    """As memtap takes it: UTF-8 of at most so many bytes, no NUL, no character cut apart."""
    data = str(text).replace('\0', '').encode('utf-8', 'replace')
    return data[:limit].decode('utf-8', 'ignore').encode()


def mark(what: int, value: int = 0, text: bytes = b'') -> None:
    if _library:
        _library.memtap_mark(what, value & 0xffffffffffffffff, text)
