"""The result of a clean-up of files, the same for every format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.engines import spark_engine
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint
from deltaberg.lists import listed
from deltaberg.storage.location import parse_location
from deltaberg.table.arguments import check_flags
from deltaberg.table.maintain.verifying.findings import first_paths
from deltaberg.whole_numbers import counted

if TYPE_CHECKING:
    from deltaberg.table.maintain.file_tasks import FileTasks

__all__ = [
    "CLEANED_FILES",
    "STRAY",
    "CleanupProgress",
    "CleanupResult",
    "DropRequest",
    "OnProgress",
    "warnings_of_unnamed",
]

#: The columns of `CleanupResult.files`.
CLEANED_FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        ("bytes", pa.int64()),
        ("modified", pa.timestamp("ms", "UTC")),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
#: Why a file stays that only a link leads to.
STRAY = "a link, or behind one"


class CleanupProgress(NamedTuple):
    """How far a clean-up has come.

    Parameters
    ----------
    listed
        The files that were looked at.
    chosen
        Those of them that are to be deleted.
    deleted
        Those that are deleted.
    """

    listed: int
    chosen: int
    deleted: int


#: What is told how far a clean-up has come. An exception ends it; files that are deleted by then stay deleted.
OnProgress = Callable[[CleanupProgress], object]


@dataclass(frozen=True, repr=False)
class CleanupResult:
    """The files that a clean-up deleted, or would delete.

    Parameters
    ----------
    dry_run
        Whether nothing was deleted, and ``files`` are those that would be.
    files
        A row for each file: ``path`` relative to the table, ``kind``, ``bytes``, ``modified`` and ``reason``. Bytes and
        time are null where they are not known, since no directory was listed.
    failed
        The reasons of the store for files that should have been deleted and are still there, by their paths as in
        ``files``.
    kept
        How many files stay, by the reason. Files that the table needs are among them.
    seconds
        The time that it took.
    warnings
        What went wrong beside the deletions.
    """

    dry_run: bool
    files: pa.Table
    failed: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def deleted_files(self) -> int:
        """How many files were deleted, or would be."""
        return len(self.files)

    @property
    def deleted_bytes(self) -> int:
        """Their size in bytes, as far as it is known."""
        return pc.sum(self.files.column("bytes")).as_py() or 0

    @property
    def is_complete(self) -> bool:
        """Whether all went well: no file stays that should have gone, and nothing went wrong beside the deletions."""
        return not self.failed and not self.warnings

    @property
    def _counts(self) -> str:
        """What was done to files, in numbers."""
        done = "would delete" if self.dry_run else "deleted"
        failed = f", {len(self.failed)} could not be deleted" if self.failed else ""
        kept = f", kept {sum(self.kept.values())}" if self.kept else ""
        unknown = self.files.column("bytes").null_count
        size = counted(self.deleted_bytes, "byte")
        if unknown:
            size = f"{size} and {unknown} of unknown size" if unknown < self.deleted_files else "unknown size"
        return f"{done} {counted(self.deleted_files, 'file')} of {size}{kept}{failed}"

    def __repr__(self) -> str:
        return f"CleanupResult({self._counts})"


@dataclass(frozen=True)
class DropRequest:
    """The request to drop a table; see `deltaberg.drop_table` for its arguments and their defaults.

    Parameters
    ----------
    tasks
        What deletes many files in place of this process.

    Raises
    ------
    InvalidArgumentError
        An argument is not of its type, or says of a drop without a purge how files are to go.
    """

    purge: bool = False
    dry_run: bool = False
    locations: Any = None
    on_spark: Any = None
    tasks: FileTasks | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_flags(self, "purge", "dry_run")
        locations = () if self.locations is None else listed(self.locations)
        object.__setattr__(self, "locations", tuple(map(parse_location, locations)))
        for name, said in (("locations", bool(self.locations)), ("on_spark", self.on_spark is not None)):
            if said and not self.purge:
                raise InvalidArgumentError(
                    f"{name} says how the files of a table go, which stay", hint=Hint("pass ⟪purge=True⟫ as well")
                )
        if self.on_spark is not None:
            object.__setattr__(self, "tasks", spark_engine().file_tasks(self.on_spark))


def warnings_of_unnamed(objects: Sequence[str]) -> tuple[str, ...]:
    """Return what is said of objects that cannot be named, which a listing passed over (`Storage.walk`)."""
    if not objects:
        return ()
    stay = f"the store has objects that cannot be named ({len(objects)}), such as {first_paths(objects)}: they stay"
    return (f"{stay}, and files beside them may stay, too, until these objects are gone",)
