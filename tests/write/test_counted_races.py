"""The number of deleted rows in the result of a commit, where others delete rows while the transaction runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import CommitConflictError

_COLUMNS = pa.schema([("id", pa.int64())])
_HIDING = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
_TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "delta, by files": ("delta", {"delta.enableDeletionVectors": "false"}),
    "delta, by vectors": ("delta", {"delta.enableDeletionVectors": "true"}),
    "iceberg, by files": ("iceberg", {"format-version": "2"}),
    "iceberg, by positions": ("iceberg", {"format-version": "2", **_HIDING}),
    "iceberg, by vectors": ("iceberg", {"format-version": "3", **_HIDING}),
}
#: What a transaction does, and how many rows it inserts.
_VERBS: dict[str, tuple[Callable[[Any], object], int]] = {
    "some rows": (lambda to: to.delete("id < 5"), 0),
    "a file": (lambda to: to.delete("id < 10"), 0),
    "all rows": (lambda to: to.delete(None), 0),
    "overwrite": (lambda to: to.overwrite(pa.table({"id": [100]})), 1),
    "dynamic": (lambda to: to.overwrite(pa.table({"id": [100]}), dynamic=True), 1),
    "update": (lambda to: to.update({"id": "id + 1000"}, "id < 5"), 0),
    "merge": (
        lambda to: to.merge(pa.table({"id": [1, 2, 3]}), "target.id = source.id").when_matched_delete().execute(),
        0,
    ),
}
#: What another one deletes meanwhile: rows that the first one deletes, too, or rows of another file.
_OTHERS = ["id = 3", "id = 15"]


@pytest.mark.parametrize("verb", _VERBS)
@pytest.mark.parametrize("kind", _TABLES)
def test_no_row_is_counted_that_others_have_deleted(kind: str, verb: str, tmp_path: Path) -> None:
    form, properties = _TABLES[kind]
    change, inserted = _VERBS[verb]
    for number, other in enumerate(_OTHERS):
        table: Any = create_table(tmp_path / f"{number}", _COLUMNS, format=form, properties=properties)  # type: ignore[call-overload]
        for first in (0, 10):
            table.append(pa.table({"id": range(first, first + 10)}))
        transaction = table.transaction()
        change(transaction)
        open_table(table.location).delete(other)
        try:
            transaction.commit()
        except CommitConflictError:
            assert (kind, other) != ("iceberg, by positions", "id = 3") or verb == "update"
            continue
        gone = 19 + inserted - open_table(table.location).scan().count()
        result = transaction.result
        assert result.deleted_rows in (None, gone)
        assert {result.metrics.get(name, gone) for name in ("numDeletedRows", "numTargetRowsDeleted")} == {gone}
        if other == "id = 15" and verb in ("some rows", "a file", "merge", "update"):
            assert result.deleted_rows == gone


def test_rows_that_nobody_shares_are_counted(tmp_path: Path) -> None:
    for kind, (form, properties) in _TABLES.items():
        table: Any = create_table(tmp_path / kind, _COLUMNS, format=form, properties=properties)  # type: ignore[call-overload]
        table.append(pa.table({"id": range(10)}))
        transaction = table.transaction()
        transaction.delete("id < 5")
        open_table(table.location).append(pa.table({"id": [50]}))
        transaction.commit()
        assert transaction.result.deleted_rows == 5, kind
