"""Tables and scans are no lists and no frames: their rows are unread, and the error says how to read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from deltaberg.errors import ArgumentNameError

__all__ = ["UnreadRows"]


class UnreadRows:
    """What has rows that are read by its methods alone.

    There is no ``__iter__``, by which other libraries would take a table for a list. Loops come to ``__getitem__``.
    Type checkers know of none of this, so that they find such code themselves.
    """

    if not TYPE_CHECKING:

        def __getitem__(self, key: Any) -> NoReturn:
            kind = type(self).__name__
            if isinstance(key, (int, slice)):
                raise ArgumentNameError(
                    f"the rows of a {kind} have not been read, so that they have no numbers and no loop goes over them",
                    hint="write head(10), to_batches() of a scan, or to_arrow().to_pylist() for rows as dictionaries",
                )
            if isinstance(key, str) or (isinstance(key, (list, tuple)) and all(isinstance(one, str) for one in key)):
                columns = f"columns={[key] if isinstance(key, str) else list(key)!r}"
                raise ArgumentNameError(
                    f"columns of a {kind} are not taken by brackets",
                    hint=f"write scan({columns}) of the table, and to_pandas(), to_polars() or to_arrow() of that",
                )
            raise ArgumentNameError(
                f"rows of a {kind} are not chosen by brackets",
                hint='write scan("id > 1") of the table, and to_pandas(), to_polars() or to_arrow() of that',
            )

        def __len__(self) -> NoReturn:
            raise ArgumentNameError(f"a {type(self).__name__} has no len()", hint="write count()")

        def __bool__(self) -> bool:
            return True
