# SPDX-License-Identifier: Apache-2.0
"""Labels of owners: of what a piece of code allocates, of a tensor, of an address.

    with describer(owner='attention'):      # blocks allocated here get ...@attention
        ...

    @describer(owner='loss')                # or in this function
    def loss(): ...

    describer(tensor, owner='kv_cache')     # the block of a tensor
    describer(tensor.data_ptr(), owner='kv_cache')
"""
import functools
from typing import Any, Iterator

from . import _marks


def _addresses(obj: Any, depth: int = 0) -> Iterator[int]:
    """Of the blocks that an object has: the begin of a tensor's storage, an address itself."""
    if isinstance(obj, bool) or obj is None or depth > 8:
        return
    if isinstance(obj, int):
        yield obj
    elif isinstance(obj, dict):
        for v in list(obj.values()):
            yield from _addresses(v, depth + 1)
    elif isinstance(obj, (list, tuple, set)):
        for v in list(obj):
            yield from _addresses(v, depth + 1)
    elif callable(getattr(obj, 'untyped_storage', None)):
        yield obj.untyped_storage().data_ptr()
    elif callable(getattr(obj, 'data_ptr', None)):
        yield obj.data_ptr()


class describer:
    """A label: a context manager, a decorator, or, with an object, done at once."""

    def __init__(self, obj: Any = None, owner: str = '') -> None:
        if not isinstance(owner, str) or not owner:
            raise TypeError("describer: owner wants a text that is not empty: describer(owner='name')")
        self._label = _marks.clean(owner, _marks.MAX_LABEL)
        self._object = obj is not None
        if self._object and _marks.traced():
            found = False
            try:
                for address in _addresses(obj):
                    found = True
                    _marks.mark(_marks.LABEL, address, self._label)
            except Exception as e:  # a tensor without storage: labels must not end a program
                _marks.tell(f'describer: {type(obj).__name__} has no address: {e}')
                found = True
            if not found:
                _marks.tell(f'describer: {type(obj).__name__} is no tensor, no address and no list of them')

    def __enter__(self) -> 'describer':
        # Also while nobody traces: what begins to do so may need the end alone, which does no harm.
        if not self._object:
            _marks.mark(_marks.ENTER, 0, self._label)
        return self

    def __exit__(self, *exc: Any) -> None:
        if not self._object:
            _marks.mark(_marks.LEAVE, 0, self._label)

    def __call__(self, function):
        @functools.wraps(function)
        def labelled(*args, **kwargs):
            with self:
                return function(*args, **kwargs)
        return labelled
