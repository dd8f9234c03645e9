"""The commands that write: what they do, what they print, and how they end."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, create_table, open_table
from deltaberg.choices import Format
from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.command_line import call, json_lines, printed, terminal_text
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend

_COLUMNS = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("region", pa.string())])
_DAY = dt.date(2026, 1, 2)


def _rows(*numbers: int, region: str = "north") -> pa.Table:
    values = {"id": numbers, "day": [_DAY] * len(numbers), "region": [region] * len(numbers)}
    return pa.table(values, schema=_COLUMNS)


def _file(folder: Path, format: str, rows: pa.Table) -> Path:
    """Write rows to a file of a format, whose name shows it."""
    path = folder / f"rows.{format}"
    if format == "parquet":
        pq.write_table(rows, path)
    elif format in ("csv", "tsv"):
        delimiter = "\t" if format == "tsv" else ","
        pa.csv.write_csv(rows, path, pa.csv.WriteOptions(delimiter=delimiter))
    elif format == "arrow":
        with pa.ipc.new_file(path, rows.schema) as writer:
            writer.write_table(rows)
    elif format == "arrows":
        with pa.ipc.new_stream(path, rows.schema) as writer:
            writer.write_table(rows)
    else:
        lines = [{**row, "day": row["day"].isoformat()} for row in rows.to_pylist()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of a table of one row."""
    create_table(tmp_path / "t", _COLUMNS, partition_by="region").append(_rows(1))
    return tmp_path / "t"


def test_a_table_is_created_and_filled(tmp_path: Path) -> None:
    root = tmp_path / "t"
    options = ["--column", "id bigint not null", "--column", "price decimal(9, 2)", "--column", "region string"]
    done = call("create", root, *options, "--partition-by", "region", "-p", "owner=ada", "--description", "two words")
    assert (done.exit_code, done.stdout.splitlines()[1].split()) == (0, ["version:", "0"])
    table = DeltaTable(root)
    assert table.arrow_schema.field("price").type == pa.decimal128(9, 2)
    assert [field.nullable for field in table.schema] == [False, True, True]
    assert (table.partition_columns, table.properties, table.metadata.description) == (
        ["region"],
        {"owner": "ada"},
        "two words",
    )
    file = _file(tmp_path, "csv", pa.table({"region": ["007"], "id": [1], "price": ["1.25"]}))
    (found,) = json_lines("append", root, file, "--message", "from a file")
    assert (found["version"], found["added_files"], found["added_rows"], found["committed"]) == (1, 1, 1, True)
    # Columns of a CSV file are read as the types of the table.
    assert [str(value) for value in table.refresh().scan().to_arrow().to_pylist()[0].values()] == ["1", "1.25", "007"]
    assert table.history()[0].info["userMetadata"] == "from a file"


def test_a_table_is_created_like_a_file(tmp_path: Path) -> None:
    file = _file(tmp_path, "parquet", _rows(1, 2))
    printed("create", tmp_path / "t", "--like", file, "--cluster-by", "id")
    table = DeltaTable(tmp_path / "t")
    assert (table.arrow_schema, ids_of(table)) == (_COLUMNS, [])
    assert table.clustering_columns == [("id",)]
    assert call("create", tmp_path / "t", "--like", file).exit_code == 12
    assert json_lines("create", tmp_path / "t", "--like", file, "--if-exists", "replace")[0]["version"] == 1


@pytest.mark.parametrize("format", ["parquet", "csv", "tsv", "arrow", "arrows", "jsonl"])
def test_rows_of_every_format(tmp_path: Path, root: Path, format: str) -> None:
    file = _file(tmp_path, format, _rows(2, 3))
    (found,) = json_lines("append", root, file)
    assert (found["version"], found["added_rows"]) == (2, 2)
    assert DeltaTable(root).scan("id = 3").to_arrow().to_pylist() == [{"id": 3, "day": _DAY, "region": "north"}]


_FORMS = [
    ("id;region\n2;south\n3;\n", ["--delimiter", ";"]),
    ("2\tsouth\n3\t\n", ["--delimiter", "tab", "--header", "id,region"]),
    ("2,2026-01-02,south\n3,2026-01-02,NA\n", ["--no-header", "--null", "NA"]),
    ("id,region\n2,'so''uth'\n3,\n", ["--quote", "'"]),
    ("id,region\n2,so'uth\n3,\n", ["--escape", ""]),
    ("id,region\n2,s\xfcdh\n3,\n", ["--encoding", "latin-1"]),
    ('id,region\n2,"south\nwest"\n3,""\n', []),
    ('id,region\n2,south\n3,""\n', ["--empty-fields", "quoted-text"]),
    ("id,region\n2,south\n3,\n", ["--empty-fields", "text"]),
]


@pytest.mark.parametrize(("text", "options"), _FORMS, ids=[str(number) for number in range(len(_FORMS))])
def test_every_form_of_csv(tmp_path: Path, text: str, options: list[str]) -> None:
    """An empty field of a column of text is a null, unless the caller says otherwise."""
    table = create_table(tmp_path / "t", _COLUMNS)
    (tmp_path / "rows.csv").write_bytes(text.encode("latin-1"))
    json_lines("append", tmp_path / "t", tmp_path / "rows.csv", *options)
    rows = table.refresh().scan(columns=["id", "region"]).to_arrow().sort_by("id").to_pylist()
    first = {"2,'so": "so'uth", "2,so'": "so'uth", "s\xfcdh": "s\xfcdh", "south\nwest": "south\nwest"}
    wanted = next((found for mark, found in first.items() if mark in text), "south")
    assert rows == [{"id": 2, "region": wanted}, {"id": 3, "region": "" if "--empty-fields" in options else None}]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_fields_of_csv_are_converted_as_options_say(tmp_path: Path, form: Format) -> None:
    """Dates and times go by the zone and the digits that a write is told, and anything is cast where it may be."""
    columns = {
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "day": pa.date32(),
        "n": pa.int32(),
        "price": pa.decimal128(9, 2),
    }
    table = create_table(tmp_path / "t", pa.schema(columns), format=form)
    path = tmp_path / "rows.csv"
    path.write_text("at,local,day,n,price\n2026-01-01 12:00:00.1234567,2026-01-01 12:00, 2026-01-01,1,1.5\n,,,,\n")
    refused = call("append", tmp_path / "t", path)
    assert refused.exit_code != 0
    assert "pass --allow-truncation" in refused.stderr
    zone = ["--timezone", "Europe/Berlin"]
    json_lines("append", tmp_path / "t", path, "--allow-truncation", "--empty-fields", "text", *zone)
    path.write_text("day,n,price\n2026-01-01 12:00:00, 7 ,1.556\n")
    assert call("append", tmp_path / "t", path).exit_code != 0
    json_lines("append", tmp_path / "t", path, "--no-safe")
    at = dt.datetime(2026, 1, 1, 11, 0, 0, 123456, dt.timezone.utc)
    local, day = dt.datetime(2026, 1, 1, 12), dt.date(2026, 1, 1)
    assert sorted((tuple(row.values()) for row in table.refresh().scan().to_arrow().to_pylist()), key=str) == [
        (None, None, None, None, None),
        (None, None, day, 7, Decimal("1.56")),
        (at, local, day, 1, Decimal("1.50")),
    ]


@pytest.mark.parametrize("format", ["parquet", "csv", "arrow", "arrows", "json"])
def test_rows_come_from_standard_input(tmp_path: Path, root: Path, format: str) -> None:
    data = _file(tmp_path, format, _rows(2, 3)).read_bytes()
    name = "arrow" if format == "arrows" else format
    done = call("append", root, "-", "--format", name, stdin=data)
    assert (done.exit_code, done.stderr) == (0, "")
    assert ids_of(DeltaTable(root)) == [1, 2, 3]


def test_compressed_csv(tmp_path: Path, root: Path) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b"id,region\n2,south\n"))
    assert json_lines("append", root, tmp_path / "rows.csv.gz")[0]["added_rows"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "pass --format"),
        (["-", "-", "--format", "csv"], "once only"),
        (["rows.parquet", "--delimiter", ";"], "no CSV file"),
        (["rows.csv", "--delimiter", ";;"], "one character"),
        (["rows.csv", "--encoding", "klingon"], "no encoding"),
        *((["rows.csv", "--encoding", name], "no encoding") for name in ("base64", "undefined")),
        (["rows.csv", "--escape", '"'], "--quote and --escape are both"),
        (["rows.csv", "--escape", ","], "--delimiter and --escape are both"),
        (["rows.csv", "--quote", ","], "--delimiter and --quote are both"),
        (["rows.csv", "--encoding", "ascii"], "cannot be read"),
        (["rows.csv", "--null", "x", "--empty-fields", "text"], "exclude each other"),
    ],
)
def test_files_that_cannot_be_read_so(tmp_path: Path, root: Path, arguments: list[str], message: str) -> None:
    _file(tmp_path, "csv", _rows(2, region="\xfc"))
    _file(tmp_path, "parquet", _rows(2))
    done = call(
        "append", root, *(str(tmp_path / one) if one.startswith("rows") else one for one in arguments), stdin=b""
    )
    assert (done.exit_code, DeltaTable(root).version) == (2, 1)
    assert message in done.stderr


def test_columns_of_every_kind(tmp_path: Path) -> None:
    columns = [
        "id bigint not null",
        "tags array<string>",
        "`ab` map<string, struct<x: int, y: decimal(9,2)>>",
    ]
    columns += ["n int default 7 comment 'it''s'"]
    printed("create", tmp_path / "t", *(word for one in columns for word in ("--column", one)))
    table = DeltaTable(tmp_path / "t")
    inner = pa.struct([("x", pa.int32()), ("y", pa.decimal128(9, 2))])
    assert table.arrow_schema.types == [pa.int64(), pa.list_(pa.string()), pa.map_(pa.string(), inner), pa.int32()]
    assert table.schema.fields[3].metadata == {"CURRENT_DEFAULT": "7", "comment": "it's"}
    for wrong in ("id", "id foo", "id array<int", "id map<int>", "id int nul", f"id {'array<' * 99}int{'>' * 99}"):
        assert call("create", tmp_path / "u", "--column", wrong).exit_code == 2
    assert call("create", tmp_path / "u", "--column", "n int default 7", "--table-format", "iceberg").exit_code == 2


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_default_values(tmp_path: Path, format: str) -> None:
    feature = ["delta.feature.allowColumnDefaults=supported"] if format == "delta" else ["format-version=3"]
    printed("create", tmp_path / "t", "-c", "id int", "-c", "s string", "--table-format", format, "-p", *feature)
    printed("alter", tmp_path / "t", "set-default", "s", "concat('a', 'b')")
    added = call("alter", tmp_path / "t", "add", "d", "date", "--default", "DATE '2026-01-02'")
    assert added.exit_code == (2 if format == "delta" else 0), added.stderr
    (tmp_path / "rows.csv").write_text("id\n1\n", "utf-8")
    printed("append", tmp_path / "t", tmp_path / "rows.csv")
    day = {} if format == "delta" else {"d": "2026-01-02"}
    assert json_lines("head", tmp_path / "t") == [{"id": 1, "s": "ab", **day}]
    assert call("alter", tmp_path / "t", "set-default", "s", "north").exit_code == 2
    printed("alter", tmp_path / "t", "set-default", "s", "NULL")
    printed("append", tmp_path / "t", tmp_path / "rows.csv")
    assert sorted(str(row["s"]) for row in json_lines("head", tmp_path / "t")) == ["None", "ab"]


def test_several_files_are_one_commit(tmp_path: Path, root: Path) -> None:
    first = _file(tmp_path, "parquet", _rows(2))
    second = tmp_path / "second"
    pq.write_table(_rows(3, region="south"), second)
    text = printed("append", root, first, second, "--format", "parquet")
    assert text.splitlines()[1].split() == ["version:", "2"]
    assert "2 files, 2 rows" in text
    assert ids_of(DeltaTable(root)) == [1, 2, 3]
    pq.write_table(ids(4), second)
    done = call("append", root, first, second, "--format", "parquet")
    assert (done.exit_code, DeltaTable(root).version) == (2, 2)
    assert "the columns of" in done.stderr


def test_progress_of_an_application(tmp_path: Path, root: Path) -> None:
    file = _file(tmp_path, "parquet", _rows(2))
    assert [json_lines("append", root, file, "--txn", "app=3")[0]["committed"] for _ in range(2)] == [True, False]
    assert "there was nothing to do" in printed("append", root, file, "--txn", "app=3")
    assert ids_of(DeltaTable(root)) == [1, 2]
    assert call("append", root, file, "--txn", "app").exit_code == 2


def test_rows_are_replaced(tmp_path: Path, root: Path) -> None:
    south = _file(tmp_path, "parquet", _rows(2, 3, region="south"))
    printed("append", root, south)
    printed("overwrite", root, _file(tmp_path, "csv", _rows(4, region="south")), "--where", "region = 'south'")
    assert ids_of(DeltaTable(root)) == [1, 4]
    printed("overwrite", root, south, "--dynamic")
    assert ids_of(DeltaTable(root)) == [1, 2, 3]
    assert call("overwrite", root, south, "--where", "region = 'north'").exit_code == 15
    replaced = pa.table({"id": [7], "p": ["x"]})
    printed("overwrite", root, _file(tmp_path, "parquet", replaced), "--replace-schema", "--partition-by", "p")
    assert DeltaTable(root).scan().to_arrow().to_pylist() == [{"id": 7, "p": "x"}]
    more = pa.table({"id": [8], "more": ["x"]})
    assert call("append", root, _file(tmp_path, "parquet", more)).exit_code == 2
    printed("append", root, _file(tmp_path, "parquet", more), "--merge-schema")
    assert DeltaTable(root).schema.names == ["id", "p", "more"]


def test_rows_are_deleted(root: Path) -> None:
    DeltaTable(root).append(_rows(2, 3))
    (plan,) = json_lines("delete", root, "id >= 2", "--dry-run")
    assert (plan["dry_run"], plan["rows_to_delete"], plan["files_to_change"]) == (True, 2, 1)
    (plan,) = json_lines("delete", root, "id + 1 = 2 OR id = 3", "--dry-run")
    assert (plan["rows_to_delete"], plan["files_to_change"]) == (2, 2)
    assert DeltaTable(root).version == 2
    (found,) = json_lines("delete", root, "id >= 2")
    assert (found["version"], found["metrics"]["numDeletedRows"]) == (3, 2)
    assert ids_of(DeltaTable(root)) == [1]


def test_rows_are_updated(root: Path) -> None:
    DeltaTable(root).append(_rows(2, 3))
    (found,) = json_lines("update", root, "--set", "day=day + INTERVAL 1 DAY", "--set", "id=id + 10", "-w", "id >= 2")
    assert (found["version"], found["metrics"]["numUpdatedRows"]) == (3, 2)
    rows = sorted((row["id"], row["day"].day) for row in DeltaTable(root).scan().to_arrow().to_pylist())
    assert rows == [(1, 2), (12, 3), (13, 3)]


def test_rows_are_upserted(root: Path, tmp_path: Path) -> None:
    file = _file(tmp_path, "csv", _rows(1, 2, region="south"))
    options = ["--key", "id", "--txn", "app=1", "-m", "from a file"]
    (upserted,) = json_lines("upsert", root, file, *options)
    metrics = upserted["metrics"]
    assert (upserted["version"], metrics["numTargetRowsUpdated"], metrics["numTargetRowsInserted"]) == (2, 1, 1)
    (again,) = json_lines("upsert", root, file, *options)
    assert (again["version"], again["committed"]) == (2, False)
    (upserted,) = json_lines("upsert", root, _file(tmp_path, "jsonl", _rows(2, 3)), "-k", "id", "--no-update")
    assert (upserted["metrics"]["numTargetRowsUpdated"], upserted["metrics"]["numTargetRowsInserted"]) == (0, 1)
    json_lines("upsert", root, _file(tmp_path, "parquet", _rows(3, 4, region="west")), "-k", "id", "--no-insert")
    rows = {row["id"]: row["region"] for row in DeltaTable(root).scan().to_arrow().to_pylist()}
    assert rows == {1: "south", 2: "south", 3: "west"}
    for wrong in (["--no-update", "--no-insert", "-k", "id"], []):
        assert call("upsert", root, file, *wrong).exit_code == 2


def test_columns_that_lines_of_json_lack_keep_their_values(tmp_path: Path) -> None:
    """They are not taken for nulls, as columns that CSV and Parquet files lack are not."""
    inner = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    columns = pa.schema([("id", pa.int64()), ("note", pa.string()), ("day", pa.date32()), ("st", inner)])
    table = create_table(tmp_path / "t", columns)
    old: dict[str, Any] = {"id": 1, "note": "keep", "day": _DAY, "st": {"x": 1, "y": 2}}
    table.append(pa.Table.from_pylist([old], columns))
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"id": 1, "st": {"x": 5}}\n{"id": 2, "st": {"x": 6}}\n', "utf-8")
    json_lines("upsert", table.location, lines, "-k", "id")
    old["st"] = {"x": 5, "y": 2}
    new = {"id": 2, "note": None, "day": None, "st": {"x": 6, "y": None}}
    assert table.refresh().scan().to_arrow().sort_by("id").to_pylist() == [old, new]
    lines.write_text('{"id": 1}\n{"id": 2}\n', "utf-8")
    json_lines("upsert", table.location, lines, "-k", "id")
    rows = table.refresh().scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [old, new]
    # A null that is written is one.
    lines.write_text('{"id": 1, "note" : null}\n', "utf-8")
    json_lines("upsert", table.location, lines, "-k", "id")
    rows = table.refresh().scan("id = 1").to_arrow().to_pylist()
    assert rows == [{**old, "note": None}]
    defaulted = create_table(
        tmp_path / "u",
        Struct((Field("id", Primitive("long")), Field("x", Primitive("long"), metadata={"CURRENT_DEFAULT": "42"}))),
    )
    lines.write_text('{"id": 1}\n', "utf-8")
    json_lines("append", defaulted.location, lines)
    assert defaulted.refresh().scan().to_arrow().to_pylist() == [{"id": 1, "x": 42}]


def test_rows_are_merged(root: Path, tmp_path: Path) -> None:
    DeltaTable(root).append(_rows(2, 3, 4))
    file = _file(tmp_path, "csv", _rows(1, 2, 5, 6, region="south"))
    clauses = [
        "--delete",
        "source.id = 1",
        "--set",
        "region=concat(source.region, '!')",
        "--set-where",
        "target.id < 9",
    ]
    clauses += ["--insert", "--insert-where", "source.id < 6", "--delete-missing", "--delete-missing-where", "id = 3"]
    (found,) = json_lines("merge", root, file, "--on", "target.id = source.id", *clauses)
    metrics = found["metrics"]
    assert [metrics[f"numTargetRows{name}"] for name in ("Deleted", "Updated", "Inserted")] == [2, 1, 1]
    rows = {row["id"]: row["region"] for row in DeltaTable(root).scan().to_arrow().to_pylist()}
    assert rows == {2: "south!", 4: "north", 5: "south"}
    printed("merge", root, file, "--on", "target.id = source.id", "--set-all", "--delete-missing")
    assert {row["id"]: row["region"] for row in DeltaTable(root).scan().to_arrow().to_pylist()} == {
        2: "south",
        5: "south",
    }
    for wrong in (["--set-all", "--set", "id=1"], ["--insert-where", "true"], []):
        assert call("merge", root, file, "--on", "true", *wrong).exit_code == 2


def test_a_directory_is_converted(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "d" / f"n={number}").mkdir(parents=True)
        pq.write_table(ids(number), tmp_path / "d" / f"n={number}" / "rows.parquet")
    (found,) = json_lines("convert", tmp_path / "d", "--partition-by", "n int", "--name", "ours", "-p", "owner=ada")
    assert (found["version"], found["added_files"], found["added_rows"]) == (0, 2, 2)
    table = DeltaTable(tmp_path / "d")
    assert table.scan("n = 2").to_arrow().to_pylist() == [{"id": 2, "n": 2}]
    assert (table.metadata.name, table.properties) == ("ours", {"owner": "ada"})
    assert call("convert", tmp_path / "d", "--partition-by", "n int").exit_code == 12


def test_columns_and_properties_are_altered(root: Path) -> None:
    changes: list[list[str]] = [
        ["add", "note", "string", "--comment", "free text", "--after", "id"],
        ["set", "delta.columnMapping.mode=name", "owner=ada"],
        ["set", "delta.enableTypeWidening=true"],
        ["rename", "note", "text"],
        ["add", "count", "int", "--first"],
        ["widen", "count", "bigint"],
        ["move", "count", "--before", "text"],
        ["move", "count", "--after", "text"],
        ["comment", "count", "how many"],
        ["drop", "text"],
        ["unset", "owner"],
        ["name", "orders"],
        ["describe", "all orders"],
    ]
    for number, change in enumerate(changes, start=2):
        (found,) = json_lines("alter", root, *change)
        assert found["version"] == number, change
    table = DeltaTable(root)
    assert [str(field.type) for field in table.schema] == ["long", "long", "date", "string"]
    assert table.schema.names == ["id", "count", "day", "region"]
    assert table.schema.fields[1].metadata["comment"] == "how many"
    assert (table.metadata.name, table.metadata.description) == ("orders", "all orders")
    assert "owner" not in table.properties


def test_a_change_is_tried(root: Path) -> None:
    (plan,) = json_lines("alter", root, "add", "x", "bigint", "--dry-run")
    assert plan["columns"][-1] == "x long"
    assert "nothing was changed" in printed("alter", root, "add", "x", "bigint", "--dry-run")
    refused = call("alter", root, "add", "id", "bigint", "--dry-run")
    assert (refused.exit_code, "choose another name" in refused.stderr) == (2, True)
    assert DeltaTable(root).version == 1


def test_checkpoints_and_compaction(tmp_path: Path, root: Path) -> None:
    for number in (2, 3):
        printed("append", root, _file(tmp_path, "parquet", _rows(number)))
    (planned,) = json_lines("compact", root, "--dry-run", "--min-file-size", 1 << 20, "--max-file-size", 1 << 30)
    assert (planned["dry_run"], DeltaTable(root).version) == (True, 3)
    (answer,) = json_lines("compact", root)
    assert (answer["commits"], answer["removed_files"], answer["added_files"]) == (1, 3, 1)
    assert "dry_run" not in answer
    assert all(planned[name] == answer[name] for name in ("commits", "removed_files", "added_files", "removed_bytes"))
    assert "all are in order" in printed("compact", root)
    (made,) = json_lines("checkpoint", root)
    assert (root / "_delta_log" / made["files"][0]).exists()
    assert "classic" in printed("checkpoint", root)
    (answer,) = json_lines("compact-log", root, "--first", "1", "--last", "2")
    assert (root / "_delta_log" / answer["file"]).name == f"{1:020d}.{2:020d}.compacted.json"
    assert "none: fewer than two commits follow the checkpoint of version 4" in printed("compact-log", root)
    assert "pass two versions as --first and --last" in call("compact-log", root, "--first", "4").stderr
    assert "pass no later version as --last\n" in call("compact-log", root, "--last", "9").stderr
    for number in (4, 5):
        DeltaTable(root).append(_rows(number))
    assert "5 to 6" in printed("compact-log", root)
    DeltaTable(root).overwrite(_rows(1, 2, 3))
    assert ids_of(DeltaTable(root)) == [1, 2, 3]


def test_orders_of_rows(tmp_path: Path, root: Path) -> None:
    printed("append", root, _file(tmp_path, "parquet", _rows(3, 2)))
    (compacted,) = json_lines("compact", root, "--sort-by", "id desc")
    assert (compacted["removed_files"], compacted["added_files"]) == (2, 1)
    assert DeltaTable(root).scan().to_arrow()["id"].to_pylist() == [3, 2, 1]
    for option in ("--z-order-by", "--hilbert-by"):
        (compacted,) = json_lines("compact", root, option, "id")
        assert DeltaTable(root).scan().to_arrow()["id"].to_pylist() == [1, 2, 3]
        refused = call("compact", root, option, "id", option, "ID")
        assert f"a column is named twice in {option}" in refused.stderr
        moments = tmp_path / option.strip("-")
        schema = pa.schema([("id", pa.int64()), ("at", pa.date32())])
        rows = pa.table({"id": [1, 2], "at": pa.array([400, 1], pa.date32())}, schema)
        create_table(moments, schema, format="iceberg").append(rows)
        (compacted,) = json_lines("compact", moments, option, "months(at)")
        assert open_table(moments).scan().to_arrow()["id"].to_pylist() == [2, 1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["create", "{new}"], 2, "pass either --column"),
        (["create", "{new}", "--column", "id"], 2, "is not a column"),
        (["create", "{new}", "--column", "id list"], 2, "not a type"),
        (["create", "{new}", "--column", "id decimal(99, 2)"], 2, "not a type"),
        (["create", "{new}", "--column", "id int", "-p", "delta.nope=1"], 2, "no property"),
        (["append", "{root}"], 2, "Missing argument"),
        (["append", "{root}", "{rows}.nope"], 2, "does not show its format"),
        (["append", "{root}", "{rows}.csv"], 8, "there is no file"),
        (["append", "{new}", "{rows}"], 3, "there is no"),
        (["append", "{root}", "{rows}", "--format", "csv"], 2, "cannot be read"),
        (["overwrite", "{root}", "{rows}", "--merge-schema", "--replace-schema"], 2, "exclude each other"),
        (["delete", "{root}", "nope = 1"], 2, "nope"),
        (["update", "{root}"], 2, "--set"),
        (["update", "{root}", "--set", "id"], 2, "COLUMN=SQL"),
        (["convert", "{new}"], 3, ""),
        (["alter", "{root}", "add", "x"], 2, "add is followed by NAME TYPE"),
        (["alter", "{root}", "set"], 2, "set is followed by KEY=VALUE"),
        (["alter", "{root}", "set", "owner"], 2, "KEY=VALUE"),
        (["alter", "{root}", "drop", "id", "--first"], 2, "--first has no meaning with drop"),
        (["alter", "{root}", "drop", "id"], 5, "column mapping"),
        (["alter", "{root}", "widen", "id", "int"], 5, "type widening"),
        (["alter", "{root}", "nope"], 2, "nope"),
    ],
)
def test_how_failures_end(tmp_path: Path, root: Path, arguments: list[str], code: int, message: str) -> None:
    rows = _file(tmp_path, "parquet", _rows(2))
    places: dict[str, Any] = {"root": root, "rows": rows, "new": tmp_path / "new"}
    done = call(*(argument.format(**places) for argument in arguments))
    assert (done.exit_code, done.stdout) == (code, ""), done.stderr
    assert message in done.stderr
    assert (DeltaTable(root).version, (tmp_path / "new").exists()) == (1, False)


def test_progress_on_a_terminal(tmp_path: Path, root: Path) -> None:
    file = _file(tmp_path, "parquet", _rows(*range(2, 50)))
    text = terminal_text("append", root, file)
    assert "appending to" in text
    assert "48 rows" in text
    assert ids_of(DeltaTable(root)) == list(range(1, 50))
