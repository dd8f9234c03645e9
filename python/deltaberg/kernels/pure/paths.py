"""The paths of the live files of a table, among which each file is looked up that a store lists."""

from __future__ import annotations

from collections.abc import Iterable

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
        #: The number of each path, and whether it was asked about it.
        self._numbers: dict[bytes, int] = {}
        for array in arrays:
            for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
                for path in _encoded(chunk):
                    self._numbers.setdefault(path, len(self._numbers))
        self._asked = bytearray(len(self._numbers))

    def __len__(self) -> int:
        """Return how many distinct paths there are."""
        return len(self._numbers)

    def contains(self, paths: pa.Array) -> pa.BooleanArray:
        """Return which paths of an array are in the set, and remember that it was asked about these."""
        return self.numbers(paths).is_valid()

    def numbers(self, paths: pa.Array) -> pa.Int64Array:
        """Return the number of each path of an array, null for those that are not in the set, as `contains` does it.

        Distinct paths are numbered in the order in which they came.
        """
        found = [self._numbers.get(path) for path in _encoded(paths)]
        for number in found:
            if number is not None:
                self._asked[number] = 1
        return pa.array(found, pa.int64())

    def texts(self, numbers: pa.Int64Array) -> pa.LargeStringArray:
        """Return paths by their numbers.

        Raises
        ------
        InvalidArgumentError
            There is no path of a number.
        """
        if not isinstance(numbers, pa.Array):
            raise InvalidArgumentError("an object with the Arrow PyCapsule interface was expected")
        if not pt.is_int64(numbers.type):
            raise InvalidArgumentError("numbers are an array of int64")
        paths = list(self._numbers)
        wanted = numbers.to_pylist()
        if any(number is None or not 0 <= number < len(paths) for number in wanted):
            raise InvalidArgumentError("there is no path of a number")
        return pa.array([paths[number].decode() for number in wanted], pa.large_string())

    def unasked(self) -> pa.LargeStringArray:
        """Return the paths of the set about which neither `contains` nor `numbers` was asked, in their order."""
        left = [path.decode() for path, number in self._numbers.items() if not self._asked[number]]
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
