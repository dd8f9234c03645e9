"""The files that a transaction adds and removes, as parts of their log lines.

Delta protocol, "Add File and Remove File".

A commit is tried again with other row ids and times, but the files stay the same. So each action is encoded once,
without the members that depend on the version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa

from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.actions.table_actions import members_of_row
from deltaberg.delta.data.deletion_vectors import unique_id
from deltaberg.delta.data.partition_values import partition_value_texts
from deltaberg.delta.data.statistics_text import loosened_statistics, statistics_texts
from deltaberg.delta.log.encode import check_action
from deltaberg.errors import InvalidArgumentError
from deltaberg.lossless_json import integer_of, read_json, write_json
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Field, Struct
from deltaberg.whole_numbers import known_sum

__all__ = [
    "AddedFile",
    "RemovedFile",
    "encode_path",
    "new_adds",
    "recorded_add",
    "removes_of",
    "total_rows",
    "with_vector",
]

#: What a path may hold as it is. A colon might be taken for the end of a scheme.
_PLAIN = "/=-_.~!$&'()*+,;@"
_IS_PLAIN = re.compile(f"[A-Za-z0-9{re.escape(_PLAIN)}]*").fullmatch
#: The columns of live files that a ``remove`` repeats.
_REPEATED = ("path", "partitionValues", "size", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")


#: The members of a deletion vector that tell where it is.
_PLACE = ("storageType", "pathOrInlineDv")


class AddedFile(NamedTuple):
    """An ``add`` action that is going to be committed.

    Parameters
    ----------
    path
        The path as it is recorded.
    vector
        The unique id of the deletion vector, if there is one.
    text
        The members of the action as JSON, without the braces, and without row ids where the file is new.
    size
        The size of the file in bytes.
    rows
        The number of rows in the file; None if it is not known.
    data_change
        Whether the rows of the file are new.
    has_row_ids
        Whether the members include row ids.
    is_new
        Whether the file was written for the transaction, so that no other version can hold it.
    """

    path: str
    vector: str | None
    text: str
    size: int
    rows: int | None
    data_change: bool
    has_row_ids: bool
    is_new: bool


class RemovedFile(NamedTuple):
    """A ``remove`` action that is going to be committed; the fields are those of `AddedFile`."""

    path: str
    vector: str | None
    text: str
    size: int
    data_change: bool


def encode_path(path: str) -> str:
    """Return a path relative to the table as the log records it.

    Examples
    --------
    >>> encode_path("day=a%3Ab/part 1.parquet")
    'day=a%253Ab/part%201.parquet'
    """
    return path if _IS_PLAIN(path) else quote(path, safe=_PLAIN)


def new_adds(
    files: pa.Table,
    schema: Struct,
    partitioned_by: Sequence[Field],
    *,
    data_change: bool,
    tight: bool,
    members: Mapping[str, Any],
) -> list[AddedFile]:
    """Return actions for files that were written for the transaction.

    Parameters
    ----------
    files
        A row for each file: ``path`` (relative to the table, decoded), ``size``, ``modified`` (in milliseconds since
        1970), ``record_count``, ``partition`` (a struct of typed values), and statistics as `statistics_texts`
        describes them.
    schema
        The columns of the table.
    partitioned_by
        The partition columns.
    tight
        Whether statistics say that their bounds are exact.
    members
        Members of the actions beside these.

    Raises
    ------
    InvalidPartitionValueError
        A partition value has no text.
    """
    if not len(files):
        return []
    partitions = partition_value_texts(as_array(files.column("partition")), partitioned_by).to_pylist()
    statistics = statistics_texts(files, schema, tight=tight).to_pylist()
    change = json.dumps(data_change)
    others = f",{write_json(dict(members))[1:-1]}" if members else ""
    columns = (files.column(name).to_pylist() for name in ("path", "size", "modified", "record_count"))
    added = []
    for path, size, modified, rows, values, stats in zip(*columns, partitions, statistics, strict=True):
        recorded = encode_path(path)
        text = (
            f'"path":"{recorded}","partitionValues":{values},"size":{size},"modificationTime":{modified},'
            f'"dataChange":{change},"stats":{encode_basestring(stats)}{others}'
        )
        added.append(AddedFile(recorded, None, text, size, rows, data_change, has_row_ids=False, is_new=True))
    return added


def recorded_add(action: LogAction) -> AddedFile:
    """Return an ``add`` action that is given as it shall be recorded.

    Raises
    ------
    InvalidArgumentError
        It is not an ``add``, lacks a required member, or has a deletion vector that is incomplete, without a count of
        its rows, or with an offset in the log.
    """
    if action.name != "add":
        raise InvalidArgumentError(f"the action {action.name} adds no file")
    check_action(action)
    members = action.members
    vector, rows = _vector_id(members.get("deletionVector")), _record_count(members.get("stats"))
    if vector is not None and rows is None:
        raise InvalidArgumentError(
            "a file with a deletion vector needs statistics with the number of its rows", path=members["path"]
        )
    descriptor = members.get("deletionVector") or {}
    if descriptor.get("storageType") == "i" and descriptor.get("offset") is not None:
        raise InvalidArgumentError(
            "a deletion vector in the log has no offset", hint="leave the offset out", path=members["path"]
        )
    return AddedFile(
        members["path"],
        vector,
        write_json(members)[1:-1],
        integer_of(members["size"]) or 0,
        rows,
        members["dataChange"] is not False,
        members.get("baseRowId") is not None,
        is_new=False,
    )


def with_vector(file: AddedFile, vector: Mapping[str, Any]) -> AddedFile:
    """Return a new file of which rows are deleted by a deletion vector, given its descriptor."""
    members = read_json(f"{{{file.text}}}")
    members |= {"deletionVector": vector, "stats": loosened_statistics(members["stats"], file.rows)}
    return file._replace(vector=unique_id(dict(vector)), text=write_json(members)[1:-1])


def removes_of(files: pa.Table, *, data_change: bool) -> list[RemovedFile]:
    """Return actions that remove live files.

    Parameters
    ----------
    files
        Rows of the live files of a snapshot (`LiveFiles.table`).
    """
    change = json.dumps(data_change)
    removed = []
    for row in files.select(_REPEATED).to_pylist():
        members = write_json({"partitionValues": {}, "tags": {}, **members_of_row(row)})[1:-1]
        text = f'"dataChange":{change},"extendedFileMetadata":true,{members}'
        removed.append(RemovedFile(row["path"], unique_id(row["deletionVector"]), text, row["size"] or 0, data_change))
    return removed


def _vector_id(descriptor: Mapping[str, Any] | None) -> str | None:
    if descriptor is not None and not all(isinstance(descriptor.get(name), str) for name in _PLACE):
        raise InvalidArgumentError(f"a deletion vector needs the members {' and '.join(_PLACE)}, which are texts")
    return None if descriptor is None else unique_id({**descriptor, "offset": integer_of(descriptor.get("offset"))})


def _record_count(stats: Any) -> int | None:
    if not isinstance(stats, str):
        return None
    try:
        found = json.loads(stats).get("numRecords")
    except (ValueError, AttributeError, RecursionError):
        return None
    return found if type(found) is int else None


def total_rows(files: Iterable[AddedFile]) -> int | None:
    """Return the number of rows in files; None if one of them does not tell."""
    return known_sum(file.rows for file in files)
