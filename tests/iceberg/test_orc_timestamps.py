"""Timestamps of ORC files of all years; pyarrow itself holds those of 1677 to 2262."""

from __future__ import annotations

import datetime as dt
import io
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

from deltaberg import open_table
from deltaberg.errors import CorruptDataFileError, DeltabergError, SchemaError, TooLargeError, UnsupportedFeatureError
from deltaberg.files.formats import orc_layout
from deltaberg.files.formats.orc import OrcSource
from deltaberg.files.formats.orc_layout import OrcLayout
from deltaberg.files.formats.orc_timestamps import read_timestamps
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile
from tests.support.roads import by_every_road

_ROWS = 700
_YEAR_1, _YEAR_9999 = -62_135_596_800, 253_402_300_799
_COMPRESSIONS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]


def _stamps(rng: random.Random, kind: pa.DataType, rows: int = _ROWS) -> pa.Array:
    """Return timestamps of all years."""
    values = [
        None if rng.random() < 0.1 else rng.choice([_YEAR_1, 0, _YEAR_9999, rng.randrange(_YEAR_1, _YEAR_9999)])
        for _ in range(rows)
    ]
    micros = [None if value is None else value * 1_000_000 + rng.randrange(10**6) for value in values]
    return pa.array(micros, pa.int64()).cast(kind)


def _nested(rng: random.Random) -> pa.Table:
    wall, instant = pa.timestamp("us"), pa.timestamp("us", "UTC")
    lengths = [rng.choice([0, 1, 2, 3, None]) for _ in range(_ROWS)]
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + (length or 0))
    starts = pa.array([None if length is None else at for length, at in zip(lengths, offsets[:-1], strict=True)])
    places = pa.concat_arrays([starts.cast(pa.int32()), pa.array(offsets[-1:], pa.int32())])
    inner = pa.StructArray.from_arrays(
        [_stamps(rng, instant, offsets[-1]), pa.array(range(offsets[-1]))],
        ["x", "n"],
        mask=pa.array([rng.random() < 0.1 for _ in range(offsets[-1])]),
    )
    keys = pa.array([f"k{number}" for number in range(offsets[-1])])
    return pa.table(
        {
            "id": range(_ROWS),
            "wall": _stamps(rng, wall),
            "text": [str(number % 7) for number in range(_ROWS)],
            "instant": _stamps(rng, instant),
            "structs": pa.StructArray.from_arrays([_stamps(rng, wall), keys.slice(0, _ROWS)], ["x", "k"]),
            "lists": pa.ListArray.from_arrays(places, inner),
            "maps": pa.MapArray.from_arrays(places, keys, _stamps(rng, wall, offsets[-1])),
        }
    )


def _written(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    orc.write_table(table, file, **options)
    return file.getvalue()


def _read(data: bytes, schema: pa.Schema) -> pa.Table:
    source = OrcSource(pa.BufferReader(data))
    leaves = range(sum(1 if not column.num_fields else 2 for column in schema.types))
    groups = source.row_groups(0, 1 << 60)
    found = pa.Table.from_batches([part.batch.cast(schema) for part in source.batches(groups, leaves, 1 << 20, True)])
    found.validate(full=True)
    return found


@pytest.mark.one_backend
@pytest.mark.parametrize(("compression", "version"), [*((one, "0.12") for one in _COMPRESSIONS), ("zlib", "0.11")])
def test_all_years_at_any_depth(rng: random.Random, compression: str, version: str) -> None:
    table = _nested(rng)
    data = _written(table, compression=compression, file_version=version, compression_block_size=65_536)
    # Why they are not simply read: older versions of pyarrow do not even say that they cannot.
    with suppress(pa.ArrowInvalid):
        assert orc.ORCFile(pa.BufferReader(data)).read().to_pylist() != table.to_pylist()
    assert _read(data, table.schema).to_pylist() == table.to_pylist()


@pytest.mark.one_backend
def test_all_stripes(rng: random.Random) -> None:
    rows = 40_000
    table = pa.table({"id": range(rows), "wall": pc.random(rows, initializer=1).cast(pa.int64(), safe=False)})
    stamps = (
        pc.add(pc.multiply(pa.array(range(rows)), 9_000_000), _YEAR_1).cast(pa.timestamp("s")).cast("timestamp[us]")
    )
    table = table.set_column(1, "wall", stamps)
    data = _written(table, stripe_size=65_536, batch_size=1024)
    assert orc.ORCFile(pa.BufferReader(data)).nstripes > 1
    assert _read(data, table.schema).equals(table)


@pytest.mark.one_backend
@pytest.mark.parametrize("zone", [b"GMT", b"CET", b"EST"])
def test_what_pyarrow_holds_is_read_as_by_pyarrow(rng: random.Random, zone: bytes) -> None:
    """Clocks of the zone of the writer, with the hours of its summers, and nanoseconds of any sign."""
    nanos = pa.array([None, *(rng.randrange(-(9 * 10**18), 9 * 10**18) for _ in range(_ROWS)), -1, 0, 999, -1_000_000])
    columns = {"wall": nanos.cast(pa.timestamp("ns")), "instant": nanos.cast(pa.timestamp("ns", "UTC"))}
    data = _written(pa.table(columns), compression="uncompressed").replace(b"GMT", zone)
    source = pa.BufferReader(data)
    wanted = orc.ORCFile(source).read_stripe(0)
    for number, column in enumerate(wanted.columns):
        assert read_timestamps(OrcLayout(source), 0, number, column.type).equals(column)


def _file(builder: IcebergBuilder, table: pa.Table) -> IcebergFile:
    """Write an ORC file."""
    columns = [child.with_metadata({"iceberg.id": str(number)}) for number, child in enumerate(table.schema, start=1)]
    file = builder.data([], format="orc")
    orc.write_table(table.cast(pa.schema(columns)), file.path)
    file.rows, file.size = len(table), Path(file.path).stat().st_size
    return file


@by_every_road
@pytest.mark.req("ICE-ORC-03", half="reader")
def test_filters_and_deletes_of_old_and_late_timestamps(tmp_path: Path) -> None:
    utc = dt.timezone.utc
    years = [1, 1500, 1677, 1970, 2262, 2263, 9999]
    stamps = [dt.datetime(year, 12, 31, 23, 59, 59, 999_999 if year >= 1970 else 0) for year in years]
    builder = IcebergBuilder(tmp_path / "t", {"a": "timestamp", "b": "timestamptz", "n": "long"})
    columns = {
        "a": pa.array(stamps, pa.timestamp("us")),
        "b": pa.array([stamp.replace(tzinfo=utc) for stamp in stamps], pa.timestamp("us", "UTC")),
        "n": pa.array(years, pa.int64()),
    }
    file = _file(builder, pa.table(columns))
    builder.commit(file)
    found = open_table(builder.root).scan(
        "a < TIMESTAMP_NTZ'1600-01-01 00:00:00' OR b > TIMESTAMP'9999-01-01 00:00:00Z'"
    )
    assert [row["n"] for row in found.to_arrow().to_pylist()] == [1, 1500, 9999]
    assert found.to_arrow().column("a").to_pylist() == [stamps[0], stamps[1], stamps[6]]
    assert open_table(builder.root).scan("b = TIMESTAMP'2263-12-31 23:59:59.999999Z'").count() == 1
    assert open_table(builder.root).scan(columns=["n"]).to_arrow().column("n").to_pylist() == years
    builder.commit(builder.position_deletes([(file, 0)]))
    builder.commit(builder.equality_deletes([1], [{"a": stamps[6]}]))
    assert open_table(builder.root).scan().to_arrow().column("n").to_pylist() == years[1:-1]


def test_files_with_them_are_written_anew_in_parquet_only(tmp_path: Path) -> None:
    """They are read, but not written: what is refused can be done once the table does as the hint says."""
    builder = IcebergBuilder(tmp_path / "t", {"a": "timestamp", "n": "long"})
    old = dt.datetime(1500, 1, 1)
    builder.commit(_file(builder, pa.table({"a": pa.array([old, old], pa.timestamp("us")), "n": [1, 2]})))
    table: Any = open_table(builder.root)
    table.alter().set({"write.format.default": "orc"}).commit()
    changes: list[Callable[[], object]] = [
        lambda: table.delete("n = 1"),
        lambda: table.update({"n": "3"}, "n = 1"),
        lambda: table.append(pa.table({"a": pa.array([old], pa.timestamp("us")), "n": [4]})),
    ]
    before = sorted(builder.root.rglob("*"))
    for change in changes:
        with pytest.raises(SchemaError, match="before 1677 or after 2262") as caught:
            change()
        assert "set the property write.format.default to parquet" in str(caught.value)
    assert sorted(builder.root.rglob("*")) == before
    table.alter().set({"write.format.default": "parquet"}).commit()
    table.delete("n = 1")
    assert table.scan().to_arrow().to_pylist() == [{"a": old, "n": 2}]


def test_what_microseconds_do_not_hold_is_refused_by_name(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "timestamp", "b": "long"})
    stamps = pa.array([1 << 61, 0], pa.int64()).cast(pa.timestamp("s"))
    builder.commit(_file(builder, pa.table({"a": stamps, "b": [1, 2]})))
    with pytest.raises(UnsupportedFeatureError, match="290,000 years away"):
        open_table(builder.root).scan().to_arrow()
    assert open_table(builder.root).scan(columns=["b"]).to_arrow().column("b").to_pylist() == [1, 2]


@pytest.mark.one_backend
def test_an_unknown_zone_of_the_writer_is_refused() -> None:
    table = pa.table({"a": pa.array([_YEAR_1], pa.timestamp("s"))})
    data = _written(table, compression="uncompressed").replace(b"GMT", b"./x")
    with pytest.raises(UnsupportedFeatureError, match=r"zone of the writer .* '\./x'"):
        read_timestamps(OrcLayout(pa.BufferReader(data)), 0, 0, pa.timestamp("ns"))


@pytest.mark.one_backend
@pytest.mark.parametrize("compression", _COMPRESSIONS)
def test_damaged_metadata_raise_our_errors(rng: random.Random, compression: str) -> None:
    """Each byte of what this library itself reads is changed, and the file is cut at each place."""
    columns = ["wall", "maps"]
    data = _written(_nested(rng).select(columns).slice(0, 20), compression=compression)
    whole = orc.ORCFile(pa.BufferReader(data))
    metadata = whole.file_footer_length + whole.file_postscript_length + 1
    cut = [data[: len(data) - number] for number in range(metadata + 100)]
    changed = [_changed(data, number, rng.randrange(1, 256)) for number in range(metadata + 100)]
    outcomes = {_outcome(text) for text in [b"", *cut, *changed]}
    assert outcomes <= {None, CorruptDataFileError, TooLargeError, UnsupportedFeatureError}
    assert {None, CorruptDataFileError} <= outcomes


def _changed(data: bytes, number: int, by: int) -> bytes:
    at = len(data) - 1 - number
    return data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]


def _outcome(data: bytes) -> type[DeltabergError] | None:
    """Return the class of the error that a file's metadata raise, or None."""
    try:
        layout = OrcLayout(pa.BufferReader(data))
        layout.with_streams(layout.stripe(0), layout.columns_of(1), {}, {})
    except DeltabergError as error:
        return type(error)
    return None


@pytest.mark.one_backend
def test_metadata_that_unpack_to_far_more_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"a" * 200_000: pa.array([0], pa.timestamp("s"))})
    data = _written(table, compression="zlib", compression_block_size=65_536)
    monkeypatch.setattr(orc_layout, "_MOST_BYTES", 100_000)
    with pytest.raises(TooLargeError, match="100000 bytes"):
        OrcLayout(pa.BufferReader(data))
