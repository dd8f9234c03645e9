"""Rows that are written to data files: what the files hold, and what is said of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.errors import ConstraintViolationError, StorageError
from deltaberg.schema.types import Field, List, Map, Primitive, Struct
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from deltaberg.table.write.spec import WriteSpec, partition_columns
from deltaberg.table.write.write import write_files

pytestmark = pytest.mark.one_backend

_LONG, _DOUBLE, _STRING = Primitive("long"), Primitive("double"), Primitive("string")


def written(rows: Any, spec: WriteSpec, root: Path) -> pa.Table:
    place = parse_location(str(root))
    return write_files(rows, spec, open_store(place), place.path)


def stored(files: pa.Table, root: Path) -> list[list[dict[str, Any]]]:
    """Return the rows of each file."""
    return [pq.ParquetFile(root / path).read().to_pylist() for path in files["path"].to_pylist()]


def test_files_hold_the_rows_and_are_described(tmp_path: Path) -> None:
    inner = Struct((Field("x", _LONG), Field("nothing", Primitive("void"))))
    schema = Struct(
        (
            Field("id", _LONG, nullable=False, id=1, physical_name="col-1"),
            Field("v", _DOUBLE),
            Field("s", inner),
            Field("l", List(Field("element", _STRING))),
            Field("m", Map(Field("key", _STRING, nullable=False), Field("value", _LONG))),
        )
    )
    rows = pa.table(
        {
            "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int16())),
            "ID": [1, 2, 3],
            "v": [math.nan, -0.0, None],
            "s": [{"x": 1}, None, {"x": None}],
            "l": [["a", None], None, []],
        }
    )
    files = written(rows, WriteSpec(schema, required=True), tmp_path)
    (found,) = stored(files, tmp_path)
    assert math.isnan(found[0].pop("v"))
    assert found == [
        {"col-1": 1, "s": {"x": 1}, "l": ["a", None], "m": [("k", 1)]},
        {"col-1": 2, "v": -0.0, "s": None, "l": None, "m": None},
        {"col-1": 3, "v": None, "s": {"x": None}, "l": [], "m": []},
    ]
    (said,) = files.to_pylist()
    assert said["size"] == (tmp_path / said["path"]).stat().st_size
    assert said["record_count"] == 3
    assert said["lower"] == {"0": 1, "1": -0.0, "2": 1}
    assert math.copysign(1, said["lower"]["1"]) == -1
    assert said["upper"] == {"0": 3, "1": 0.0, "2": 1}
    assert said["null_count"] == {"0": 0, "1": 1, "2": 2, "3": 3, "4": 1, "5": 1}
    assert said["nan_count"] == {"1": 1}
    footer = pq.ParquetFile(tmp_path / said["path"])
    assert footer.schema.to_arrow_schema().field("col-1").nullable is False
    assert footer.schema.to_arrow_schema().field("col-1").metadata == {b"PARQUET:field_id": b"1"}


def test_rows_of_a_partition_keep_their_order(tmp_path: Path) -> None:
    schema = Struct((Field("p", _STRING), Field("n", _LONG)))
    values = ["b", None, "a/../b", "b", "", "a/../b", None]
    rows = pa.table({"p": values, "n": range(7)})
    files = written(rows, WriteSpec(schema, partition_columns(schema, ["p"])), tmp_path)
    found = zip(files["partition"].to_pylist(), stored(files, tmp_path), strict=True)
    assert {part["p"]: [row["n"] for row in rows] for part, rows in found} == {
        "b": [0, 3],
        None: [1, 6],
        "a/../b": [2, 5],
        "": [4],
    }


@pytest.mark.parametrize("order", ["sorted", "random"])
def test_many_partitions(tmp_path: Path, order: str) -> None:
    schema = Struct((Field("p", _LONG), Field("n", _LONG)))
    numbers = [row * 7919 % 1000 for row in range(4000)]
    if order == "sorted":
        numbers.sort()
    rows = pa.table({"p": [number % 100 if order == "random" else number // 10 for number in numbers], "n": numbers})
    spec = WriteSpec(schema, partition_columns(schema, ["p"]), open_files=3, memory=9_000)
    files = written(pa.Table.from_batches(rows.to_batches(max_chunksize=64)), spec, tmp_path)
    rows_of: dict[int, list[int]] = {}
    for part, kept in zip(files["partition"].to_pylist(), stored(files, tmp_path), strict=True):
        rows_of.setdefault(part["p"], []).extend(row["n"] for row in kept)
    wanted: dict[int, list[int]] = {}
    for row in rows.to_pylist():
        wanted.setdefault(row["p"], []).append(row["n"])
    assert rows_of == wanted
    assert len(files) == 100


def test_no_rows_make_no_files(tmp_path: Path) -> None:
    files = written(pa.table({"n": pa.array([], pa.int64())}), WriteSpec(Struct((Field("n", _LONG),))), tmp_path)
    assert len(files) == 0
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    schema = Struct((Field("p", _LONG), Field("n", _LONG, nullable=False)))
    good = pa.record_batch({"p": pa.array([1, 2]), "n": pa.array([1, 2])})
    bad = pa.record_batch({"p": pa.array([3]), "n": pa.array([None], pa.int64())})
    spec = WriteSpec(schema, partition_columns(schema, ["p"]))
    with pytest.raises(ConstraintViolationError, match=r"must not be null has 1 null .*column: n"):
        written(pa.Table.from_batches([good, bad]), spec, tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.req("DL-FILE-07")
def test_a_file_is_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = WriteSpec(Struct((Field("n", _LONG),)))
    rows = pa.table({"n": [1]})
    names = {path for _ in range(100) for path in written(rows, spec, tmp_path)["path"].to_pylist()}
    assert len(names) == 100
    (taken, *_) = names
    before = (tmp_path / taken).read_bytes()
    monkeypatch.setattr("deltaberg.table.write.write.file_place", lambda *_args: (taken, True))
    with pytest.raises(StorageError, match="never overwritten"):
        written(pa.table({"n": [2]}), spec, tmp_path)
    assert (tmp_path / taken).read_bytes() == before
