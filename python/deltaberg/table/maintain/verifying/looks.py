"""Looking at files for `verify` and `repair`, and what is to be said of what the store answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from deltaberg.errors import CommitConflictError, CorruptTableError, DeltabergError, ObjectNotFoundError
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.verifying.findings import DAMAGED, MISSING, SIZE, UNCHECKED, Finding
from deltaberg.table.maintain.verifying.presence import CONCURRENT, Presence, look_up
from deltaberg.table.rows.progress import Told
from deltaberg.workers import in_chunks, map_in_order

__all__ = [
    "TOGETHER",
    "check_still_lost",
    "difference",
    "failure_among",
    "look_in_parallel",
    "unchecked_warnings",
    "unreadable",
]

#: Files that are looked into together.
TOGETHER = 1 << 13

_Item = TypeVar("_Item")
_T = TypeVar("_T")


def difference(
    what: str, path: str, size: int | None, named_by: str, answer: Presence, *, is_part: bool = False
) -> Finding | None:
    """Return how the stored file differs from the metadata; None if they agree.

    Parameters
    ----------
    size
        The recorded size; None where none is.
    answer
        What the store says.
    is_part
        Whether the file must have at least this size: it may hold more than what is looked for.
    """
    if answer is None:
        return Finding(MISSING, what, path, named_by, size)
    if isinstance(answer, ObjectNotFoundError):
        return Finding(DAMAGED, what, path, named_by, size, answer.message)
    if isinstance(answer, DeltabergError):
        return Finding(UNCHECKED, what, path, named_by, size, answer.message)
    if size is not None and (answer < size if is_part else answer != size):
        return Finding(SIZE, what, path, named_by, f"at least {size}" if is_part else size, answer)
    return None


def unreadable(what: str, path: str, named_by: str, error: DeltabergError) -> Finding:
    """Return the finding of an error: only some of them say that what was read is damaged."""
    kind = DAMAGED if isinstance(error, CorruptTableError) else UNCHECKED
    return Finding(kind, what, path, named_by, None, error.message)


def look_in_parallel(look: Callable[[_Item], _T], items: Sequence[_Item], told: Told) -> Iterator[tuple[_Item, _T]]:
    """Look into some files, several at a time, and tell how many that are."""

    def told_of(item: _Item) -> _T:
        seen = look(item)
        told(1)
        return seen

    for chunk in in_chunks(items, TOGETHER):
        yield from zip(chunk, map_in_order(CONCURRENT, told_of, chunk), strict=True)


def failure_among(answers: Sequence[Presence]) -> DeltabergError | None:
    """Return why the store gave no answer about a file. It did about what has the name of a file and is none."""
    errors = (one for one in answers if isinstance(one, DeltabergError))
    return next((one for one in errors if not isinstance(one, ObjectNotFoundError)), None)


def unchecked_warnings(answers: Sequence[Presence]) -> list[str]:
    """Return what to say of files about which the store gave no answer."""
    errors = [one for one in answers if isinstance(one, DeltabergError)]
    if not errors:
        return []
    count = (
        "1 file could not be checked, and stays"
        if len(errors) == 1
        else f"{len(errors)} files could not be checked, and stay"
    )
    return [f"{count}: {errors[0].message}"]


def check_still_lost(store: StoreSpec, root: Location, locations: Sequence[str]) -> None:
    """Ask the store again for files that it has lost, immediately before they leave the table.

    Raises
    ------
    CommitConflictError
        One of them is there again.
    DeltabergError
        The store gives no answer.
    """
    for location, answer in zip(locations, look_up(store, root, locations), strict=True):
        if isinstance(answer, DeltabergError):
            raise answer
        if answer is not None:
            raise CommitConflictError(
                "a file that was lost is there again, so that nothing was removed",
                hint="repair the table again, if other files are still lost",
                table=str(root),
                file=location,
            )
