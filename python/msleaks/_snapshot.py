# SPDX-License-Identifier: Apache-2.0
"""Numbers of the allocator and the device, as the frameworks that are loaded already tell them."""
import functools
import sys
from typing import Any, Iterable, List, Optional, Union

from . import _marks

Devices = Union[None, int, Iterable[int]]


def _npu() -> Optional[Any]:
    """torch.npu, when it is loaded and has been used; nothing is initialised for a snapshot."""
    torch = sys.modules.get('torch')
    npu = getattr(torch, 'npu', None) if 'torch_npu' in sys.modules else None
    try:
        return npu if npu and npu.is_initialized() else None
    except Exception:  # a framework in the middle of its start or end
        return None


def _number(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception:
        return None


def free_total() -> bytes:
    """"FREE,TOTAL" bytes of the current device, or nothing."""
    npu = _npu()
    both = _number(npu.mem_get_info) if npu else None
    return b'%d,%d' % both if both else b''


def _of_torch(npu: Any, device: int) -> List[Any]:
    both = _number(npu.mem_get_info, device) or (None, None)
    return [_number(npu.memory_reserved, device), _number(npu.max_memory_reserved, device),
            _number(npu.memory_allocated, device), _number(npu.max_memory_allocated, device), both[1], both[0]]


def _of_mindspore() -> List[Any]:
    runtime = getattr(sys.modules.get('mindspore'), 'runtime', None)
    names = 'memory_reserved', 'max_memory_reserved', 'memory_allocated', 'max_memory_allocated'
    return [_number(getattr(runtime, n, None)) for n in names] + [None, None]


def _devices(mask: Devices, npu: Any) -> List[int]:
    if mask is None:
        current = _number(npu.current_device) if npu else None
        # None of a number that memtap knows: the thread's.
        return [(1 << 32) - 1 if current is None else current]
    return [mask] if isinstance(mask, int) else list(mask)


def take_snapshot(device_mask: Devices = None, name: str = 'Memory Snapshot') -> None:
    """A SNAPSHOT row with what the pool and the device have: of the current device, or of those named."""
    if not _marks.traced():
        return
    npu = _npu()
    for device in _devices(device_mask, npu):
        numbers = _of_torch(npu, device) if npu else _of_mindspore()
        text = ','.join('' if n is None else str(int(n)) for n in numbers) + ','
        room = _marks.MAX_TEXT - len(text)
        _marks.mark(_marks.SNAPSHOT, int(device), text.encode() + _marks.clean(name, min(room, 128)))


class TakeSnapshot:
    """Two snapshots around a piece of code, NAME Start and NAME End; also a decorator."""

    def __init__(self, device_mask: Devices = None, name: str = 'Memory Snapshot') -> None:
        if isinstance(device_mask, str):  # TakeSnapshot('name')
            device_mask, name = None, device_mask
        self._mask, self._name = device_mask, name

    def __enter__(self) -> 'TakeSnapshot':
        take_snapshot(self._mask, self._name + ' Start')
        return self

    def __exit__(self, *exc: Any) -> None:
        take_snapshot(self._mask, self._name + ' End')

    def __call__(self, function):
        @functools.wraps(function)
        def between(*args, **kwargs):
            with self:
                return function(*args, **kwargs)
        return between
