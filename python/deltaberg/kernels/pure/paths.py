"""The paths of the live files of a table, among which each file is looked up that a store lists."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError

__all__ = ["PathSet"]


class PathSet:
    """Distinct paths, which are compared byte by byte; any number of threads may ask a set.

    It remembers about which of its paths it was asked, and cannot be changed otherwise.

    Parameters
    ----------
    arrays
        Arrays of strings, which are taken one after the other. None of them may be null.

    Examples
    --------
    >>> import pyarrow as pa
    >>> live = PathSet([pa.array(["p=1/a.parquet", "b.parquet"]), pa.chunked_array([["b.parquet"]])])
    >>> len(live)
    2
    >>> live.contains(pa.array(["b.parquet", "p=1"])).to_pylist()
    [True, False]
    >>> live.unasked().to_pylist()
    ['p=1/a.parquet']
    """

    def __init__(self, arrays: Iterable[pa.Array | pa.ChunkedArray]) -> None:
        #: Whether it was asked about each path.
        self._paths: dict[bytes, bool] = {}
        for array in arrays:
            for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
                self._paths.update(dict.fromkeys(_encoded(chunk), False))

    def __len__(self) -> int:
        """Return how many distinct paths there are."""
        return len(self._paths)

    def contains(self, paths: pa.Array) -> pa.BooleanArray:
        """Return which paths of an array are in the set, and remember that it was asked about these."""
        encoded = _encoded(paths)
        found = [path in self._paths for path in encoded]
        self._paths.update(dict.fromkeys(compress(encoded, found), True))
        return pa.array(found, pa.bool_())

    def unasked(self) -> pa.LargeStringArray:
        """Return the paths of the set about which `contains` was not asked, in the order in which they came."""
        left = [path.decode() for path, is_asked in self._paths.items() if not is_asked]
        return pa.array(left, pa.large_string())


def _encoded(paths: pa.Array) -> list[bytes]:
    if not isinstance(paths, pa.Array):
        raise InvalidArgumentError("an object with the Arrow PyCapsule interface was expected")
    try:
        paths.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(str(error)) from error
    if not (pt.is_string(paths.type) or pt.is_large_string(paths.type)):
        raise InvalidArgumentError("paths are an array of strings")
    if paths.null_count:
        raise InvalidArgumentError("a path is null")
    encoded: list[bytes] = paths.cast(pa.large_binary()).to_pylist()
    return encoded
