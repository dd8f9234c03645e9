"""The rows of a condition are replaced by hiding them, or by writing their files anew, as the caller says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table, write_table
from deltaberg.errors import InvalidArgumentError
from tests.support.command_line import call
from tests.support.rows import ids_of

_PROPERTIES: dict[str, dict[str, str]] = {
    "delta": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    "iceberg": {"format-version": "3"},
}
#: What a table does that is not told.
_BY_DEFAULT = {"delta": "merge-on-read", "iceberg": "copy-on-write"}


def _made(root: Path, form: Any, **properties: str) -> Any:
    columns = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = create_table(root, columns, format=form, properties={**_PROPERTIES[form], **properties})
    table.append(pa.table({"id": range(10), "p": ["a", "b"] * 5}))
    return table


def _overwrite(way: str, table: Any, new: pa.Table, where: str, strategy: Any) -> None:
    if way == "table":
        table.overwrite(new, where=where, strategy=strategy)
    elif way == "transaction":
        with table.transaction() as transaction:
            transaction.overwrite(new, where=where, strategy=strategy)
    else:
        write_table(table.location, new, mode="overwrite", predicate=where, strategy=strategy)


@pytest.mark.parametrize("strategy", ["merge-on-read", "copy-on-write", None])
@pytest.mark.parametrize("way", ["table", "transaction", "write_table"])
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_both_formats_do_as_they_are_told(form: str, way: str, strategy: Any, tmp_path: Path) -> None:
    table = _made(tmp_path / "t", form)
    before = table.version if form == "delta" else table.snapshot_id
    (old,) = {path.name for path in (tmp_path / "t").rglob("*.parquet")}
    _overwrite(way, table, pa.table({"id": [3, 5], "p": ["new", "new"]}), "id IN (3, 4, 5)", strategy)
    table = open_table(tmp_path / "t")
    assert ids_of(table) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert ids_of(table, filter="p = 'new'") == [3, 5]
    live = {Path(path).name for path in table.scan().files().column("file_path").to_pylist()}
    assert (old in live) == ((strategy or _BY_DEFAULT[form]) == "merge-on-read")
    changes = table.changes(before + 1 if form == "delta" else before).to_arrow().to_pylist()
    kinds = [(row["id"], row["p"], row["_change_type"].lower()) for row in changes]
    gone = [(3, "b", "delete"), (4, "a", "delete"), (5, "b", "delete")]
    assert sorted(kinds) == sorted([*gone, (3, "new", "insert"), (5, "new", "insert")])


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_at_the_command_line(form: str, tmp_path: Path) -> None:
    table = _made(tmp_path / "t", form)
    (tmp_path / "new.json").write_text('{"id": 3, "p": "new"}\n')
    for strategy, files in (("merge-on-read", 2), ("copy-on-write", 2)):
        options = ["--where", "id = 3", "--strategy", strategy]
        call("overwrite", table.location, str(tmp_path / "new.json"), *options)
        assert len(open_table(tmp_path / "t").scan().files()) == files
        assert ids_of(open_table(tmp_path / "t")) == list(range(10))


@pytest.mark.parametrize(
    ("form", "properties"),
    [("delta", {"delta.enableDeletionVectors": "false"}), ("iceberg", {"format-version": "1"})],
)
@pytest.mark.parametrize("where", ["id = 3", "id >= 0", None])
def test_what_a_table_cannot_do_is_refused_first(
    form: str, properties: dict[str, str], where: str | None, tmp_path: Path
) -> None:
    table = _made(tmp_path / "t", form, **properties)
    files = set(tmp_path.rglob("*"))
    new = pa.table({"id": [3], "p": ["new"]})
    with pytest.raises(InvalidArgumentError, match="strategy is 'merge-on-read', but"):
        table.overwrite(new, where=where, strategy="merge-on-read")
    with pytest.raises(InvalidArgumentError, match="strategy is about files of which some rows match where"):
        table.overwrite(new, dynamic=True, strategy="copy-on-write")
    with pytest.raises(InvalidArgumentError, match="strategy has no meaning if mode is append"):
        write_table(table, new, mode="append", strategy="copy-on-write")
    assert set(tmp_path.rglob("*")) == files
