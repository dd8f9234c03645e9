"""Large or optional packages are imported when they are needed, and not before."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from tests.support.delta_builder import DeltaBuilder
from tests.support.iceberg_builder import IcebergBuilder

pytestmark = pytest.mark.one_backend

_OPTIONAL = {
    "click",
    "duckdb",
    "obstore",
    "opentelemetry",
    "polars",
    "pyspark",
    "rich",
    "sqlalchemy",
    "sqlglot",
    "urllib3",
    "yaml",
}
_LOADED = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"


def _loaded(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after running some code."""
    command = [sys.executable, "-c", code + _LOADED]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(finished.stdout.splitlines()[-1]))


@pytest.fixture(params=["delta", "iceberg"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table of three rows in each format."""
    root = tmp_path / "t"
    rows = [{"id": number} for number in range(3)]
    if request.param == "iceberg":
        iceberg = IcebergBuilder(root, {"id": "long"})
        iceberg.commit(iceberg.data(rows))
    else:
        import pyarrow as pa

        table = pa.Table.from_pylist(rows)
        delta = DeltaBuilder(root)
        delta.create(table.schema, delta.add(table, stats="full"))
    return root


def _scan(place: Path, condition: str) -> str:
    return (
        "import deltaberg\n"
        f"table = deltaberg.open_table({str(place)!r})\n"
        f"rows = table.scan({condition}, ['id']).to_arrow().num_rows\n"
        "assert rows == 2, rows"
    )


def test_the_bare_import_loads_nothing_but_the_package() -> None:
    assert not _loaded("import deltaberg") & {*_OPTIONAL, "numpy", "pandas", "pyarrow"}


def test_a_scan_loads_no_optional_package_and_no_other_format(place: Path) -> None:
    found = _loaded(_scan(place, "deltaberg.col('id') > 0"))
    assert "deltaberg.files.formats.parquet" in found
    assert not found & {*_OPTIONAL, "deltaberg.files.formats.orc", "deltaberg.files.formats.avro_rows"}


def test_a_scan_loads_nothing_that_writes_or_computes(place: Path) -> None:
    found = _loaded(_scan(place, "deltaberg.col('id') > 0"))
    values = (f"expressions.{name}" for name in ("functions.function_table", "cast.casts", "build.parse", "time.zones"))
    folders = (*values, "files.write", "table.merge.join", "delta.change", "iceberg.change")
    assert not [name for name in found if name.startswith(tuple(f"deltaberg.{folder}" for folder in folders))]
    assert not found & {f"deltaberg.table.{name}" for name in ("maintain.compact", "change.target", "write.write")}


#: What people ask a table first. pyarrow would import pandas for the first value of Python's that it converts.
_FIRST_ANSWERS = """
import deltaberg
table = deltaberg.open_table({place!r})
assert table.head(2).num_rows == 2 and table.scan().count() == 6 and table.to_arrow().num_rows == 6
assert table.scan(columns=["id"], limit=1).to_arrow().num_rows == 1 and table.history()
str(table.scan("id > 3").explain())
for condition in {conditions!r}:
    assert table.scan(condition).to_arrow().num_rows == table.scan(condition).count() == 2, condition
assert table.scan(deltaberg.col("id") > 3).to_arrow().num_rows == table.scan([("id", ">", 3)]).count() == 2
"""
_CONDITIONS = (
    "id >= 4",
    "id = 2 OR id IN (5)",
    "id BETWEEN 1 AND 2",
    "id > 3.5",
    "name = 'n1' OR name LIKE 'n2%'",
    "name IS NOT NULL AND NOT id < 4",
    "day >= DATE '2024-01-02' AND id > 1",
)


@pytest.mark.parametrize("name", ["delta", "iceberg"])
@pytest.mark.parametrize("partition_by", [[], ["day"]], ids=["whole", "partitioned"])
def test_first_answers_load_no_pandas(
    name: Literal["delta", "iceberg"], partition_by: list[str], tmp_path: Path
) -> None:
    import pyarrow as pa

    import deltaberg

    days = pa.array([dt.date(2024, 1, 1 + number % 2) for number in range(6)])
    rows = pa.table({"id": range(6), "name": [f"n{number}" for number in range(6)], "day": days})
    deltaberg.write_table(tmp_path / "t", rows, format=name, partition_by=partition_by)
    assert "pandas" not in _loaded(_FIRST_ANSWERS.format(place=str(tmp_path / "t"), conditions=_CONDITIONS))


@pytest.mark.parametrize(("condition", "parsers"), [("id > 0", set()), ("abs(id) > 0", {"sqlglot"})])
def test_sql_text_loads_its_parser_alone_and_only_where_it_is_not_plain(
    place: Path, condition: str, parsers: set[str]
) -> None:
    assert _loaded(_scan(place, repr(condition))) & _OPTIONAL == parsers


def test_spark_says_what_it_needs() -> None:
    code = (
        "import sys\nsys.modules['pyspark'] = None\nimport deltaberg\n"
        "try:\n    deltaberg.spark.register(None)\n"
        "except deltaberg.errors.MissingDependencyError as error:\n    assert 'deltaberg[spark]' in error.hint"
    )
    assert "deltaberg.spark" not in _loaded(code)


def test_the_help_of_the_command_loads_no_pyarrow() -> None:
    code = (
        "import sys\nsys.argv = ['deltaberg', '--help']\nfrom deltaberg.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code"
    )
    found = _loaded(code)
    assert "click" in found
    assert not found & {"pyarrow", "pandas", "pyspark", "sqlglot"}


def test_a_worker_of_spark_that_reads_loads_nothing_that_plans_or_writes(place: Path, tmp_path: Path) -> None:
    """What a Data Source sends to an executor is unpickled there, in a process that has imported nothing of ours."""
    name = "delta" if (place / "_delta_log").is_dir() else "iceberg"
    sent = tmp_path / "sent"
    code = (
        "import pickle, sys\n"
        "from pyspark.sql.datasource import GreaterThan\n"
        "from deltaberg.spark.source.datasource import PUSHDOWN_DATA_SOURCES\n"
        f"(kind,) = (kind for kind in PUSHDOWN_DATA_SOURCES if kind.name() == {name!r})\n"
        f"source = kind({{'path': {str(place)!r}}})\n"
        "reader = source.reader(source.schema())\n"
        "assert not list(reader.pushFilters([GreaterThan(('id',), 0)]))\n"
        "reader = pickle.loads(pickle.dumps(reader))\n"
        f"open({str(sent)!r}, 'wb').write(pickle.dumps((reader, reader.partitions())))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    loaded = _loaded(
        "import pickle\n"
        f"reader, partitions = pickle.load(open({str(sent)!r}, 'rb'))\n"
        "rows = sum(batch.num_rows for partition in partitions for batch in reader.read(partition))\n"
        "assert rows == 2, rows"
    )
    ours = {module for module in loaded if module.startswith("deltaberg.")}
    rooms = ("api", "delta", "iceberg", "catalogs", "files.write", "table.write", "table.change", "table.transaction")
    # A store both reads and writes; what it needs to write, and what buckets need, stands in modules of its own.
    stores = (f"storage.{name}" for name in ("atomic", "deletion", "probe", "upload", "remote", "clients", "answers"))
    assert not {
        module for module in ours if module.startswith(tuple(f"deltaberg.{room}" for room in (*rooms, *stores)))
    }
    assert len(ours) < 114
