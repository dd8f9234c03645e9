"""Files of two snapshots compared: which of their rows were deleted in one and not in the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.read.task import BITMAP, DELETE_FILES
from deltaberg.iceberg.manifests.fields import DATA
from deltaberg.iceberg.manifests.reader import Entries
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import as_array, with_columns

__all__ = ["deleted_only_in_other", "files_of_both", "have_same_deletes", "located_files", "with_places"]

_DELETES = ("deletion_vector", "only_in_vector", "delete_files")


def located_files(source: IcebergSource, entries: Sequence[Entries]) -> pa.Table:
    """Return the file table of entries, with the places of files and of what deletes their rows in a snapshot."""
    return with_places(source, source.file_table(entries))


def with_places(source: IcebergSource, files: pa.Table) -> pa.Table:
    """Return a file table of a snapshot, with the places of files and of what deletes their rows."""
    located = source.locate(files)
    none = pa.nulls(len(files), DELETE_FILES)
    columns = {name: files.column(name) for name in files.column_names if name not in _DELETES}
    columns |= {name: located.column(name) for name in ("location", "deletion_vector", "only_in_vector")}
    columns["delete_files"] = located.column("delete_files") if "delete_files" in located.column_names else none
    return pa.table(columns | {"only_in_delete_files": none})


def have_same_deletes(one: IcebergSource, other: IcebergSource) -> bool:
    """Return whether two snapshots have the same delete manifests."""
    return _delete_manifests(one) == _delete_manifests(other)


def _delete_manifests(source: IcebergSource) -> set[str]:
    manifests = source.manifests
    return set(manifests.filter(pc.not_equal(manifests.column("content"), DATA)).column("manifest_path").to_pylist())


def files_of_both(one: IcebergSource, other: IcebergSource) -> tuple[pa.Table, pa.Table]:
    """Return the data files that two snapshots share, in one order, with what deletes their rows in each."""
    first, second = (with_places(source, source.select_files(TRUE).files) for source in (one, other))
    place = pc.index_in(second.column("path"), value_set=as_array(first.column("path")))
    return first.take(place.drop_null()), second.filter(place.is_valid())


def deleted_only_in_other(one: pa.Table, other: pa.Table) -> pa.Table:
    """Return the files with rows deleted in `other` but not in `one`.

    Parameters
    ----------
    one, other
        The same files, as `files_of_both` returns them.
    """
    rows = []
    applied = (files.select(["deletion_vector", "delete_files"]).to_pylist() for files in (one, other))
    for number, (own, others) in enumerate(zip(*applied, strict=True)):
        known = {_key(file) for file in own["delete_files"] or ()}
        fresh = [file for file in others["delete_files"] or () if _key(file) not in known]
        vector = others["deletion_vector"] if others["deletion_vector"] != own["deletion_vector"] else None
        if fresh or vector is not None:
            rows.append({"number": number, "only_in_vector": vector, "only_in_delete_files": fresh or None})
    chosen = one.take(pa.array([row["number"] for row in rows], pa.int64()))
    kinds = {"only_in_vector": BITMAP, "only_in_delete_files": DELETE_FILES}
    return with_columns(chosen, **{name: pa.array([row[name] for row in rows], kinds[name]) for name in kinds})


def _key(file: dict[str, Any]) -> tuple[str, ...]:
    return tuple(map(repr, file.values()))
