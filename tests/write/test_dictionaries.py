"""Dictionaries: columns whose values repeat have one, and others do not."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.files.write.write_parquet import ParquetOptions
from deltaberg.schema.types import Field, List, Map, Primitive, Struct
from deltaberg.storage.local import LocalStorage
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.write import write_files

pytestmark = pytest.mark.one_backend

_SCHEMA = Struct(
    (
        Field("id", Primitive("long")),
        Field("v", Primitive("double")),
        Field("few", Primitive("string")),
        Field("none", Primitive("integer")),
        Field("s", Struct((Field("id", Primitive("long")),))),
    )
)


def _rows(count: int) -> pa.Table:
    rng = random.Random(1)
    numbers = pa.array(range(count), pa.int64())
    return pa.table(
        {
            "id": numbers,
            "v": [rng.random() for _ in range(count)],
            "few": [f"name {number % 5000}" for number in range(count)],
            "none": pa.nulls(count, pa.int32()),
            "s": pa.StructArray.from_arrays([numbers], names=["id"]),
        }
    )


def _with_dictionary(folder: Path, rows: pa.Table, options: ParquetOptions) -> set[str]:
    files = write_files(rows, WriteSpec(_SCHEMA, parquet=options), LocalStorage(), str(folder))
    (path,) = files["path"].to_pylist()
    assert pq.read_table(folder / path).equals(rows)
    return _dictionaries(folder / path)


def _dictionaries(path: Path) -> set[str]:
    """Return the paths of the columns of a file that have a dictionary."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    return {column.path_in_schema for column in columns if column.has_dictionary_page}


def test_columns_whose_values_do_not_repeat_have_no_dictionary(tmp_path: Path) -> None:
    assert _with_dictionary(tmp_path, _rows(30_000), ParquetOptions()) == {"few", "none", "s.id"}


def test_small_files_have_dictionaries(tmp_path: Path) -> None:
    assert _with_dictionary(tmp_path, _rows(1000), ParquetOptions()) == {"id", "v", "few", "none", "s.id"}


@pytest.mark.parametrize(("chosen", "expected"), [(False, set()), (["id", "s.id"], {"id", "s.id"})])
def test_the_caller_can_choose(tmp_path: Path, chosen: bool | list[str], expected: set[str]) -> None:
    assert _with_dictionary(tmp_path, _rows(2000), ParquetOptions(dictionary=chosen)) == expected


def test_columns_with_negative_zeros_have_no_dictionary(tmp_path: Path) -> None:
    """At any depth. Whole numbers beside them keep theirs."""
    inside = pa.struct([("y", pa.float32()), ("n", pa.int32())])
    schema = Struct(
        (
            Field("x", Primitive("double")),
            Field("z", Primitive("double")),
            Field("s", Struct((Field("y", Primitive("float")), Field("n", Primitive("integer"))))),
            Field("l", List(Field("element", Primitive("double")))),
            Field("m", Map(Field("key", Primitive("string")), Field("value", Primitive("double")))),
        )
    )
    rows = pa.table(
        {
            "x": [-0.0, 1.0, None],
            "z": [0.0, 1.0, None],
            "s": pa.array([{"y": 1.0, "n": 0}, {"y": -0.0, "n": 0}, None], inside),
            "l": [[1.0], [-0.0], None],
            "m": pa.array([[("k", -0.0)], [], None], pa.map_(pa.string(), pa.float64())),
        }
    )
    files = write_files(rows, WriteSpec(schema), LocalStorage(), str(tmp_path))
    (path,) = files["path"].to_pylist()
    assert pq.read_table(tmp_path / path).to_pylist() == rows.to_pylist()
    assert _dictionaries(tmp_path / path) == {"z", "s.n", "m.key_value.key"}


def test_a_negative_zero_that_comes_late_begins_a_file(tmp_path: Path) -> None:
    """Of each column at most one: a later file expects all that have come."""
    groups = [[1.0, 2.0], [0.0, 1.0], [-0.0, 1.0], [3.0, 1.0], [-0.0, 0.0]]
    rows = pa.table({"x": [number for group in groups for number in group]})
    options = ParquetOptions(row_group_size=1)
    schema = Struct((Field("x", Primitive("double")),))
    files = write_files(rows, WriteSpec(schema, parquet=options, memory=30), LocalStorage(), str(tmp_path))
    paths = files["path"].to_pylist()
    assert [_dictionaries(tmp_path / path) for path in paths] == [{"x"}, set()]
    found = [number for path in paths for number in pq.read_table(tmp_path / path)["x"].to_pylist()]
    assert list(map(str, found)) == list(map(str, rows["x"].to_pylist()))
    zeros = [[str(number) for number in pq.read_table(tmp_path / path)["x"].to_pylist()] for path in paths]
    assert "-0.0" not in zeros[0]
