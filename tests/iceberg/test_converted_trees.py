"""Iceberg tables that are made of trees of files: in place, and beside them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from deltaberg import IcebergTable, convert_to_iceberg, create_table, load_catalog, write_table
from deltaberg.errors import (
    CorruptDataFileError,
    InvalidArgumentError,
    InvalidPartitionValueError,
    SchemaError,
    TableExistsError,
)
from tests.support.command_line import call, json_lines
from tests.support.rows import ids, ids_of

_DAYS = pa.schema([("day", pa.date32()), ("kind", pa.string())])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of two levels with files of two formats, of different columns, and what is none of it."""
    root = tmp_path / "tree"
    for number, folder in enumerate(("day=2026-01-01/kind=a%2Fb", "day=2026-01-02/kind=__HIVE_DEFAULT_PARTITION__")):
        (root / folder).mkdir(parents=True)
        rows = pa.table({"id": [2 * number, 2 * number + 1]})
        pq.write_table(rows if number else rows.append_column("x", [["p", None]]), root / folder / "a.parquet")
    orc.write_table(
        pa.table({"id": pa.array([7], pa.int64())}), root / "day=2026-01-02/kind=__HIVE_DEFAULT_PARTITION__/b.orc"
    )
    (root / "_SUCCESS").touch()
    return root


def _files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def _check_rows(table: Any) -> None:
    first, second = dt.date(2026, 1, 1), dt.date(2026, 1, 2)
    assert sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist()) == [
        (0, "p", first, "a/b"),
        (1, None, first, "a/b"),
        (2, None, second, None),
        (3, None, second, None),
        (7, None, second, None),
    ]
    assert [part.name for part in table.spec.fields] == ["day", "kind"]
    assert table.scan("day = date '2026-01-01'").files().num_rows == 1
    assert table.verify(depth="footers").is_clean


def test_in_place(tree: Path) -> None:
    before = _files(tree)
    done = convert_to_iceberg(tree, partition_by=_DAYS, properties={"format-version": "3"})
    assert (done.added_files, done.added_rows, done.committed) == (3, 5, True)
    table = IcebergTable(tree)
    _check_rows(table)
    assert (table.format_version, "gc.enabled" in table.properties) == (3, False)
    assert {path for path in _files(tree) if not path.startswith("metadata/")} == before
    with pytest.raises(TableExistsError, match="there is a table already"):
        convert_to_iceberg(tree, partition_by=_DAYS)
    assert not convert_to_iceberg(tree, partition_by=_DAYS, mode="ignore").committed
    # The table owns the files.
    table.delete("id < 2")
    assert table.expire_snapshots(older_than="9999-12-31").deleted_files
    assert "day=2026-01-01/kind=a%2Fb/a.parquet" not in _files(tree)
    assert ids_of(table) == [2, 3, 7]


@pytest.mark.parametrize("catalog", [None, "sql", "hadoop"])
def test_beside(tree: Path, tmp_path: Path, catalog: str | None) -> None:
    before = _files(tree)
    target: Any = tmp_path / "trial"
    where: dict[str, Any] = {}
    if catalog is not None:
        kept = {"sql": {"uri": f"sqlite:///{tmp_path / 'c.db'}"}, "hadoop": {}}[catalog]
        where["catalog"] = load_catalog("shop", type=catalog, warehouse=str(tmp_path / "w"), **kept)
        target = "db.trial"
        if catalog == "sql":
            where["catalog"].create_namespace("db")
    convert_to_iceberg(tree, target, partition_by=_DAYS, **where)
    table: Any = IcebergTable(target) if catalog is None else where["catalog"].load_table(target)
    _check_rows(table)
    assert table.properties["gc.enabled"] == "false"
    table.delete("id < 2")
    table.append(pa.table({"id": [9], "day": [dt.date(2026, 1, 3)]}))
    with pytest.raises(InvalidArgumentError, match=r"gc\.enabled"):
        table.expire_snapshots(older_than="9999-12-31")
    assert (ids_of(table), _files(tree)) == ([2, 3, 7, 9], before)
    if catalog == "sql":
        # The directory itself as a table of the catalog.
        convert_to_iceberg(tree, "db.whole", location=tree, partition_by=_DAYS, **where)
        whole = where["catalog"].load_table("db.whole")
        _check_rows(whole)
        assert (whole.location, "gc.enabled" in whole.properties) == (str(tree), False)
    elif catalog == "hadoop":
        with pytest.raises(InvalidArgumentError, match="in directories of their names"):
            convert_to_iceberg(tree, "db.whole", location=tree, partition_by=_DAYS, **where)


@pytest.mark.one_backend
def test_what_is_no_such_tree(tree: Path, tmp_path: Path) -> None:
    def refuse(error: type[Exception], match: str, source: Path = tree, **more: Any) -> None:
        before = _files(tmp_path)
        with pytest.raises(error, match=match):
            convert_to_iceberg(source, **{"partition_by": _DAYS, **more})
        assert _files(tmp_path) == before

    refuse(InvalidArgumentError, "names a partition column that is not expected", partition_by=None)
    refuse(InvalidArgumentError, "in no directory that gives", partition_by=_DAYS.append(pa.field("x", pa.string())))
    refuse(InvalidPartitionValueError, "2026", partition_by={"day": pa.int32(), "kind": pa.string()})
    refuse(InvalidArgumentError, "one of the two directories would be in the other", target=tree / "inside")
    refuse(InvalidArgumentError, "of a table in a catalog", location=tree)
    refuse(InvalidArgumentError, "the name of one of them", catalog="shop")
    write_table(tmp_path / "delta", ids(1))
    refuse(InvalidArgumentError, "is a Delta table", tmp_path / "delta", target=tmp_path / "new")
    create_table(str(tmp_path / "ice"), ids().schema, format="iceberg").append(ids(1))
    refuse(InvalidArgumentError, "is an Iceberg table", tmp_path / "ice", target=tmp_path / "new")
    pq.write_table(pa.table({"id": ["text"]}), tree / "day=2026-01-01/kind=a%2Fb/other.parquet")
    refuse(SchemaError, "in another file")
    (tree / "day=2026-01-01/kind=a%2Fb/other.parquet").write_bytes(b"PAR1 no such file PAR1")
    refuse(CorruptDataFileError, "Parquet")


@pytest.mark.one_backend
def test_at_the_command_line(tree: Path, tmp_path: Path) -> None:
    words = [
        "convert",
        str(tree),
        "--table-format",
        "iceberg",
        "--partition-by",
        "day date",
        "--partition-by",
        "kind string",
    ]
    (planned,) = json_lines(*words, "--dry-run")
    assert planned["tables_to_create"] == 1
    assert not [path for path in _files(tree) if path.startswith("metadata/")]
    (done,) = json_lines(*words, "--to", str(tmp_path / "trial"))
    assert done["added_files"] == 3
    _check_rows(IcebergTable(tmp_path / "trial"))
    (done,) = json_lines(*words)
    _check_rows(IcebergTable(tree))
    assert "apply to Delta tables only" in call(*words, "--no-stats").stderr
    assert "--to applies to Iceberg tables only" in call("convert", str(tree), "--to", "x").stderr


def test_directories_show_the_values_alone(tmp_path: Path) -> None:
    """Those below the source do; and a file that has the column itself would be read with values of its own."""
    root = tmp_path / "day=none" / "x=%FF" / "tree"
    for day in ("x", "z"):
        (root / f"day={day}").mkdir(parents=True)
        pq.write_table(ids(len(day)), root / f"day={day}" / "a.parquet")
    days = {"day": pa.string()}
    convert_to_iceberg(root, tmp_path / "t", partition_by=days)
    assert set(IcebergTable(tmp_path / "t").scan().to_arrow()["day"].to_pylist()) == {"x", "z"}
    pq.write_table(pa.table({"id": [1], "day": ["y"]}), root / "day=x" / "b.parquet")
    with pytest.raises(InvalidArgumentError, match="of which the name of its directory shows the value"):
        convert_to_iceberg(root, tmp_path / "u", partition_by=days)
    assert not (tmp_path / "u" / "metadata").exists() or not list((tmp_path / "u" / "metadata").iterdir())


def test_a_table_beside_its_files_never_deletes_them(tree: Path, tmp_path: Path) -> None:
    convert_to_iceberg(tree, tmp_path / "t", partition_by=_DAYS, properties={"gc.enabled": "true"})
    assert IcebergTable(tmp_path / "t").properties["gc.enabled"] == "false"


def test_the_place_of_the_new_table_is_no_delta_table(tree: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "t", ids(1))
    mode: Any
    for mode in ("error", "ignore"):
        with pytest.raises(InvalidArgumentError, match="a table of the format delta already"):
            convert_to_iceberg(tree, tmp_path / "t", partition_by=_DAYS, mode=mode)
