"""Tables that iceberg-spark writes are read as Spark reads them: all columns, older snapshots, branches and tags."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from tests.interop.iceberg_spark_tables import TABLES
from tests.support.canon import canonical_lines
from tests.support.filter_cases import check_filters
from tests.support.roads import Road
from tests.support.spark_session import REMOTE

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

_ROOT = Path(__file__).resolve().parents[2]
#: Those that are read through our Spark road as well; the others only on this machine.
_ON_SPARK = ["parquet_v2", "avro_v3", "orc_v2", "schema_v3", "spec_v2", "lineage", "metadata_columns", "defaults"]
_UNRESOLVED = "unresolved dependency"


class _Written:
    """What the other process left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.expected: dict[str, Any] = json.loads((folder / "expected.json").read_text("utf-8"))

    def location(self, name: str) -> Path:
        return self.folder / "warehouse" / "db" / name

    def rows(self, file: str) -> pa.Table:
        with pa.memory_map(str(self.folder / file)) as source:
            return pa.ipc.open_file(source).read_all()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> _Written:
    """The tables, written by Spark with the jar of Iceberg in a process of its own."""
    if shutil.which("java") is None:
        _missing("there is no java")
    folder = tmp_path_factory.mktemp("iceberg-spark")
    variables = {name: value for name, value in os.environ.items() if name != REMOTE}
    command = [sys.executable, "-m", "tests.interop.write_iceberg_tables", str(folder)]
    done = subprocess.run(command, cwd=_ROOT, env=variables, capture_output=True, text=True, check=False)
    if done.returncode and _UNRESOLVED in done.stdout + done.stderr:
        _missing("the jar of Iceberg is not there, and cannot be loaded")
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return _Written(folder)


def _missing(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _columns(name: str, expected: pa.Table) -> list[str] | None:
    return None if TABLES[name].select in ("*", "id, to_json(v) AS v") else expected.column_names


def _same(found: pa.Table, expected: pa.Table) -> None:
    assert found.schema.names == expected.schema.names
    assert canonical_lines(found) == canonical_lines(expected)


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_spark(written: _Written, name: str) -> None:
    expected = written.rows(written.expected[name]["current"])
    table = open_table(written.location(name), validate=True)
    scan = table.scan(columns=_columns(name, expected))
    _same(scan.to_arrow(), expected)
    assert len(expected) > 0
    assert table.scan().count() == sum(not row for row in expected.to_pydict().get("_deleted", [False] * len(expected)))


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.history])
def test_older_snapshots_branches_and_tags(written: _Written, name: str) -> None:
    snapshots, refs = written.expected[name]["snapshots"], written.expected[name]["refs"]
    assert len(snapshots) > 1
    for number, file in snapshots.items():
        expected = written.rows(file)
        past = open_table(written.location(name), snapshot_id=int(number))
        _same(past.scan(columns=_columns(name, expected)).to_arrow(), expected)
    for ref, file in refs.items():
        expected = written.rows(file)
        past = open_table(written.location(name), ref=ref)
        _same(past.scan(columns=_columns(name, expected)).to_arrow(), expected)


@pytest.mark.parametrize("name", [name for name in TABLES if name != "variants"])
def test_filters(written: _Written, name: str, rng: random.Random) -> None:
    check_filters(open_table(written.location(name)), rng, 10)


@pytest.mark.parametrize("name", _ON_SPARK)
def test_tables_of_spark_on_spark(written: _Written, name: str, spark: Any) -> None:
    expected = written.rows(written.expected[name]["current"])
    scan = open_table(written.location(name)).scan(columns=_columns(name, expected))
    _same(Road("spark", spark).table(scan), expected)


def test_the_tables_hold_what_they_are_for(written: _Written) -> None:
    """Spark wrote delete files and deletion vectors of every kind where the tables believe so."""
    files: set[tuple[int, str]] = set()
    deletes: set[tuple[int, str]] = set()
    for name, table in TABLES.items():
        opened = open_table(written.location(name))
        assert opened.format_version == (3 if name == "upgraded" else table.version)
        for content, found in (("data_files", files), ("delete_files", deletes)):
            found |= {
                (opened.format_version, kind.lower()) for kind in opened.inspect(content)["file_format"].to_pylist()
            }
    kinds = ("parquet", "avro", "orc")
    assert files == {(version, kind) for version in (1, 2, 3) for kind in kinds}
    assert deletes == {(2, kind) for kind in kinds} | {(3, "puffin")}
