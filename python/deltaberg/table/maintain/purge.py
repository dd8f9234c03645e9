"""Which files hold what is not part of a table any more: deleted rows, and columns that were dropped."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError
from deltaberg.files.read.reader import ReadSpec, read_task
from deltaberg.files.read.task import FileTask
from deltaberg.hints import Hint, at_fault, shown_value
from deltaberg.schema.name_mapping import with_mapped_ids
from deltaberg.schema.stored_columns import stores_other_types, stores_others
from deltaberg.schema.types import Struct
from deltaberg.table.arguments import integer_of
from deltaberg.table.read.plan import Plan, file_formats
from deltaberg.workers import map_in_order

__all__ = ["Purge", "checked_upgrade", "purged_files"]

#: What is rewritten: files with deleted rows or with columns that the table lacks; those with deleted rows alone; those
#: in which a column has another type than in the table; or those from before the table was compatible with Iceberg.
Purge = Literal["all", "deletes", "types", "compatibility"]
#: Footers that are read at a time.
_CONCURRENT = 32


def checked_upgrade(version: Any, where: object) -> int | None:
    """Refuse an upgrade to a version of compatibility with Iceberg that there is not, or of a part of a table.

    Parameters
    ----------
    version
        The argument ``upgrade_iceberg_compat``.
    where
        The condition of the files.
    """
    if version is None:
        return None
    to = integer_of(version)
    if to not in (1, 2):
        raise InvalidArgumentError(
            at_fault("upgrade_iceberg_compat", f"must be 1 or 2, not {shown_value(version)}"),
            hint="pass 2, unless a reader knows version 1 alone",
        )
    if where is not None:
        raise InvalidArgumentError(
            Hint("⟪where=⟫ does not go with ⟪upgrade_iceberg_compat=⟫, which is about the whole table"),
            hint="leave one of them out",
        )
    return to


def purged_files(plan: Plan, stored: Struct, purge: Purge) -> pa.BooleanArray:
    """Return which of the planned files hold what is to be purged.

    Only the files tell that they hold a column, so that the footers of those are read that are not rewritten anyway.
    Statistics leave columns out, and no log says how old the columns of a file are.

    Raises
    ------
    DataFileNotFoundError, CorruptDataFileError
        A file is gone, or damaged.
    """
    deleted = plan.has_deletes
    if purge == "deletes":
        return deleted
    if purge == "types":
        deleted = pa.repeat(False, len(deleted))
    whole = plan.chosen(pc.invert(deleted))
    source = plan.source
    spec = ReadSpec(source.table, source.store, Struct(()), Struct(()), source.layout)
    places = zip(
        whole.located.column("location").to_pylist(),
        file_formats(whole.files).to_pylist(),
        whole.files.column("size").to_pylist(),
        strict=True,
    )
    look = partial(_is_stale, spec, stored, stores_other_types if purge == "types" else stores_others)
    # No row group is in the first byte of a file.
    tasks = (FileTask(location, kind, size or 0, None, 0, 0, None, False) for location, kind, size in places)
    others = pa.array(map_in_order(_CONCURRENT, look, tasks), pa.bool_())
    return pc.replace_with_mask(deleted, pc.invert(deleted), others)


def _is_stale(spec: ReadSpec, stored: Struct, judge: Callable[[Struct, pa.Schema, bool], bool], task: FileTask) -> bool:
    """Return what the columns of the file of a task are judged to be."""
    found: list[pa.Schema] = []
    deque(read_task(spec, task, check=found.append), maxlen=0)
    mapping, by_id = spec.layout.name_mapping, spec.layout.by_id
    return any(judge(stored, with_mapped_ids(one, mapping), by_id) for one in found)
