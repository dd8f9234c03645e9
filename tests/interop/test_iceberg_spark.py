"""Tables that iceberg-spark writes are read as Spark reads them: all columns, older snapshots, branches and tags."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from tests.interop.iceberg_spark_tables import TABLES
from tests.interop.judged import Written, chosen_names, same
from tests.support.filter_cases import check_filters
from tests.support.judge import Judge
from tests.support.roads import Road

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(600)]

#: Those that are read through our Spark roads in every run.
_ON_SPARK = ["parquet_v2", "avro_v3", "orc_v2", "schema_v3", "spec_v2", "lineage", "metadata_columns", "defaults"]
#: Tables of which Spark's own reader does not give exactly the rows, and why.
BY_ARROW = {
    **{name: "it is not a Parquet file" for name, table in TABLES.items() if table.other_formats},
    **dict.fromkeys(
        ("schema_v2", "schema_v3"), "it is not a Parquet file|the column i is of type long, but int32 in the file"
    ),
    "schema_v1": "the column i is of type long, but int32 in the file",
    "metadata_columns": "only our reader makes the column _deleted",
    "defaults": "it is not a Parquet file|the column .* was added after the file was written, and has a default",
    "variants": "the column v is of type variant",
}
#: Tables compared in every run, also without --judges.
_ALWAYS = {*_ON_SPARK, "mixed_deletes", "refs", "upgraded", "variants", "transform_8", "transform_20", "transform_31"}
_CODE = "from tests.interop.write_iceberg_tables import write\nwrite(spark, folder, name)"


@pytest.fixture(scope="module")
def written(judge: Judge, request: pytest.FixtureRequest) -> Iterator[Written]:
    """The tables that the chosen tests name."""
    folder = judge.folder / "iceberg-rows"
    folder.mkdir()
    made = Written(judge, folder, _CODE, chosen_names(request))
    yield made
    made.wait()


def _named(*names: str, always: Collection[str] = _ALWAYS) -> list[Any]:
    """Return tables as parameters; those that are not in every run are marked."""
    return [pytest.param(name, marks=() if name in always else pytest.mark.judges) for name in names]


def _location(written: Written, name: str) -> Path:
    written.told(name)
    return written.folder.parent / "ice" / "db" / name


def _columns(name: str, expected: pa.Table) -> list[str] | None:
    return None if TABLES[name].select in ("*", "id, to_json(v) AS v") else expected.column_names


@pytest.mark.parametrize("name", _named(*TABLES))
def test_tables_of_spark(written: Written, name: str) -> None:
    expected = written.rows(written.told(name)["current"])
    table = open_table(_location(written, name), validate=True)
    scan = table.scan(columns=_columns(name, expected))
    same(scan.to_arrow(), expected)
    assert len(expected) > 0
    assert table.scan().count() == sum(not row for row in expected.to_pydict().get("_deleted", [False] * len(expected)))


@pytest.mark.parametrize("name", _named(*(name for name, table in TABLES.items() if table.history)))
def test_older_snapshots_branches_and_tags(written: Written, name: str) -> None:
    snapshots, refs = written.told(name)["snapshots"], written.told(name)["refs"]
    assert len(snapshots) > 1
    for number, file in snapshots.items():
        expected = written.rows(file)
        past = open_table(_location(written, name), snapshot_id=int(number))
        same(past.scan(columns=_columns(name, expected)).to_arrow(), expected)
    for ref, file in refs.items():
        expected = written.rows(file)
        past = open_table(_location(written, name), ref=ref)
        same(past.scan(columns=_columns(name, expected)).to_arrow(), expected)


@pytest.mark.parametrize("name", _named(*(name for name in TABLES if name != "variants")))
def test_filters(written: Written, name: str, rng: random.Random) -> None:
    check_filters(open_table(_location(written, name)), rng, 10)


@pytest.mark.parametrize("name", _named(*TABLES, always=_ON_SPARK))
def test_tables_of_spark_on_spark(written: Written, name: str, spark: Any) -> None:
    expected = written.rows(written.told(name)["current"])
    scan = open_table(_location(written, name)).scan(columns=_columns(name, expected))
    road = Road("spark", spark)
    same(road.table(scan), expected)
    road.assert_native(BY_ARROW.get(name))


@pytest.mark.judges
def test_the_tables_hold_what_they_are_for(written: Written) -> None:
    """Spark wrote delete files and deletion vectors of every kind where the tables believe so."""
    files: set[tuple[int, str]] = set()
    deletes: set[tuple[int, str]] = set()
    for name, table in TABLES.items():
        opened = open_table(_location(written, name), "iceberg")
        assert opened.format_version == (3 if name == "upgraded" else table.version)
        for listed, found in ((opened.inspect("data_files"), files), (opened.inspect("delete_files"), deletes)):
            found |= {(opened.format_version, kind.lower()) for kind in listed["file_format"].to_pylist()}
    kinds = ("parquet", "avro", "orc")
    assert files == {(version, kind) for version in (1, 2, 3) for kind in kinds}
    assert deletes == {(2, kind) for kind in kinds} | {(3, "puffin")}
