"""What the commands print about tables."""

from __future__ import annotations

import json
import socket
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import kernels, open_table
from tests.support.command_line import call, json_lines, printed
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids

_MILLIS = 1_767_225_600_000  # 2026-01-01


@pytest.fixture
def orders(builder: DeltaBuilder) -> str:
    """A partitioned table with a deletion vector, two versions, a checkpoint of the first, and a property."""
    schema = pa.schema([("id", pa.int64()), ("price", pa.decimal128(9, 2)), ("region", pa.string())])

    def rows(*numbers: int) -> pa.Table:
        prices = pa.array([Decimal(number) / 4 for number in numbers], pa.decimal128(9, 2))
        return pa.table({"id": pa.array(numbers, pa.int64()), "price": prices})

    north = builder.add(rows(1, 2), path="n.parquet", partition={"region": "north"}, stats="full")
    vector = builder.vector([0])
    south = builder.add(rows(3, 4), path="s.parquet", partition={"region": "so\tuth"}, stats="full", vector=vector)
    builder.create(
        schema,
        north,
        partition_by=["region"],
        configuration={"delta.appendOnly": "false", "owner": "me"},
        protocol=builder.features("deletionVectors", writer_only=["appendOnly"]),
        millis=_MILLIS,
    )
    builder.checkpoint()
    builder.commit(south, info={"operation": "WRITE", "engineInfo": "e", "userName": "u"}, millis=_MILLIS + 1000)
    return str(builder.root)


def test_inspect(orders: str) -> None:
    (facts,) = json_lines("inspect", orders)
    table = open_table(orders, "delta")
    assert table.base_checkpoint is not None
    assert facts == {
        "location": orders,
        "format": "delta",
        "version": 1,
        "timestamp": "2026-01-01T00:00:01.000+00:00",
        "id": table.metadata.id,
        "name": None,
        "description": None,
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["deletionVectors"],
            "writerFeatures": ["deletionVectors", "appendOnly"],
        },
        "features": ["appendOnly", "deletionVectors"],
        "active_features": sorted(table.active_features),
        "columns": [
            {"name": "id", "type": "long"},
            {"name": "price", "type": "decimal(9,2)"},
            {"name": "region", "type": "string"},
        ],
        "partition_columns": ["region"],
        "clustering_columns": [],
        "properties": {"delta.appendOnly": "false", "owner": "me"},
        "files": 2,
        "bytes": sum(Path(orders, name).stat().st_size for name in ("n.parquet", "s.parquet")),
        "rows": 3,
        "deletion_vectors": 1,
        "deleted_rows": 1,
        "tombstones": 0,
        "checkpoint": {
            "version": 0,
            "kind": "classic",
            "files": ["00000000000000000000.checkpoint.parquet"],
            "bytes": table.base_checkpoint.size,
        },
        "commits_since_checkpoint": 1,
        "kernels": dict(zip(("backend", "reason"), kernels.report(), strict=True)),
    }
    text = printed("inspect", orders, "--version", 0)
    assert "version:               0, committed 2026-01-01T00:00:00.000+00:00\n" in text
    assert "rows:                  2\n" in text
    assert "columns:               3: id long, price decimal(9,2), region string\n" in text
    assert "property owner:        me\n" in text


def test_inspect_does_not_guess_rows(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), stats="full"), builder.add(ids(2)))
    assert json_lines("inspect", builder.root)[0]["rows"] is None
    assert "rows:                  not recorded for every file\n" in printed("inspect", builder.root)


def test_inspect_where_the_log_starts_with_a_checkpoint(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), stats="full"))
    builder.checkpoint()
    (builder.log / "00000000000000000000.json").unlink()
    (facts,) = json_lines("inspect", builder.root)
    assert (facts["timestamp"], facts["rows"], facts["commits_since_checkpoint"]) == (None, 1, 0)
    assert "0, committed at a time that the log no longer records" in printed("inspect", builder.root)


def test_inspect_names_only_some_of_many_columns(builder: DeltaBuilder) -> None:
    builder.create(pa.schema([(f"c{number}", pa.int32()) for number in range(40)]))
    text = printed("inspect", builder.root)
    assert "c11 integer, and 28 more\n" in text
    assert "c12" not in text


@pytest.mark.one_backend
def test_schema(builder: DeltaBuilder) -> None:
    nested = pa.struct([("x.y", pa.int32()), ("list", pa.list_(pa.struct([("z", pa.date32())])))])
    schema = pa.schema([("s", nested), ("m", pa.map_(pa.string(), pa.float64())), ("list.p", pa.int8())])
    builder.create(schema, partition_by=["list.p"])
    lines = printed("schema", builder.root).splitlines()
    assert [line.split("\t") for line in lines] == [
        ["column", "type", "nullable", "partition", "comment"],
        ["s", "struct", "true", "false", "null"],
        ["s.`x.y`", "integer", "true", "false", "null"],
        ["s.list", "array<struct>", "true", "false", "null"],
        ["s.list.element", "struct", "true", "false", "null"],
        ["s.list.element.z", "date", "true", "false", "null"],
        ["m", "map<string, double>", "true", "false", "null"],
        ["`list.p`", "byte", "true", "true", "null"],
    ]


@pytest.mark.one_backend
def test_schema_has_what_the_table_keeps_of_columns(builder: DeltaBuilder) -> None:
    kept = {"comment": "an id", "other": {"deep": [1, None]}}
    builder.create([{"name": "id", "type": "long", "nullable": False, "metadata": kept}])
    ((column,),) = json_lines("schema", builder.root)
    expected = {"column": "id", "type": "long", "nullable": False, "partition": False, "comment": "an id"}
    assert column == {**expected, "metadata": kept}


def test_history(orders: str) -> None:
    commits = json_lines("history", orders)
    assert [(commit["version"], commit["timestamp"]) for commit in commits] == [
        (1, "2026-01-01T00:00:01.000+00:00"),
        (0, "2026-01-01T00:00:00.000+00:00"),
    ]
    assert commits[0]["commitInfo"] == {"operation": "WRITE", "engineInfo": "e", "userName": "u"}
    assert [commit["version"] for commit in json_lines("history", orders, "--version", 0)] == [0]
    lines = printed("history", orders, "--limit", 1).splitlines()
    assert len(lines) == 2
    assert lines[1].split("\t")[2:] == ["WRITE", "null", "u", "e"]


@pytest.mark.parametrize("options", [[], ["--filter", "region = 'north'"], ["--stats", "--columns", "id"]])
def test_files_are_those_of_a_scan(orders: str, options: list[str]) -> None:
    condition = "region = 'north'" if "--filter" in options else None
    columns = ["id"] if "--columns" in options else None
    wanted = open_table(orders).scan(condition, columns).files(statistics="--stats" in options).to_pylist()
    for row in wanted:
        row["modification_time"] = row["modification_time"].strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    assert len(wanted) == (1 if condition else 2)
    assert json_lines("files", orders, *options) == wanted


def test_files_in_a_pipe_have_a_line_each(orders: str) -> None:
    lines = [line.split("\t") for line in printed("files", orders).splitlines()]
    assert lines[0] == open_table(orders).scan().files().column_names
    found = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    assert {row["file_path"]: row["partition"] for row in found} == {
        f"{orders}/n.parquet": '{"region": "north"}',
        f"{orders}/s.parquet": r'{"region": "so\tuth"}',
    }


def test_plan(orders: str) -> None:
    text = printed("plan", orders, "-f", "id > 2", "-c", "id")
    scan = open_table(orders).scan("id > 2", ["id"])
    assert text.rstrip("\n") == scan.explain()
    (plan,) = json_lines("plan", orders, "-f", "id > 3 and region <> 'north'")
    assert [(step["step"], step["files"]) for step in plan.pop("steps")] == [
        ("files", 2),
        ("partition values", 1),
        ("statistics", 1),
    ]
    assert plan == {
        "table": orders,
        "description": "version 1",
        "columns": ["id", "price"],
        "constants": ["region"],
        "filter": str(open_table(orders).scan("id > 3 and region <> 'north'").explanation().filter),
        "residual_files": 1,
        "deletion_vectors": 1,
        "deleted_rows": 1,
        "position_delete_files": 0,
        "equality_delete_files": 0,
        "files_with_delete_files": 0,
        "limit": None,
        "tasks": 1,
        "road": open_table(orders).scan().explanation().road,
        "partitions": None,
    }


def test_head(orders: str) -> None:
    assert len(json_lines("head", orders, "-n", "2")) == 2
    assert json_lines("head", orders, "-f", "region = 'north'") == [
        {"id": 1, "price": "0.25", "region": "north"},
        {"id": 2, "price": "0.50", "region": "north"},
    ]
    assert json_lines("head", orders, "-f", "id > 3", "-c", "price, `region`") == [
        {"price": "1.00", "region": "so\tuth"}
    ]
    assert printed("head", orders, "-n", "0") == "id\tprice\tregion\n"
    assert printed("head", orders, "-f", "id = 4") == "id\tprice\tregion\n4\t1.00\tso\\tuth\n"


def test_head_prints_ten_rows_unless_told(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(*range(20))))
    assert [row["id"] for row in json_lines("head", builder.root)] == list(range(10))
    assert len(printed("head", builder.root, "-n", 15).splitlines()) == 16


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_changes_beyond_the_first_are_mentioned(builder: DeltaBuilder, form: list[str]) -> None:
    builder.create(ID, builder.add(ids(*range(10))))
    names = 0 if form else 1
    whole = call("changes", builder.root, "--derived", *form)
    assert (len(whole.stdout.splitlines()), whole.stderr) == (10 + names, "")
    builder.commit(builder.add(ids(10)))
    cut = call("changes", builder.root, "--derived", *form)
    assert cut.exit_code == 0
    assert len(cut.stdout.splitlines()) == 10 + names
    assert cut.stderr == "These are the first 10 rows, and there are more; --limit N prints N of them.\n"
    # Who says how many rows are wanted is not told that there are others.
    for limit in (4, 11, 20):
        asked = call("changes", builder.root, "--derived", "--limit", limit, *form)
        assert (len(asked.stdout.splitlines()), asked.stderr) == (min(limit, 11) + names, "")


@pytest.mark.one_backend
def test_columns_are_separated_by_commas_outside_of_backticks(builder: DeltaBuilder) -> None:
    rows = pa.table({"a,b": [1], "c.d": [2], "e`f": [3], "g": [4]})
    builder.create(rows.schema, builder.add(rows))
    assert json_lines("head", builder.root, "-c", "`a,b`, `c.d`,`e``f`") == [{"a,b": 1, "c.d": 2, "e`f": 3}]


@pytest.mark.one_backend
def test_time_travel(orders: str) -> None:
    for option in (["--version", "0"], ["-v", "0"], ["--timestamp", "2026-01-01"], ["-t", "2026-01-01T01:00:00+01:00"]):
        assert [row["id"] for row in json_lines("head", orders, *option)] == [1, 2]
    assert call("head", orders, "--version", 0, "--timestamp", "2026-01-01").exit_code == 2


@pytest.mark.one_backend
def test_files_that_moved_are_found_by_the_map(builder: DeltaBuilder, tmp_path: Path) -> None:
    builder.add(ids(1), path=str(tmp_path / "new" / "f.parquet"))
    moved = builder.add(path="f.parquet", log_path=f"file://{tmp_path}/old/f.parquet")
    builder.create(ID, moved)
    assert call("head", builder.root).exit_code == 7
    (row,) = json_lines("head", builder.root, "--location-map", f"{tmp_path}/old={tmp_path}/new")
    assert row == {"id": 1}


@pytest.mark.one_backend
def test_storage_options_reach_the_store() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"http://127.0.0.1:{server.getsockname()[1]}"
    options = ["anon=true", "allow_http=true", "max_retries=0", f"s3.endpoint={closed}"]
    ended = call("inspect", "s3://bucket/t", *(part for option in options for part in ("-o", option)))
    assert ended.exit_code == 8
    assert closed in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_table_of_another_engine(conformance: Path) -> None:
    """Has column mapping, partitions, deletion vectors and a checkpoint."""
    name = "golden--dv-with-columnmapping"
    expected = json.loads((conformance / "index.json").read_text("utf-8"))[name]
    path, state = conformance / "delta" / name, expected["state"]
    (facts,) = json_lines("inspect", path)
    for key in ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"):
        found = facts["protocol"][key]
        assert (sorted(found) if isinstance(found, list) else found) == state[key]
    assert (facts["version"], facts["files"], facts["rows"]) == (state["version"], state["files"], expected["rows"])
    assert facts["partition_columns"] == state["partitionColumns"]
    assert [[column["name"], column["type"]] for column in facts["columns"]] == expected["columns"]
    files = json_lines("files", path)
    assert sum(row["deletion_vector"] is not None for row in files) == facts["deletion_vectors"] == 2
    rows = json_lines("head", path, "-n", 1000)
    assert len(rows) == expected["rows"]
    assert list(rows[0]) == [column for column, _ in expected["columns"]]
    old = json_lines("inspect", path, "--version", 0)[0]
    assert (old["files"], old["bytes"]) == (expected["versions"]["0"]["files"], expected["versions"]["0"]["bytes"])


def test_count_and_changes(orders: str) -> None:
    assert printed("count", orders) == "3\n"
    assert json_lines("count", orders, "--filter", "id > 2") == [{"rows": 1}]
    changed = json_lines("changes", orders, "--derived", "--from", "1", "--columns", "id,_change_type")
    assert changed == [{"id": 4, "_change_type": "insert"}]
    assert len(json_lines("changes", orders, "--derived", "--to", "2026-01-01 00:00:00.5")) == 2
    refused = call("changes", orders)
    assert refused.exit_code == 4
    assert "were not recorded" in refused.stderr
    for name in ("chnages", "heads"):
        assert "Did you mean" in call(name, orders).stderr
