"""What is there twice is refused: columns of rows for one of the table, and keys of a map."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import convert_to_delta, create_table, open_table
from deltaberg.errors import ConstraintViolationError, InvalidPartitionValueError, SchemaError

pytestmark = pytest.mark.one_backend

_BOTH = pytest.mark.parametrize("format", ["delta", "iceberg"])


def _merges(table: Any, rows: pa.Table, **values: str) -> list[Callable[[], object]]:
    updating = table.merge(rows, "target.k = source.k").when_matched_update(values)
    inserting = table.merge(rows, "false").when_not_matched_insert(values)
    return [updating.execute, inserting.execute]


@_BOTH
@pytest.mark.parametrize("names", [["k", "K"], ["K", "k"], ["k", "k"]], ids="".join)
def test_two_columns_for_one(tmp_path: Path, format: Any, names: list[str]) -> None:
    table: Any = create_table(tmp_path / "t", {"k": pa.int64(), "v": pa.int64()}, format=format)
    table.append(pa.table({"k": [1], "v": [1]}))
    rows = pa.table([[1], [2], [3]], names=[*names, "v"])
    writes = [lambda: table.append(rows), lambda: table.upsert(rows, "k"), *_merges(table, rows, v="source.v")]
    for write in writes:
        with pytest.raises(SchemaError, match="the rows have two columns for 'k'") as caught:
            write()
        assert caught.value.context["column"] == "k"
    assert table.refresh().scan().to_arrow().to_pylist() == [{"k": 1, "v": 1}]


_PAIR = pa.struct([("a", pa.float64())])


@_BOTH
@pytest.mark.parametrize(
    ("keys", "doubled"),
    [
        (pa.array(["a", "b", "c", "b"]), "'b'"),
        (pa.array([1.5, 0.0, float("nan"), -0.0]), "0.0"),
        (pa.array([1.5, float("nan"), 2.5, float("nan")]), "nan"),
        (pa.array([1, 4_000_000, 2, 4_000_000], pa.int32()).cast(pa.date32()), "12921-08-18"),
        (pa.array([1, 1 << 59, 2, 1 << 59]).cast(pa.timestamp("us", "UTC")), "20237-"),
        (pa.array([{"a": 1.0}, {"a": None}, {"a": 2.0}, {"a": None}], _PAIR), r"\{'a': None\}"),
    ],
    ids=["text", "zero", "nan", "far date", "far time", "struct"],
)
def test_maps_with_a_key_twice(tmp_path: Path, format: Any, keys: pa.Array, doubled: str) -> None:
    """The same key in two maps is none: only the last map has one twice."""
    inside = pa.MapArray.from_arrays([0, 2, 2, 4], pa.concat_arrays([keys[1:3], keys[1:2], keys[3:]]), [1, 2, 3, 4])
    good = pa.MapArray.from_arrays([0, 1, 1, 4], pa.concat_arrays([keys[1:2], keys[:3]]), [1, 2, 3, 4])
    kind = pa.struct([("m", pa.map_(keys.type, pa.int64()))])
    table: Any = create_table(tmp_path / "t", {"k": pa.int64(), "s": pa.list_(kind)}, format=format)

    def rows(maps: pa.MapArray) -> pa.Table:
        structs = pa.StructArray.from_arrays([maps], fields=list(kind))
        return pa.table({"k": [1, 2], "s": pa.ListArray.from_arrays([0, 1, 3], structs)})

    table.append(rows(good))
    bad = rows(inside)
    writes: list[Callable[[], object]] = [
        lambda: table.append(bad),
        lambda: table.overwrite(bad),
        lambda: table.upsert(bad, "k"),
    ]
    for write in writes:
        with pytest.raises(ConstraintViolationError, match=f"a map has the key {doubled}.* twice") as caught:
            write()
        assert caught.value.context["column"] == "s.element.m"
    for write in _merges(table, bad, s="source.s"):
        with pytest.raises(ConstraintViolationError, match="twice"):
            write()
    assert table.refresh().scan().count() == 2


@pytest.mark.parametrize("hides", [False, True], ids=["anew", "hidden"])
@_BOTH
def test_maps_of_another_writer_with_a_key_twice(tmp_path: Path, format: Any, hides: bool) -> None:
    """Rows that are in the table already are read, moved and changed as they are; nobody else can mend them."""
    kind = pa.map_(pa.string(), pa.int64())
    maps = [[("a", 1), ("b", 2)], [("a", 1), ("a", 2)], [("a", 1)]]
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"k": [1, 2, 3], "m": pa.array(maps, kind)}), tmp_path / "t" / "rows.parquet")
    if format == "delta":
        convert_to_delta(tmp_path / "t")
        table: Any = open_table(tmp_path / "t", "delta")
        table.alter().set({"delta.enableDeletionVectors": str(hides).lower()}).commit()
    else:
        modes = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")} if hides else {}
        columns = {"k": pa.int64(), "m": kind}
        table = create_table(tmp_path / "i", columns, format="iceberg", properties={"format-version": "3", **modes})
        table.add_files([str(tmp_path / "t")])
    table.append(pa.table({"k": [4], "m": pa.array([[("z", 1)]], kind)}))
    table.compact()
    assert len(table.refresh().scan().files()) == 1
    table.update({"k": "k + 10"}, "k < 3")
    table.delete("k = 11")
    table.upsert(pa.table({"k": [3], "m": pa.array([[("y", 1)]], kind)}), "k")
    table.merge(pa.table({"k": [4]}), "target.k = source.k").when_matched_update({"k": "5"}).execute()
    found = table.refresh().scan().to_arrow().sort_by("k").to_pylist()
    assert found == [{"k": 3, "m": [("y", 1)]}, {"k": 5, "m": [("z", 1)]}, {"k": 12, "m": maps[1]}]
    with pytest.raises(ConstraintViolationError, match="a map has the key 'a' twice"):
        table.append(table.scan().to_arrow())
    table.update({"m": "map('a', 3L)"}, "k = 12")
    assert table.refresh().scan(filter="k = 12").to_arrow()["m"].to_pylist() == [[("a", 3)]]


def test_bytes_that_are_no_text_cannot_be_partition_values_of_delta(tmp_path: Path) -> None:
    rows = pa.table({"k": [1, 2], "b": [b"\xff\x00", b"a"]})
    table: Any = create_table(tmp_path / "d", rows.schema, partition_by="b")
    writes: list[Callable[[], object]] = [
        lambda: table.append(rows),
        lambda: table.overwrite(rows),
        lambda: table.upsert(rows, "k"),
    ]
    for write in writes:
        with pytest.raises(InvalidPartitionValueError, match=r"b'\\xff\\x00' are no text in UTF-8") as caught:
            write()
        assert (caught.value.context["column"], "function hex" in str(caught.value)) == ("b", True)
    assert not list(tmp_path.rglob("*.parquet"))
    table.append(rows.slice(1))
    iceberg: Any = create_table(tmp_path / "i", rows.schema, format="iceberg", partition_by="b")
    iceberg.append(rows)
    assert iceberg.scan(filter=[("b", "=", b"\xff\x00")]).to_arrow()["k"].to_pylist() == [1]
