"""Whatever is written is read back equal by other engines, and statistics are those of the values."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from deltaberg.files.write.write_parquet import ParquetOptions
from deltaberg.files.write.written import leaf_paths
from deltaberg.schema.types import Field, List, Map, Primitive, Struct
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.write import write_files
from tests.support.effort import unhurried
from tests.write.rows_of_types import Rows, rows_of_types, table_of

pytestmark = pytest.mark.one_backend


def shown(value: Any) -> Any:
    """Return a value in a form that all engines share, and in which NaN equals itself and -0.0 differs from 0.0."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {name: shown(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return {"key": shown(value[0]), "value": shown(value[1])}
    return [shown(part) for part in value] if isinstance(value, list) else value


def by_pyarrow(path: Path) -> pa.Table:
    return pq.ParquetFile(path).read()


def by_polars(path: Path) -> pa.Table:
    return pl.read_parquet(path, hive_partitioning=False).to_arrow()


def by_duckdb(path: Path) -> pa.Table:
    with duckdb.connect() as connection:
        query = "select * from read_parquet($path, hive_partitioning = false)"
        return connection.sql(query, params={"path": str(path)}).to_arrow_table()


@pytest.mark.parametrize("read", [by_pyarrow, by_polars, by_duckdb])
@given(rows=rows_of_types())
@unhurried(20)
def test_every_engine_reads_what_was_written(read: Any, rows: Rows) -> None:
    schema, values = rows
    expected = [shown(row) for row in values]
    for required in (False, True):
        with tempfile.TemporaryDirectory() as root:
            spec = WriteSpec(schema, required=required)
            files = write_files(table_of(rows), spec, open_store(parse_location(root)), root)
            (path,) = files["path"].to_pylist()
            assert [shown(row) for row in read(Path(root, path)).to_pylist()] == expected


def leaf_values(rows: list[dict[str, Any]], path: tuple[Field, ...]) -> Iterator[Any]:
    for row in rows:
        value: Any = row
        for part in path:
            value = None if value is None else value[part.name]
        yield value


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def order(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def naive_statistics(schema: Struct, rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the statistics of rows, computed one value after the other."""
    statistics: dict[str, dict[str, Any]] = {"lower": {}, "upper": {}, "null_count": {}, "nan_count": {}}
    for number, path in leaf_paths(schema).items():
        values = list(leaf_values(rows, path))
        statistics["null_count"][str(number)] = values.count(None)
        if isinstance(path[-1].type, List | Map):
            continue
        known = [value for value in values if value is not None and not is_nan(value)]
        lower, upper = min(known, key=order, default=None), max(known, key=order, default=None)
        is_float = path[-1].type in (Primitive("float"), Primitive("double"))
        statistics["lower"][str(number)] = -0.0 if is_float and lower == 0 else lower
        statistics["upper"][str(number)] = 0.0 if is_float and upper == 0 else upper
        if is_float:
            statistics["nan_count"][str(number)] = sum(map(is_nan, values))
    return statistics


@pytest.mark.req("DL-STAT-06", "DL-STAT-07", half="writer")
@pytest.mark.parametrize("groups", [1, 5])
@given(rows=rows_of_types())
@unhurried(40)
def test_statistics_are_those_of_the_values(groups: int, rows: Rows) -> None:
    schema, values = rows
    table = table_of(rows)
    memory = 1 << 30 if groups == 1 else max(table.nbytes * 3 // groups, 1)
    # A dictionary would end a file before a -0.0 comes.
    parquet = ParquetOptions(row_group_size=1 << 30, dictionary=[])
    spec = WriteSpec(schema, parquet=parquet, target_size=1 << 40, memory=memory)
    with tempfile.TemporaryDirectory() as root:
        (described,) = write_files(table, spec, open_store(parse_location(root)), root).to_pylist()
        row_groups = pq.ParquetFile(Path(root, described["path"])).num_row_groups
    assert row_groups > 1 or groups == 1 or len(values) < 2 * groups or table.nbytes < 100
    assert described["record_count"] == len(values)
    for name, wanted in naive_statistics(schema, values).items():
        assert shown(described[name]) == shown(wanted)


def test_bounds_keep_what_python_has_no_type_for(tmp_path: Path) -> None:
    """Dates before the year 1, and instants that datetime cannot hold."""
    far = pa.table(
        {
            "d": pa.array([-(10**6), 5 * 10**6], pa.int32()).cast(pa.date32()),
            "t": pa.array([-(1 << 62), 1 << 62]).cast(pa.timestamp("us")),
        }
    )
    schema = Struct((Field("d", Primitive("date")), Field("t", Primitive("timestamp_ntz"))))
    files = write_files(far, WriteSpec(schema), open_store(parse_location(str(tmp_path))), str(tmp_path))
    for name, row in (("lower", 0), ("upper", 1)):
        bounds = files[name].combine_chunks()
        for index in range(2):
            assert bounds.field(index)[0].value == far.column(index)[row].value
    (path,) = files["path"].to_pylist()
    assert pq.ParquetFile(tmp_path / path).read().equals(far)


def test_long_bounds_are_cut_as_the_format_says(tmp_path: Path) -> None:
    schema = Struct((Field("s", Primitive("string")), Field("n", Primitive("long"))))
    rows = pa.table({"s": ["b" * 9, "a" * 9], "n": [1, 2]})
    spec = WriteSpec(schema, cut=lambda lower, upper: (lower[:3], upper[:3] + "~"))
    (found,) = write_files(rows, spec, open_store(parse_location(str(tmp_path))), str(tmp_path)).to_pylist()
    assert (found["lower"], found["upper"]) == ({"0": "aaa", "1": 1}, {"0": "bbb~", "1": 2})


def test_statistics_of_chosen_leaves(tmp_path: Path) -> None:
    schema = Struct(tuple(Field(name, Primitive("double")) for name in "abc"))
    rows = pa.table({name: [1.0] for name in "abc"})
    spec = WriteSpec(schema, statistics=frozenset({1}))
    (found,) = write_files(rows, spec, open_store(parse_location(str(tmp_path))), str(tmp_path)).to_pylist()
    assert found["lower"] == {"0": None, "1": 1.0, "2": None}
    assert found["null_count"] == {"0": None, "1": 0, "2": None}
    assert found["nan_count"] == {"0": None, "1": 0, "2": None}
