"""The prefix of recorded paths, which another one replaces."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import parse_location, spellings_of

__all__ = ["PathPrefix"]

_UP = r"(^|/)\.\.(/|$)"


class PathPrefix:
    """Replaces a prefix of recorded paths.

    A path counts as below the prefix in every spelling that readers take for the same: ``/t``, ``file:/t`` and
    ``file:///t``, or ``s3://`` and ``s3a://``. The copies then have one spelling, so that what named the same file in
    two ways still does.

    Parameters
    ----------
    source
        The prefix that is replaced: a directory, with or without a slash at the end.
    target
        The new one, which need not be in a store that can be opened here.

    Raises
    ------
    InvalidArgumentError
        One of them is no location, or both are the same.
    """

    def __init__(self, source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        place = parse_location(source)
        self._source = str(place).rstrip("/")
        given = os.fspath(source).rstrip("/")
        known = [one.rstrip("/") for one in spellings_of(place)]
        self._spellings = list(dict.fromkeys([*([given] if ":/" in given else []), *known]))
        is_url = isinstance(target, str) and "://" in target
        self.target = (str(target) if is_url else str(parse_location(target))).rstrip("/")
        if self.target in self._spellings:
            raise InvalidArgumentError(
                Hint("⟪source_prefix⟫ and ⟪target_prefix⟫ are the same place"),
                hint="name the place that the table is to be copied to",
            )

    def rest(self, path: str) -> str:
        """Return what follows the prefix in a path.

        Raises
        ------
        InvalidArgumentError
            The path is not below the prefix, or leads out of it again.
        """
        (found,) = self.rests(pa.array([path], pa.string())).to_pylist()
        return str(found)

    def moved(self, path: str) -> str:
        """Return the new path of a file or of a directory.

        Raises
        ------
        InvalidArgumentError
            The path is not below the prefix, or leads out of it again.
        """
        return self.target if self.names(path) else f"{self.target}/{self.rest(path)}"

    def names(self, path: str) -> bool:
        """Return whether a path is the prefix itself."""
        return path.rstrip("/") in self._spellings

    def rests(self, paths: pa.Array | pa.ChunkedArray) -> pa.StringArray:
        """Return what follows the prefix in paths; null for null. It raises as `rest` does."""
        texts = as_array(paths)
        rests = pa.nulls(len(texts), pa.string())
        for prefix in self._spellings:
            own = pc.utf8_slice_codeunits(texts, len(prefix) + 1)
            rests = pc.coalesce(rests, pc.if_else(pc.starts_with(texts, f"{prefix}/"), own, None))
        self._check(texts, pc.and_(texts.is_valid(), rests.is_null()), f"not below {self._source}")
        self._check(texts, pc.match_substring_regex(rests, _UP), "with '..' in it")
        return rests

    def moved_paths(self, paths: pa.Array | pa.ChunkedArray) -> pa.StringArray:
        """Return the new paths of files; null for null. It raises as `rest` does."""
        return pc.binary_join_element_wise(self.target, self.rests(paths), "/")

    def is_below(self, path: str) -> bool:
        """Return whether a path is the prefix, or below it."""
        return self.names(path) or any(path.startswith(f"{prefix}/") for prefix in self._spellings)

    def _check(self, paths: pa.StringArray, are_wrong: pa.BooleanArray, what: str) -> None:
        wrong: Sequence[str] = paths.filter(are_wrong).slice(0, 1).to_pylist()
        if wrong:
            raise InvalidArgumentError(
                f"the table names a path {what}",
                hint=Hint("pass as ⟪source_prefix⟫ the directory above all files of the table"),
                path=wrong[0],
            )
