"""Dictionaries: columns whose values repeat have one, and others do not."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.files.write import ParquetOptions
from deltaberg.schema import Field, Primitive, Struct
from deltaberg.storage.local import LocalStorage
from deltaberg.table.write import WriteSpec, write_files

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
    group = pq.ParquetFile(folder / path).metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    return {column.path_in_schema for column in columns if column.has_dictionary_page}


def test_columns_whose_values_do_not_repeat_have_no_dictionary(tmp_path: Path) -> None:
    assert _with_dictionary(tmp_path, _rows(30_000), ParquetOptions()) == {"few", "none", "s.id"}


def test_small_files_have_dictionaries(tmp_path: Path) -> None:
    assert _with_dictionary(tmp_path, _rows(1000), ParquetOptions()) == {"id", "v", "few", "none", "s.id"}


@pytest.mark.parametrize(("chosen", "expected"), [(False, set()), (["id", "s.id"], {"id", "s.id"})])
def test_the_caller_can_choose(tmp_path: Path, chosen: bool | list[str], expected: set[str]) -> None:
    assert _with_dictionary(tmp_path, _rows(2000), ParquetOptions(dictionary=chosen)) == expected
