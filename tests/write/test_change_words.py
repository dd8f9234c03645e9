"""The arguments of changes of rows: how files are written, and words of deltalake that these methods lack."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, ParquetOptions, create_table
from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError

pytestmark = pytest.mark.one_backend

_ROWS = pa.table(
    {
        "id": pa.array(range(2_000), pa.int64()),
        "x": [hashlib.sha256(b"%d" % number).hexdigest() for number in range(2_000)],
    }
)
#: Rows that an upsert changes.
_OTHER_ROWS = pa.table({"id": _ROWS["id"], "x": _ROWS["x"].take(pa.array(range(1_999, -1, -1)))}).slice(0, 1900)
_Change = Callable[[Any, dict[str, Any]], Any]

_ON = "target.id = source.id"
_CHANGES: dict[str, _Change] = {
    "delete": lambda to, words: to.delete("id = 3", **words),
    "update": lambda to, words: to.update({"id": "id"}, "id = 4", **words),
    "merge": lambda to, words: to.merge(_ROWS.slice(7, 1), _ON, **words).when_matched_delete().execute(),
    "upsert": lambda to, words: to.upsert(_OTHER_ROWS, "id", **words),
}


@pytest.mark.parametrize("name", list(_CHANGES))
@pytest.mark.parametrize("in_transaction", [False, True], ids=["alone", "in a transaction"])
def test_how_files_are_written(tmp_path: Path, name: str, in_transaction: bool) -> None:
    table = create_table(tmp_path / "t", _ROWS.schema)
    table.append(_ROWS)
    before = set(tmp_path.rglob("*.parquet"))
    words = {
        "compression": "zstd",
        "target_file_size": 20_000,
        "writer_properties": ParquetOptions(row_group_rows=300, dictionary=False),
    }
    if in_transaction:
        with table.transaction() as transaction:
            _CHANGES[name](transaction, words)
    else:
        _CHANGES[name](table, words)
    written = [pq.read_metadata(path) for path in set(tmp_path.rglob("*.parquet")) - before]
    assert len(written) > 1
    assert {found.row_group(0).column(1).compression for found in written} == {"ZSTD"}
    assert max(found.row_group(0).num_rows for found in written) == 300
    assert table.scan().count() == 2_000 - (name in ("delete", "merge"))


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (lambda table: table.delete(), r"delete\(\) needs the argument where", "where=None to delete all rows"),
        (lambda table: table.delete("id = 1", predicate="id = 2"), "predicate and where are the same", "one of them"),
        (lambda table: table.update(), r"update\(\) needs the argument set", "price"),
        (lambda table: table.update(new_values={"x": "a"}), "no argument new_values", "quoted twice"),
        (lambda table: table.merge(_ROWS, _ON, merge_schema=True), "no argument merge_schema", 'schema_mode="merge"'),
        (lambda table: table.merge(_ROWS, _ON, streamed_exec=False), "no argument streamed_exec", "memory="),
        (
            lambda table: table.merge(_ROWS, _ON, commit_properties=1).when_matched_delete().execute(),
            "commit_properties is of the type int",
            "CommitProperties",
        ),
        (
            lambda table: table.upsert(_ROWS, "id", commit_properties=1),
            "commit_properties is of the type int",
            "CommitProperties",
        ),
    ],
)
def test_words_of_deltalake(tmp_path: Path, change: Callable[[DeltaTable], object], message: str, hint: str) -> None:
    table = create_table(tmp_path / "t", _ROWS.schema)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        change(table)
    assert hint in (caught.value.hint or "")
    assert table.refresh().version == 0


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (lambda table: table.delete(), r"delete\(\) needs the argument where", "where=None to delete all rows"),
        (lambda table: table.upsert(_ROWS, "id", join_cols=["id"]), "join_cols and keys are the same", "one of them"),
        (
            lambda table: table.update({"x": "'a'"}, user_metadata="a"),
            "user_metadata applies only to Delta",
            "properties=",
        ),
        (lambda table: table.merge(_ROWS, _ON, merge_schema=True), "no argument merge_schema", 'schema_mode="merge"'),
        (
            lambda table: table.overwrite(_ROWS, overwrite_filter="id = 1"),
            "no argument overwrite_filter",
            "check=False",
        ),
        (
            lambda table: table.upsert(_ROWS, "id", commit_properties=1),
            "commit_properties is of the type int",
            "CommitProperties",
        ),
        (lambda table: table.append(_ROWS, user_metadata="a"), "user_metadata applies only to Delta", "properties="),
    ],
)
def test_words_of_others_for_iceberg_tables(
    tmp_path: Path, change: Callable[[Any], object], message: str, hint: str
) -> None:
    table = create_table(tmp_path / "t", _ROWS.schema, format="iceberg")
    with pytest.raises((InvalidArgumentError, UnsupportedFeatureError), match=message) as caught:
        change(table)
    assert hint in (caught.value.hint or "")
    assert not table.refresh().snapshots


def test_rules_in_the_metadata_of_arrow_fields(tmp_path: Path) -> None:
    identity = {"delta.identity.start": "5", "delta.identity.step": "2", "delta.identity.allowExplicitInsert": "false"}
    inside = pa.field("x", pa.int64(), metadata={"comment": "deep"})
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), metadata=identity),
            pa.field("k", pa.int64(), metadata={"CURRENT_DEFAULT": "7", "mine": "no rule"}),
            pa.field("twice", pa.int64(), metadata={"delta.generationExpression": "k * 2", "comment": "of k"}),
            pa.field("s", pa.struct([inside]), metadata={"delta.columnMapping.id": "9", "delta.typeChanges": "[]"}),
        ]
    )
    table: DeltaTable = create_table(tmp_path / "t", schema)
    text = (tmp_path / "t/_delta_log/00000000000000000000.json").read_text()
    (metadata,) = (action["metaData"] for line in text.splitlines() if "metaData" in (action := json.loads(line)))
    fields = json.loads(metadata["schemaString"])["fields"]
    assert [field["metadata"] for field in fields] == [
        {"delta.identity.start": 5, "delta.identity.step": 2, "delta.identity.allowExplicitInsert": False},
        {"CURRENT_DEFAULT": "7"},
        {"delta.generationExpression": "k * 2", "comment": "of k"},
        {},
    ]
    assert fields[3]["type"]["fields"][0]["metadata"] == {"comment": "deep"}
    table.append(pa.table({"s": [{"x": 1}, None]}))
    rows = table.scan(columns=["id", "k", "twice"]).to_arrow().to_pylist()
    assert rows == [{"id": 5, "k": 7, "twice": 14}, {"id": 7, "k": 7, "twice": 14}]
    unknown = pa.schema([pa.field("x", pa.int64(), metadata={"delta.unheard": "1"})])
    with pytest.raises(SchemaError, match=r"reserved key delta\.unheard"):
        create_table(tmp_path / "u", unknown)
    with pytest.raises(SchemaError, match="step"):
        create_table(tmp_path / "v", pa.schema([pa.field("x", pa.int64(), metadata={"delta.identity.start": "1"})]))
