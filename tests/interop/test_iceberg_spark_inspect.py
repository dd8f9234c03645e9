"""Metadata tables hold what iceberg-spark's hold, for a table that Spark wrote."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import IcebergTable, open_table
from deltaberg.choices import MetadataTable
from deltaberg.iceberg.inspect.tables import METADATA_TABLES
from tests.support.judge import Judge

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(600)]

_NAME = "metadata_tables"
_STATEMENTS = [
    (
        "CREATE TABLE {t} (id bigint, s string, d double, dec decimal(9,2), flag boolean, bin binary, "
        "day date, ts timestamp_ntz, tstz timestamp, st struct<a: int, `x.y`: string>, tags array<string>, "
        "m map<string, int>) USING iceberg PARTITIONED BY (s, month(day)) TBLPROPERTIES ('format-version' = '2', "
        "'write.delete.mode' = 'merge-on-read')"
    ),
    "INSERT INTO {t} {rows}",
    "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)",
    "ALTER TABLE {t} DROP PARTITION FIELD month(day)",
    "INSERT INTO {t} {rows}",
    "ALTER TABLE {t} ADD PARTITION FIELD truncate(2, dec)",
    "ALTER TABLE {t} ADD PARTITION FIELD days(ts)",
    "ALTER TABLE {t} ADD PARTITION FIELD hours(tstz)",
    "ALTER TABLE {t} ADD PARTITION FIELD flag",
    "ALTER TABLE {t} ADD PARTITION FIELD bin",
    "INSERT INTO {t} {rows}",
    "DELETE FROM {t} WHERE id = 3",
    "ALTER TABLE {t} CREATE TAG first_tag",
]
_ROWS = (
    "SELECT id, IF(id = 1, NULL, concat('v ', id % 2)) AS s, CAST(IF(id = 2, 'NaN', id / 4) AS double) AS d, "
    "CAST(id * 0.55 - 1 AS decimal(9,2)) AS dec, id % 2 = 0 AS flag, CAST('ab' AS binary) AS bin, "
    "date_add(DATE'1969-12-30', CAST(id AS int)) AS day, "
    "TIMESTAMP_NTZ'1969-12-31 22:59:59.5' + make_interval(0, 0, 0, 0, CAST(id AS int)) AS ts, "
    "TIMESTAMP'1969-12-31 22:30:00Z' + make_interval(0, 0, 0, 0, CAST(id AS int)) AS tstz, "
    "named_struct('a', CAST(id AS int), 'x.y', 'q') AS st, array('t', NULL) AS tags, map('k', 1) AS m FROM range(6)"
)
_WRITE = """
from pathlib import Path
from tests.interop.judged_rows import write_rows

for statement in statements:
    spark.sql(statement)
for table in tables:
    write_rows(spark.sql(f"SELECT * FROM {name}.{table}").toArrow(), Path(folder), f"{table}.arrow")
"""


@pytest.fixture(scope="module")
def written(judge: Judge) -> Path:
    """Return the folder of what Spark reads of its metadata tables."""
    folder = judge.folder / "iceberg-inspect"
    folder.mkdir()
    path = f"ice.db.{_NAME}"
    statements = [statement.replace("{t}", path).replace("{rows}", _ROWS) for statement in _STATEMENTS]
    judge.run(_WRITE, folder=str(folder), name=path, statements=statements, tables=list(METADATA_TABLES))
    return folder


@pytest.fixture(scope="module")
def table(judge: Judge, written: Path) -> IcebergTable:
    return open_table(judge.folder / "ice" / "db" / _NAME, "iceberg")


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_metadata_tables_of_spark(written: Path, table: IcebergTable, name: MetadataTable) -> None:
    with pa.memory_map(str(written / f"{name}.arrow")) as source:
        wanted = pa.ipc.open_file(source).read_all()
    found = table.inspect(name)
    assert sorted(found.column_names) == sorted(wanted.column_names)
    ours, theirs = (
        sorted((_plain(row) for row in one.select(wanted.column_names).to_pylist()), key=str) for one in (found, wanted)
    )
    for mine, spark in zip(ours, theirs, strict=True):
        assert mine == spark
    assert len(ours) > 0


_INSERT = "INSERT INTO {t} VALUES (1, 'a', DATE'2020-01-01'), (2, NULL, NULL)"
#: What is done to tables whose specs change.
_EVOLUTIONS: dict[str, list[str]] = {
    "never": ["CREATE TABLE {t} (id int, s string, d date) USING iceberg", _INSERT],
    "later": [
        "CREATE TABLE {t} (id int, s string, d date) USING iceberg",
        _INSERT,
        "ALTER TABLE {t} ADD PARTITION FIELD s",
        _INSERT,
        "ALTER TABLE {t} ADD PARTITION FIELD days(d)",
        _INSERT,
    ],
    "no_more": [
        "CREATE TABLE {t} (id int, s string, d date) USING iceberg PARTITIONED BY (s)",
        _INSERT,
        "ALTER TABLE {t} DROP PARTITION FIELD s",
        _INSERT,
    ],
    "others": [
        "CREATE TABLE {t} (id int, s string, d date) USING iceberg PARTITIONED BY (months(d))",
        _INSERT,
        "ALTER TABLE {t} REPLACE PARTITION FIELD months(d) WITH days(d)",
        _INSERT,
        "ALTER TABLE {t} REPLACE PARTITION FIELD days(d) WITH months(d)",
        _INSERT,
    ],
}


@pytest.mark.judges
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("case", _EVOLUTIONS)
def test_partitions_of_changed_specs(judge: Judge, case: str, version: int) -> None:
    name = f"specs_{case}_{version}"
    for statement in _EVOLUTIONS[case]:
        properties = f" TBLPROPERTIES ('format-version' = '{version}')" if statement.startswith("CREATE") else ""
        judge.sql(statement.replace("{t}", f"ice.db.{name}") + properties)
    table = open_table(judge.folder / "ice" / "db" / name, "iceberg")
    for kind in ("partitions", "files", "entries"):
        wanted, found = judge.sql(f"SELECT * FROM ice.db.{name}.{kind}"), table.inspect(kind)
        assert found.column_names == wanted.column_names, kind
        ours, theirs = (sorted((_plain(row) for row in one.to_pylist()), key=str) for one in (found, wanted))
        assert ours == theirs, kind
        assert ours


def _plain(value: Any) -> Any:
    """Return structs and maps without an order."""
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        plain = [_plain(child) for child in value]
        return sorted(plain) if plain and all(isinstance(child, tuple) for child in plain) else plain
    return value.astimezone(dt.timezone.utc) if isinstance(value, dt.datetime) and value.tzinfo else value
