# SPDX-License-Identifier: Apache-2.0
"""The calls of the vendor's Python module mstx, on the C library."""
import ctypes

_tx = ctypes.CDLL('libms_tools_ext.so')
_tx.mstxMarkA.argtypes = _tx.mstxRangeStartA.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
_tx.mstxRangeStartA.restype = ctypes.c_uint64
_tx.mstxRangeEnd.argtypes = [ctypes.c_uint64]


def mark(message, stream=None):
    _tx.mstxMarkA(message.encode(), stream)


def range_start(message, stream=None):
    return _tx.mstxRangeStartA(message.encode(), stream)


def range_end(number):
    _tx.mstxRangeEnd(number)
