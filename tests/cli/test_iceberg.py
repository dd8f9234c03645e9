"""The command line on Iceberg tables."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import IcebergTable, create_table, load_catalog
from tests.support.command_line import call, json_lines, printed
from tests.support.iceberg_builder import IcebergBuilder, iceberg_fields

pytestmark = pytest.mark.one_backend


@pytest.fixture
def table(tmp_path: Path) -> IcebergBuilder:
    """Return three snapshots: two rows, a third one, one deleted; a tag at the second."""
    spec = [{"source-id": 2, "name": "name_trunc", "transform": "truncate[1]"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "name": "string"}, specs=[spec])
    first = builder.data([{"id": 1, "name": "a"}, {"id": 2, "name": "a"}], partition={"name_trunc": "a"})
    builder.commit(first)
    builder.commit(builder.data([{"id": 3, "name": "b"}], partition={"name_trunc": "b"}))
    builder.refs["old"] = {"snapshot-id": 1001, "type": "tag"}
    builder.commit(builder.position_deletes([(first, 0)]), operation="delete")
    return builder


def test_inspect(table: IcebergBuilder) -> None:
    facts = json.loads(call("inspect", str(table.root), "--json").stdout)
    assert (facts["format"], facts["format_version"], facts["snapshot_id"]) == ("iceberg", 2, 1002)
    assert facts["refs"]["old"] == {"type": "tag", "snapshot_id": 1001}
    assert facts["partition_fields"] == [{"name": "name_trunc", "transform": "truncate[1]", "source": "name"}]
    assert (facts["data"]["files"], facts["data"]["rows"], facts["position_deletes"]["rows"]) == (2, 3, 1)
    shown = call("inspect", str(table.root)).stdout
    assert "truncate[1](name)" in shown
    assert "old (tag)" in shown


def test_schema_and_history(table: IcebergBuilder) -> None:
    columns = [json.loads(call("schema", str(table.root), "--json").stdout)][0]
    assert [(column["column"], column["partition"]) for column in columns] == [("id", False), ("name", True)]
    lines = call("history", str(table.root), "--limit", "2", "--json").stdout.splitlines()
    assert [(row["snapshot_id"], row["refs"]) for row in map(json.loads, lines)] == [(1002, "main"), (1001, "old")]
    assert call("history", str(table.root)).stdout.splitlines()[0].split("\t")[:2] == ["snapshot_id", "timestamp"]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], [2, 3]),
        (["--snapshot-id", "1000"], [1, 2]),
        (["--ref", "old"], [1, 2, 3]),
        (["--filter", "name = 'b'"], [3]),
    ],
)
def test_rows(options: list[str], ids: list[int], table: IcebergBuilder) -> None:
    lines = call("head", str(table.root), "--json", *options).stdout.splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == ids


def test_a_table_that_was_moved(table: IcebergBuilder, tmp_path: Path) -> None:
    moved = table.root.rename(tmp_path / "moved")
    failed = call("head", str(moved))
    assert failed.exit_code != 0
    assert "(see --location-map)" in failed.stderr
    assert len(call("head", str(moved), "--location-map", "auto", "--json").stdout.splitlines()) == 2
    assert "recorded at" in call("inspect", str(moved), "--location-map", "auto").stdout


def test_options_of_the_other_format(table: IcebergBuilder) -> None:
    failed = call("head", str(table.root), "--version", "1")
    assert failed.exit_code != 0
    assert "version applies only to Delta tables; this is an Iceberg table; hint: use --snapshot-id" in failed.stderr


def test_uuids_are_written_in_groups(tmp_path: Path) -> None:
    """At every depth, and where they are bounds or partition values; other bytes are hexadecimal."""
    one = uuid.UUID("0123456f-89ab-cdef-0123-456789abcdef")
    nested = {"type": "struct", "fields": [{"id": 11, "name": "u", "required": False, "type": "uuid"}]}
    tags = {"type": "list", "element-id": 13, "element": "uuid", "element-required": False}
    pairs = {"type": "map", "key-id": 14, "key": "uuid", "value-id": 15, "value": "fixed[16]", "value-required": False}
    fields = iceberg_fields(u="uuid", other="fixed[16]")
    for number, (name, kind) in enumerate((("st", nested), ("tags", tags), ("m", pairs)), start=3):
        fields.append({"id": number, "name": name, "required": False, "type": kind})
    spec = [{"source-id": 1, "name": "part", "transform": "identity"}]
    builder = IcebergBuilder(tmp_path / "t", fields, specs=[spec])
    raw, text, plain = one.bytes, str(one), one.hex
    row = {"u": raw, "other": raw, "st": {"u": raw}, "tags": [raw, None], "m": [(raw, raw)]}
    metrics = {name: {1: raw, 2: raw, 11: raw} for name in ("lower_bounds", "upper_bounds")}
    builder.commit(builder.data([row], partition={"part": raw}, metrics=metrics))
    found = json.loads(call("head", str(builder.root), "--json", "--columns", "u,other,st,tags,m,_partition").stdout)
    assert found == {
        "u": text,
        "other": plain,
        "st": {"u": text},
        "tags": [text, None],
        "m": [{"key": text, "value": plain}],
        "_partition": {"part": text},
    }
    file = json.loads(call("files", str(builder.root), "--stats", "--json").stdout)
    assert file["partition"] == {"part": text}
    assert file["lower_bounds"] == {"u": text, "st.u": text}
    assert text in call("head", str(builder.root)).stdout


def test_tables_are_created_and_written(tmp_path: Path) -> None:
    root = tmp_path / "w"
    columns = ["--column", "id bigint not null", "--column", "kind string", "--table-format", "iceberg"]
    (created,) = json_lines(
        "create",
        root,
        *columns,
        "--partition-by",
        "truncate(1, kind)",
        "--sort-by",
        "id desc",
        "-p",
        "format-version=3",
    )
    assert created == {"location": str(root), "format_version": 3}
    rows, more = tmp_path / "rows.csv", tmp_path / "more.jsonl"
    rows.write_text("id,kind\n1,ab\n2,b\n")
    more.write_text('{"id": 3, "kind": "a", "n": 7}\n')
    (done,) = json_lines("append", root, rows)
    assert (done["operation"], done["added_rows"], done["added_files"]) == ("append", 2, 2)
    assert done["snapshot_id"] == json.loads(printed("inspect", root, "--json"))["snapshot_id"]
    printed("overwrite", root, more, "--format", "json", "--dynamic", "--merge-schema")
    assert _ids(root) == [2, 3]
    printed("alter", root, "create-branch", "audit")
    printed("append", root, rows, "--branch", "audit")
    assert _ids(root) == [2, 3]
    assert _ids(root, "--ref", "audit") == [1, 2, 2, 3]
    assert "removed" in printed("delete", root, "kind = 'b'")
    assert _ids(root) == [3]
    printed("append", root, rows)
    printed("append", root, rows)
    (planned,) = json_lines("rewrite-manifests", root, "--dry-run")
    (done,) = json_lines("rewrite-manifests", root, "--commit-property", "why=nightly")
    for said in (planned, done):
        assert (said["rewritten_manifests"], said["added_manifests"], said["entries"]) == (3, 1, 5)
    assert (planned["dry_run"], "dry_run" in done) == (True, False)
    printed("rewrite-manifests", root, "--all", "--spec-id", "0", "--target-size", "100", "--min-manifests", "2")
    (compacted,) = json_lines("compact", root)
    assert (compacted["commits"], compacted["conflicts"], compacted["added_files"]) == (1, 0, 2)
    (plan,) = json_lines("alter", root, "add", "note", "string", "--dry-run")
    assert (plan["format_version"], plan["columns"][-1], plan["refs"]) == (3, "note string", ["audit", "main"])
    of_columns = [["add", "note", "string"], ["drop", "note"], ["undrop", "note"], ["identify-by", "id"]]
    for change in [*of_columns, ["partition-by"], ["sort-by", "id"], ["create-tag", "v"], ["drop-tag", "v"]]:
        printed("alter", root, *change)
    printed("alter", root, "drop-branch", "audit")
    assert _ids(root) == [1, 1, 2, 2, 3]
    operations = [json.loads(line)["operation"] for line in printed("history", root, "--json").splitlines()]
    assert operations == [
        "replace",
        "replace",
        "replace",
        "append",
        "append",
        "delete",
        "append",
        "overwrite",
        "append",
    ]


def test_partitions_are_counted(tmp_path: Path) -> None:
    root = tmp_path / "w"
    table = create_table(root, {"id": pa.int64(), "kind": pa.string()}, format="iceberg", partition_by=["kind"])
    (none,) = json_lines("stats", root)
    assert none["snapshot_id"] is None
    table.append(pa.table({"id": [1, 2], "kind": ["a", "b"]}))
    (done,) = json_lines("stats", root)
    assert (done["snapshot_id"], done["partitions"], done["committed"]) == (table.snapshot_id, 2, True)
    (again,) = json_lines("stats", root, "--snapshot-id", table.snapshot_id)
    assert (again["path"], again["committed"]) == (done["path"], False)
    assert done["path"] in printed("stats", root)


def test_distinct_values_are_counted(tmp_path: Path) -> None:
    root = tmp_path / "w"
    table = create_table(root, {"id": pa.int64(), "kind": pa.string()}, format="iceberg")
    table.append(pa.table({"id": [1, 2, 3], "kind": ["a", "b", "a"]}))
    (one,) = json_lines("stats", root, "--columns", "kind")
    assert (one["ndv"], one["committed"]) == ({"kind": 2}, True)
    (both,) = json_lines("stats", root, "--distinct")
    assert (both["ndv"], both["committed"]) == ({"id": 3, "kind": 2}, True)
    assert both["path"] in printed("stats", root, "--distinct", "--snapshot-id", str(table.snapshot_id))


def test_rows_are_changed(tmp_path: Path) -> None:
    root, rows = tmp_path / "w", tmp_path / "rows.csv"
    create_table(root, {"id": pa.int64(), "kind": pa.string()}, format="iceberg")
    rows.write_text("id,kind\n1,a\n2,b\n3,c\n")
    printed("append", root, rows)
    printed("alter", root, "create-branch", "audit")
    (plan,) = json_lines("delete", root, "id % 2 = 1", "--dry-run")
    assert (plan["rows_to_delete"], plan["files_to_change"], _ids(root)) == (2, 1, [1, 2, 3])
    json_lines("delete", root, "id = 3", "--branch", "audit")
    (plan,) = json_lines("delete", root, "id % 2 = 1", "--dry-run", "--branch", "audit")
    assert plan["rows_to_delete"] == 1
    json_lines("append", root, rows, "--branch", "audit")
    (plan,) = json_lines("delete", root, "id % 2 = 1", "--dry-run", "--branch", "audit")
    assert plan["rows_to_delete"] == 3
    assert call("delete", root, "id = 1", "--dry-run", "--branch", "none").exit_code != 0
    printed("alter", root, "drop-branch", "audit")
    printed("alter", root, "create-branch", "audit")
    (done,) = json_lines("delete", root, "id = 1", "--strategy", "merge-on-read")
    assert (done["operation"], done["metrics"]["numDeletedRows"], _ids(root)) == ("delete", 1, [2, 3])
    (done,) = json_lines("update", root, "--set", "kind=upper(kind)", "--where", "id = 2", "--branch", "audit")
    assert (done["metrics"]["numUpdatedRows"], _ids(root, "--ref", "audit")) == (1, [1, 2, 3])
    (done,) = json_lines("upsert", root, rows, "--key", "id", "--no-update")
    assert (done["metrics"]["numTargetRowsInserted"], _ids(root)) == (1, [1, 2, 3])
    printed("merge", root, rows, "--on", "target.id = source.id", "--delete", "source.id > 1", "--insert")
    assert _ids(root) == [1]


def test_tables_go_back_and_forth(tmp_path: Path) -> None:
    root, rows = tmp_path / "w", tmp_path / "rows.csv"
    table = create_table(root, {"id": pa.int64()}, format="iceberg")
    rows.write_text("id\n1\n")
    first = table.append(pa.table({"id": [0]})).snapshot_id
    printed("append", root, rows)
    printed("alter", root, "create-branch", "side", "--snapshot-id", first, "--min-snapshots-to-keep", "2")
    printed("alter", root, "set-retention", "side", "--max-snapshot-age-ms", "5")
    (picked,) = json_lines("append", root, rows, "--branch", "side")
    (done,) = json_lines("cherry-pick", root, picked["snapshot_id"])
    assert (done["operation"], _ids(root)) == ("append", [0, 1, 1])
    printed("alter", root, "rollback-to-snapshot", first)
    assert _ids(root) == [0]
    printed("alter", root, "create-tag", "7", "--if-exists", "ignore")
    printed("alter", root, "set-current-snapshot", "side")
    assert _ids(root) == [0, 1]
    printed("alter", root, "set-current-snapshot", "7")
    assert _ids(root) == [0]
    table.refresh().append(pa.table({"id": [4]}), properties={"wap.id": "w"})
    printed("publish", root, "w")
    assert _ids(root) == [0, 4]
    printed("alter", root, "rename-branch", "side", "aside")
    found = table.refresh().refs["aside"]
    assert (found.min_snapshots_to_keep, found.max_snapshot_age_ms) == (2, 5)
    ended = call("alter", root, "rollback-to-snapshot", "x")
    assert (ended.exit_code, "is not the number of a snapshot" in ended.stderr) == (2, True)
    assert call("alter", root, "rollback-to-timestamp", "1970-01-02").exit_code == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["append", "{root}", "{root}/x.csv", "--message", "a"],
            "--message applies only to Delta tables; this is an Iceberg table",
        ),
        (
            ["update", "{root}", "--set", "id=1", "-m", "x"],
            "--message applies only to Delta tables; this is an Iceberg table",
        ),
        (["alter", "{root}", "cluster-by", "id"], "cluster-by applies only to Delta tables; this is an Iceberg table"),
        (["alter", "{delta}", "create-tag", "v"], "create-tag applies only to Iceberg tables; this is a Delta table"),
        (
            ["delete", "{delta}", "id = 1", "--branch", "b"],
            "--branch applies only to Iceberg tables; this is a Delta table",
        ),
        (["compact", "{root}", "-m", "x"], "--message applies only to Delta tables; this is an Iceberg table"),
    ],
)
def test_options_of_the_other_format_are_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    places = {"root": tmp_path / "i", "delta": tmp_path / "d"}
    create_table(places["root"], {"id": pa.int64()}, format="iceberg")
    create_table(places["delta"], {"id": pa.int64()})
    (places["root"] / "x.csv").write_text("id\n1\n")
    ended = call(*(text.format(**places) for text in arguments))
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert message in ended.stderr


def _ids(root: Path, *options: str) -> list[int]:
    return sorted(row["id"] for row in json_lines("head", root, *options))


def test_tables_of_a_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name and the properties of a catalog stand in for a location and the options of its store."""
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__URI", f"sqlite:///{tmp_path}/catalog.db")
    shop = ["--catalog", "shop", "-o", f"warehouse={tmp_path}/warehouse"]
    load_catalog("shop", warehouse=f"{tmp_path}/warehouse").create_namespace("sales")
    rows = tmp_path / "rows.json"
    rows.write_text('{"id": 1}\n{"id": 2}\n')
    assert json_lines("create", "sales.orders", *shop, "--column", "id long")[0]["format_version"] == 2
    assert json_lines("append", "sales.orders", rows, *shop)[0]["operation"] == "append"
    assert json_lines("delete", "sales.orders", "id = 1", *shop)[0]["operation"] == "overwrite"
    assert json_lines("head", "sales.orders", *shop) == [{"id": 2}]
    assert [row["operation"] for row in json_lines("metadata", "sales.orders", "snapshots", *shop)] == [
        "append",
        "overwrite",
    ]
    for command, message in (
        (["convert", "sales.orders"], "--catalog applies to Iceberg tables only"),
        (["checkpoint", "sales.orders"], "--catalog applies to Iceberg tables only"),
        (["count", "sales.orders", "--version", "1"], "--version applies to Delta tables only"),
        (["count", "sales.nothing"], "sales.nothing"),
        (["metadata", "sales.orders", "nothing"], "nothing"),
    ):
        ended = call(*command, *shop)
        assert ended.exit_code in (2, 3), ended.stderr
        assert message in ended.stderr


def test_tables_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__URI", f"sqlite:///{tmp_path}/catalog.db")
    shop = ["--catalog", "shop"]
    catalog = load_catalog("shop", warehouse=f"{tmp_path}/warehouse")
    catalog.create_namespace("sales")
    for name in ("orders", "months"):
        catalog.create_table(f"sales.{name}", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    orders, months = (tmp_path / "warehouse" / "sales" / name for name in ("orders", "months"))
    (planned,) = json_lines("drop-table", "sales.orders", *shop, "--purge", "--dry-run")
    assert (planned["dry_run"], planned["deleted_files"]) == (True, len(planned["files"]))
    assert {file["kind"] for file in planned["files"]} == {"data file", "manifest", "manifest list", "metadata"}
    asked = call("drop-table", "sales.orders", *shop, "--purge")
    assert (asked.exit_code, "pass --yes" in asked.stderr, catalog.table_exists("sales.orders")) == (2, True, True)
    (done,) = json_lines("drop-table", "sales.orders", *shop, "--purge", "--yes")
    assert (done["dry_run"], done["failed"], done["files"]) == (False, {}, planned["files"])
    assert not catalog.table_exists("sales.orders")
    assert not [path for path in orders.rglob("*") if path.is_file()]
    # What is lost of a table does not keep it in the catalog.
    for path in months.glob("metadata/*.metadata.json"):
        path.unlink()
    planned = call("drop-table", "sales.months", *shop, "--dry-run")
    assert planned.stdout == "sales.months: it would be dropped, and its files stay where they are\n"
    assert catalog.table_exists("sales.months")
    done = call("drop-table", "sales.months", *shop, "--yes")
    assert done.stdout == "sales.months: it was dropped, and its files stay where they are\n"
    assert not catalog.table_exists("sales.months")
    assert list(months.glob("data/*.parquet"))
    assert "sales.months" in call("drop-table", "sales.months", *shop, "--dry-run").stderr
    refused = call("drop-table", months, "--yes")
    assert (refused.exit_code, "pass --purge to delete them" in refused.stderr) == (2, True)


def test_directories_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    create_table("a.b", pa.schema([("id", pa.int64())]), format="iceberg").append(pa.table({"id": [1]}))
    (planned,) = json_lines("drop-table", "a.b", "--purge", "--dry-run")
    asked = call("drop-table", "a.b/", "--purge")
    assert (asked.exit_code, "pass --yes" in asked.stderr, len(planned["files"])) == (2, True, 6)
    file = IcebergTable("a.b").metadata_location
    assert "cannot be written to" in call("drop-table", file, "--purge", "--yes").stderr
    (done,) = json_lines("drop-table", "a.b", "--purge", "--yes")
    assert (done["failed"], done["kept"], done["files"]) == ({}, {}, planned["files"])
    assert not (tmp_path / "a.b").exists()
    assert "there is no Iceberg table" in call("drop-table", "d", "--purge", "--yes").stderr


def test_delta_tables_have_no_metadata_tables(tmp_path: Path) -> None:
    create_table(tmp_path / "t", pa.schema([("id", pa.int64())]))
    ended = call("metadata", str(tmp_path / "t"), "snapshots")
    assert ended.exit_code == 2
    assert "try inspect, history or files" in ended.stderr


def test_a_copy_plan_says_where_its_list_is(tmp_path: Path) -> None:
    root = tmp_path / "t"
    create_table(root, pa.schema([("id", pa.int64())]), format="iceberg").append(pa.table({"id": [1]}))
    (said,) = json_lines("copy-plan", root, root, "s3://backup/t", "--staging-location", tmp_path / "staged")
    assert said["metadata_location"] == "s3://backup/t/metadata/v2.metadata.json"
    assert said["file_list_location"] == f"{tmp_path}/staged/file-list"
    lines = Path(said["file_list_location"]).read_text().splitlines()
    assert (len(lines), said["files"], said["rewritten_manifests"], said["rewritten_delete_files"]) == (5, 5, 1, 0)
    later = ("--start-version", "v1.metadata.json", "--end-version", "v2.metadata.json")
    assert "4" in printed("copy-plan", root, root, tmp_path / "new", *later)
