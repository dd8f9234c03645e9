"""Files that iceberg-spark wrote: which have nulls in nested columns, and timestamps of all years in ORC files."""

from __future__ import annotations

from typing import Any

import pytest

from deltaberg import IcebergTable, open_table
from deltaberg.table.read.scan import bound_scan
from tests.support.judge import Judge

pytestmark = [
    pytest.mark.judges,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.one_backend,
    pytest.mark.timeout(600),
]

_NESTED = "s struct<n: int, t: struct<u: int>>, l array<int>, m map<string, int>, ls array<struct<x: int>>"
_FULL = "named_struct('n', 1, 't', named_struct('u', 1)), array(1), map('a', 1), array(named_struct('x', 1))"
_INNER = (
    "named_struct('n', CAST(NULL AS int), 't', named_struct('u', CAST(NULL AS int))), array(CAST(NULL AS int)), "
    "map('a', CAST(NULL AS int)), array(named_struct('x', CAST(NULL AS int)))"
)
_NULL = "NULL, NULL, NULL, NULL"
_EMPTY = "named_struct('n', 1, 't', NULL), array(), map(), array()"
#: The rows of each file.
_FILES = [[_FULL], [_INNER], [_NULL], [_EMPTY], [_FULL, _NULL], [_FULL, _INNER], [_INNER, _NULL]]
_COLUMNS = ["s", "s.n", "s.t", "s.t.u", "l", "m", "ls"]
_PLANS = """
api = spark._jvm.org.apache.iceberg
table = api.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
plans = {}
for column in columns:
    for method, text in (("isNull", "IS NULL"), ("notNull", "IS NOT NULL")):
        files = table.newScan().filter(getattr(api.expressions.Expressions, method)(column)).planFiles().iterator()
        plans[f"{column} {text}"] = []
        while files.hasNext():
            plans[f"{column} {text}"].append(str(files.next().file().path()).rsplit("/")[-1])
plans
"""


def _opened(judge: Judge, name: str) -> IcebergTable:
    return open_table(judge.folder / "ice" / "db" / name, "iceberg")


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_null_counts_of_nested_columns_rule_out_the_files_that_java_rules_out(judge: Judge, form: str) -> None:
    """Java counts no null in an ORC file for a field of a null struct, and so loses rows, which are found here."""
    name = f"nested_nulls_{form}"
    judge.sql(
        f"CREATE TABLE ice.db.{name} (id int, {_NESTED}) USING iceberg "
        f"TBLPROPERTIES ('write.format.default' = '{form}')"
    )
    for number, rows in enumerate(_FILES):
        values = " UNION ALL ".join(f"SELECT {number}, {row}" for row in rows)
        judge.sql(f"INSERT INTO ice.db.{name} SELECT /*+ COALESCE(1) */ * FROM ({values})")
    table = _opened(judge, name)
    plans = judge.run(_PLANS, name=f"ice.db.{name}", columns=_COLUMNS)
    rows = judge.sql(f"SELECT * FROM ice.db.{name}").to_pylist()
    for text, theirs in plans.items():
        scan = table.scan(text)
        ours = {path.rsplit("/")[-1] for path in bound_scan(scan).plan.files.column("path").to_pylist()}
        is_field_in_orc = form == "orc" and "." in text and "NOT" not in text
        assert ours > set(theirs) if is_field_in_orc else ours == set(theirs), text
        wanted = sorted(row["id"] for row in rows if (_value(row, text.split()[0]) is None) == ("NOT" not in text))
        assert sorted(scan.to_arrow().column("id").to_pylist()) == wanted, text


def _value(row: Any, path: str) -> Any:
    for part in path.split("."):
        row = None if row is None else row[part]
    return row


_STAMPS = [
    "0001-01-01 00:00:00",
    "0001-01-01 00:00:00.000001",
    "1582-10-04 12:00:00.123456",
    "1677-09-21 00:12:43.145224",
    "1815-12-01 00:00:00.001",
    "1969-12-31 23:59:59.5",
    "1969-12-31 23:59:58.999999",
    "1970-01-01 00:00:00.000001",
    "2262-04-11 23:47:16.854776",
    "9999-12-31 23:59:59.999999",
]


@pytest.mark.parametrize("codec", ["zlib", "zstd", "snappy", "lz4", "none"])
def test_orc_timestamps_of_all_years(judge: Judge, codec: str) -> None:
    name = f"orc_stamps_{codec}"
    judge.sql(
        f"CREATE TABLE ice.db.{name} (id int, z timestamp, w timestamp_ntz, s struct<a: timestamp_ntz, b: int>, "
        "l array<array<timestamp>>, m map<timestamp_ntz, array<struct<q: timestamp>>>) USING iceberg TBLPROPERTIES "
        f"('write.format.default' = 'orc', 'write.orc.compression-codec' = '{codec}')"
    )
    rows = [
        f"SELECT {number}, TIMESTAMP'{text}Z', TIMESTAMP_NTZ'{text}', "
        f"named_struct('a', TIMESTAMP_NTZ'{text}', 'b', 1), array(array(TIMESTAMP'{text}Z', NULL), NULL, array()), "
        f"map(TIMESTAMP_NTZ'{text}', array(named_struct('q', TIMESTAMP'{text}Z')))"
        for number, text in enumerate(_STAMPS)
    ]
    values = " UNION ALL ".join([*rows, "SELECT 99, NULL, NULL, NULL, NULL, NULL"])
    judge.sql(f"INSERT INTO ice.db.{name} SELECT /*+ COALESCE(1) */ * FROM ({values})")
    theirs = judge.sql(f"SELECT * FROM ice.db.{name} ORDER BY id")
    table = _opened(judge, name)
    ours = table.scan().to_arrow().sort_by("id")
    assert ours.to_pylist() == theirs.cast(ours.schema).to_pylist()
    assert table.scan("w < TIMESTAMP_NTZ'1600-01-01 00:00:00'").to_arrow().column("id").to_pylist() == [0, 1, 2]
    assert table.scan(f"z >= TIMESTAMP'{_STAMPS[-2]}Z'").to_arrow().column("id").to_pylist() == [8, 9]
