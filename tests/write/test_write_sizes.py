"""Sizes: files and row groups by bytes, few open files, and memory that does not grow with the rows."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg import create_table
from deltaberg.files.write import written
from deltaberg.files.write.write_parquet import ParquetOptions
from deltaberg.schema.arrow import arrow_schema, as_array
from deltaberg.schema.types import Decimal, Field, Primitive, Struct
from deltaberg.storage.local import LocalStorage
from deltaberg.table.write.spec import WriteSpec, partition_columns
from deltaberg.table.write.write import write_files
from tests.support.effort import unhurried
from tests.write.rows_of_types import values_of

pytestmark = pytest.mark.one_backend

_LONG, _STRING, _DOUBLE = Primitive("long"), Primitive("string"), Primitive("double")
_SCHEMA = Struct((Field("p", _LONG), Field("n", _LONG), Field("v", _DOUBLE)))


class CountingStore(LocalStorage):
    """Counts the files that are open for writing."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self.open_now = 0
        self.most = 0

    def open_output(self, path: str) -> Any:
        output = super().open_output(path)
        with self._lock:
            self.open_now += 1
            self.most = max(self.most, self.open_now)
        close, store = output.close, self

        def closed() -> None:
            close()
            with store._lock:
                store.open_now -= 1

        output.close = closed  # type: ignore[method-assign]
        return output


def batches(rows: int, partition: Any, each: int = 10_000) -> Iterator[pa.RecordBatch]:
    rng = random.Random(1)
    for start in range(0, rows, each):
        numbers = range(start, min(start + each, rows))
        yield pa.record_batch(
            {
                "p": pa.array([partition(number) for number in numbers]),
                "n": pa.array(numbers, pa.int64()),
                "v": pa.array([rng.random() for _ in numbers]),
            }
        )


def reader(rows: int, partition: Any) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(arrow_schema(_SCHEMA), batches(rows, partition))


def test_files_have_the_target_size(tmp_path: Path) -> None:
    target = 400_000
    options = ParquetOptions(row_group_size=100_000)
    spec = WriteSpec(_SCHEMA, target_size=target, parquet=options)
    files = write_files(reader(300_000, lambda number: number % 7), spec, LocalStorage(), str(tmp_path))
    sizes = files["size"].to_pylist()
    assert len(sizes) > 5
    assert all(abs(size - target) <= 0.2 * target for size in sizes[:-1])
    for path in files["path"].to_pylist()[:-1]:
        metadata = pq.ParquetFile(tmp_path / path).metadata
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        sizes = [sum(group.column(leaf).total_compressed_size for leaf in range(3)) for group in groups]
        assert len(sizes) > 2
        assert max(sizes) < 130_000
    numbers = [n for path in files["path"].to_pylist() for n in pq.ParquetFile(tmp_path / path).read()["n"].to_pylist()]
    assert numbers == list(range(300_000))


def test_rows_in_the_order_of_their_partitions_need_one_file(tmp_path: Path) -> None:
    store = CountingStore()
    spec = WriteSpec(_SCHEMA, partition_columns(_SCHEMA, ["p"]), memory=30_000, open_files=50)
    files = write_files(reader(20_000, lambda number: number // 100), spec, store, str(tmp_path), threads=1)
    assert (len(files), store.most) == (200, 1)


def test_rows_in_random_order_open_few_files(tmp_path: Path) -> None:
    store = CountingStore()
    spool = tmp_path / "spool"
    spool.mkdir()
    spec = WriteSpec(
        _SCHEMA, partition_columns(_SCHEMA, ["p"]), memory=1 << 20, open_files=10, spool_directory=str(spool)
    )
    files = write_files(reader(60_000, lambda number: number * 7919 % 300), spec, store, str(tmp_path / "table"))
    assert len(files) == 300
    assert store.most <= 12
    assert not list(spool.iterdir())
    for path, part in zip(files["path"].to_pylist(), files["partition"].to_pylist(), strict=True):
        found = pq.ParquetFile(tmp_path / "table" / path).read()["n"].to_pylist()
        assert found == [number for number in range(60_000) if number * 7919 % 300 == part["p"]]


_MEASURED = """
import sys
import pyarrow as pa
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.storage.local import LocalStorage
from deltaberg.table.write.spec import WriteSpec, partition_columns
from deltaberg.table.write.write import write_files
from tests.support.memory import peak_memory

schema = Struct((Field("p", Primitive("long")), Field("n", Primitive("long"))))
count, root = int(sys.argv[1]), sys.argv[2]

def batches():
    for number in range(count):
        p = pa.array(range(50_000)).cast(pa.int64())
        yield pa.record_batch({"p": pa.compute.bit_wise_and(p, 255), "n": p})

spec = WriteSpec(schema, partition_columns(schema, ["p"]), memory=12 << 20, target_size=4 << 20, open_files=8)
rows = pa.RecordBatchReader.from_batches(arrow_schema(schema), batches())
files = write_files(rows, spec, LocalStorage(), root)
print(sum(files["record_count"].to_pylist()), peak_memory())
"""


@pytest.mark.full
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    peaks = []
    for count in (20, 200):
        command = [sys.executable, "-c", _MEASURED, str(count), str(tmp_path / str(count))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows, peak = map(int, done.stdout.split())
        assert rows == count * 50_000
        peaks.append(peak)
    # Ten times the rows: 160 MB of them.
    assert peaks[1] - peaks[0] < 60 << 20


_PARTITION_KINDS = [
    Field(name, kind)
    for name, kind in {
        "s": _STRING,
        "b": Primitive("binary"),
        "d": Primitive("date"),
        "t": Primitive("timestamp"),
        "f": _DOUBLE,
        "x": Decimal(10, 2),
        "l": _LONG,
        "o": Primitive("boolean"),
    }.items()
]
_HOSTILE = st.sampled_from(["", "..", "a/b", "%2F", "a b", "x=y", "é" * 300, "\x00", "null", "#?&+:", " ", "\\", "~"])


@pytest.mark.req("DL-FILE-01")
@given(data=st.data())
@unhurried(60)
def test_partitions_have_their_rows(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Partition values of any type divide the rows, and no value leads to a hidden directory or out of the table."""
    fields = data.draw(st.lists(st.sampled_from(_PARTITION_KINDS), min_size=1, max_size=2, unique_by=lambda f: f.name))
    schema = Struct((*fields, Field("n", _LONG), *([Field("_h", _STRING)] if data.draw(st.booleans()) else [])))
    names = [child.name for child in schema if child.name != "n"]
    pools = [
        data.draw(st.lists(values_of(field) | _HOSTILE if field.type == _STRING else values_of(field), min_size=1))
        for field in fields
    ]
    count = data.draw(st.integers(1, 40))
    rows = [
        {field.name: data.draw(st.sampled_from(pool)) for field, pool in zip(fields, pools, strict=True)} | {"n": n}
        for n in range(count)
    ]
    table = pa.Table.from_pylist([{"_h": "h", **row} for row in rows], arrow_schema(schema))
    size = data.draw(st.integers(1, count))
    root = tmp_path_factory.mktemp("table")
    spec = WriteSpec(schema, partition_columns(schema, names), open_files=data.draw(st.integers(1, 3)), memory=500)
    stream = pa.Table.from_batches(table.to_batches(max_chunksize=size), table.schema)
    files = write_files(stream, spec, LocalStorage(), str(root / "t"))
    rows_of: dict[str, list[int]] = {}
    for path, part in zip(files["path"].to_pylist(), files["partition"].to_pylist(), strict=True):
        assert not any(segment.startswith(("_", ".")) for segment in path.split("/"))
        numbers = pq.ParquetFile(root / "t" / path).read()["n"].to_pylist()
        rows_of.setdefault(repr(sorted(part.items())), []).extend(numbers)
    wanted: dict[str, list[int]] = {}
    for row in table.to_pylist():
        key = {name: math.nan if row[name] != row[name] else row[name] for name in names}
        wanted.setdefault(repr(sorted(key.items())), []).append(row["n"])
    assert rows_of == wanted
    assert [path.name for path in root.iterdir()] == ["t"]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_the_statistics_of_a_wide_table_are_taken_apart_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Any
) -> None:
    """The structs that describe a file have a field for each column, so that no column may look at all of them."""
    seen: list[int] = []

    def counted(column: Any) -> pa.Array:
        seen[-1] += 1
        return as_array(column)

    monkeypatch.setattr(written, "as_array", counted)
    for columns in (2, 40):
        rows = pa.table({f"c{number}": [1] for number in range(columns)})
        table: Any = create_table(tmp_path / str(columns), rows.schema, format=format)
        seen.append(0)
        table.append(rows)
    assert seen[0] == seen[1] > 0
