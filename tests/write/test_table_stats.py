"""Table statistics: sketches of columns, what the file and the metadata say, and when they are taken over."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import Decimal, Field, Fixed, IcebergTable, Primitive, Struct, create_table, kernels
from deltaberg.errors import ColumnNotFoundError, InvalidArgumentError, VersionNotFoundError
from deltaberg.iceberg.deletes.puffin import PuffinFile
from deltaberg.iceberg.maintain.statistics.sketches import sketch_columns
from deltaberg.schema.types import DataType
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from tests.support.below_verbs import begin

_COLUMNS = {"id": pa.int64(), "kind": pa.string(), "place": pa.struct([("city", pa.string())])}
_CITIES = [{"city": "x"}, None, {"city": "y"}]


def _table(root: Path, version: str = "2") -> IcebergTable:
    found: IcebergTable = create_table(root / "t", _COLUMNS, format="iceberg", properties={"format-version": version})
    found.append(pa.table({"id": [1, 2, None], "kind": ["a", "", "a"], "place": _CITIES}, pa.schema(_COLUMNS)))
    return found


def _blobs(path: str) -> dict[int, tuple[str, bytes]]:
    puffin = PuffinFile(parse_location(path), StoreSpec())
    assert puffin.properties["created-by"].startswith("deltaberg ")
    assert {(blob.type, blob.compression_codec) for blob in puffin.blobs} == {("apache-datasketches-theta-v1", "zstd")}
    return {blob.fields[0]: (blob.properties["ndv"], puffin.read(blob)) for blob in puffin.blobs}


def _sketch(values: list[Any]) -> bytes:
    return kernels.update_sketch(b"", pa.array(values, pa.binary()))


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_what_a_file_says(tmp_path: Path, version: str) -> None:
    table = _table(tmp_path, version)
    done = table.compute_table_stats()
    assert done is not None
    assert (done.snapshot_id, done.ndv) == (table.snapshot_id, {"id": 2, "kind": 1})
    assert _blobs(done.path) == {
        1: ("2", _sketch([struct.pack("<q", 1), struct.pack("<q", 2)])),
        2: ("1", _sketch([b"a"])),
    }
    (entry,) = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())["statistics"]
    assert table.snapshot is not None
    sequence = table.snapshot.sequence_number
    facts = {"type": "apache-datasketches-theta-v1", "snapshot-id": done.snapshot_id, "sequence-number": sequence}
    assert entry.pop("blob-metadata") == [
        {**facts, "fields": [number], "properties": {"ndv": ndv}} for number, ndv in ((1, "2"), (2, "1"))
    ]
    data = Path(done.path.removeprefix("file://")).read_bytes()
    footer = entry.pop("file-footer-size-in-bytes")
    assert data[-footer:][:4] == b"PFA1"
    assert entry == {"snapshot-id": done.snapshot_id, "statistics-path": done.path, "file-size-in-bytes": len(data)}


def test_what_the_table_has_is_taken_over(tmp_path: Path) -> None:
    table = _table(tmp_path)
    first = table.compute_table_stats("id")
    assert first is not None
    assert first.ndv == {"id": 2}
    again = table.compute_table_stats(["id"], first.snapshot_id)
    assert again is not None
    assert (again, again.commit) == (first, None)
    more = table.compute_table_stats(["place.city"])
    assert more is not None
    assert (more.ndv, set(_blobs(more.path))) == ({"place.city": 2}, {1, 4})
    both = table.compute_table_stats(["place.city", "id"])
    assert both is not None
    assert (both.path, both.ndv, both.commit) == (more.path, {"place.city": 2, "id": 2}, None)
    # Without the file, all is computed anew; and the next snapshot has none.
    Path(more.path.removeprefix("file://")).unlink()
    anew = table.compute_table_stats("id")
    assert anew is not None
    assert (anew.ndv, set(_blobs(anew.path))) == ({"id": 2}, {1})
    table.append(pa.table({"id": [7], "kind": ["b"], "place": [None]}, pa.schema(_COLUMNS)))
    table.delete("id = 1", strategy="merge-on-read")
    last = table.compute_table_stats()
    assert last is not None
    assert (last.ndv, len(table.metadata.statistics)) == ({"id": 2, "kind": 2}, 2)
    table.expire_snapshots("9999-12-31", retain_last=1)
    assert [one["statistics-path"] for one in table.metadata.statistics] == [last.path]
    assert not Path(anew.path.removeprefix("file://")).exists()


def test_what_is_refused(tmp_path: Path) -> None:
    table: IcebergTable = create_table(tmp_path / "none", _COLUMNS, format="iceberg")
    assert table.compute_table_stats() is None
    table = _table(tmp_path)
    before = table.metadata_location
    for columns in ("place", [], [1], 3):
        with pytest.raises(
            InvalidArgumentError,
            match=r"not a column name|not name columns|could be statistics|by a sketch",
        ):
            table.compute_table_stats(columns)  # type: ignore[arg-type]
    with pytest.raises(ColumnNotFoundError, match="no column 'price'"):
        table.compute_table_stats("price")
    with pytest.raises(VersionNotFoundError, match="there is no snapshot 7: it was expired, or never existed"):
        table.compute_table_stats(snapshot_id=7)
    with pytest.raises(InvalidArgumentError, match="the table was opened with snapshot_id, and cannot be"):
        IcebergTable(table.location, snapshot_id=table.snapshot_id).compute_table_stats()
    assert table.refresh().metadata_location == before
    assert not list((tmp_path / "t").rglob("*.stats"))


_ZONED = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc)
_VALUES: list[tuple[DataType, Any, bytes]] = [
    (Primitive("boolean"), True, b"\x01"),
    (Primitive("integer"), -2, struct.pack("<i", -2)),
    (Primitive("long"), 1 << 40, struct.pack("<q", 1 << 40)),
    (Primitive("float"), 0.5, struct.pack("<f", 0.5)),
    (Primitive("double"), -0.0, struct.pack("<d", -0.0)),
    (Decimal(20, 2), decimal.Decimal("-1.28"), b"\x80"),
    (Primitive("date"), dt.date(1970, 1, 3), struct.pack("<i", 2)),
    (Primitive("time"), dt.time(0, 0, 1), struct.pack("<q", 1_000_000)),
    (Primitive("timestamp_ntz"), _ZONED.replace(tzinfo=None), struct.pack("<q", 1_000_000)),
    (Primitive("timestamp"), _ZONED, struct.pack("<q", 1_000_000)),
    (Primitive("string"), "\u00e9", b"\xc3\xa9"),
    (Primitive("uuid"), bytes(15) + b"\x05", bytes(15) + b"\x05"),
    (Fixed(3), b"abc", b"abc"),
    (Primitive("binary"), b"\x00", b"\x00"),
]


def test_values_are_hashed_in_their_single_value_form(tmp_path: Path) -> None:
    """Iceberg spec, Appendix D."""
    fields = tuple(Field(f"c{number}", kind) for number, (kind, _, _) in enumerate(_VALUES))
    table: IcebergTable = create_table(tmp_path / "t", Struct(fields), format="iceberg")
    row = {child.name: value for child, (_, value, _) in zip(fields, _VALUES, strict=True)}
    table.append(pa.Table.from_pylist([row, {}], table.scan().schema))
    done = table.compute_table_stats()
    assert done is not None
    assert set(done.ndv) == {child.name for child in fields}
    found = _blobs(done.path)
    for number, (kind, _, data) in enumerate(_VALUES, 1):
        assert found[number] == ("1", _sketch([data])), kind


class _Tasks:
    """Reads whatever it is given, each item in turn, as tasks of an engine do."""

    def __init__(self) -> None:
        self.items = 0

    def takes(self, table: str, size: int) -> bool:
        return bool(table) and size > 0

    def run(self, work: Any, items: Any, discard: Any = None) -> list[Any]:
        self.items = len(items)
        return [work(item) for item in pickle.loads(pickle.dumps(items))]


def test_sketches_of_tasks_are_united(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for number in range(3):
        ids = list(range(number * 1_000, number * 1_000 + 1_500))
        table.append(
            pa.table({"id": ids, "kind": [str(one % 7) for one in ids], "place": [None] * 1_500}, pa.schema(_COLUMNS))
        )
    source = begin(table).source
    paths = {child.id or 0: (child,) for child in source.schema if child.name != "place"}
    tasks = _Tasks()
    assert sketch_columns(source, paths, tasks) == sketch_columns(source, paths, None)  # type: ignore[arg-type]
    assert tasks.items >= 1
