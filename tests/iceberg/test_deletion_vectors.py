"""Deletion vectors of version 3: bitmaps of deleted rows in Puffin files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import (
    CorruptDeletionVectorError,
    CorruptMetadataError,
    DataFileNotFoundError,
    SpecViolationError,
)
from tests.iceberg.entries import added
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile
from tests.support.recorder import Recorder
from tests.support.roads import Road, by_every_road

_TEN = [{"id": number} for number in range(10)]


def _builder(tmp_path: Path, **options: Any) -> IcebergBuilder:
    return IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3, **options)


def _ids(builder: IcebergBuilder, condition: str | None = None, **options: Any) -> list[int]:
    scan = open_table(builder.root, "iceberg").scan(condition, ["id"], **options)
    return sorted(scan.to_arrow().column("id").to_pylist())


@pytest.mark.req("BEY-34", half="reader")
@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_a_deletion_vector(tmp_path: Path, road: Road, format: str) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_TEN, format=format)
    builder.commit(file)
    builder.commit(*builder.deletion_vectors({file.path: [0, 9]}))
    scan = open_table(builder.root).scan()
    assert road.column(scan, "id") == [1, 2, 3, 4, 5, 6, 7, 8]
    assert scan.count() == 8
    assert scan.files().column("deleted_record_count").to_pylist() == [2]


@by_every_road
@pytest.mark.req("BEY-34", half="reader")
@pytest.mark.req("BEY-33", half="reader")
def test_the_bytes_of_a_deletion_vector(tmp_path: Path) -> None:
    """A blob is a magic number and a 64-bit Roaring bitmap between a length and a checksum, both big-endian."""
    bitmap = bytes.fromhex("0100000000000000000000003a30000001000000000001001000000000000900")
    blob = bytes.fromhex("00000024d1d33964") + bitmap + bytes.fromhex("2a671846")
    assert len(blob) == 44
    builder = _builder(tmp_path)
    file = builder.data(_TEN)
    builder.commit(file)
    (vector,) = builder.deletion_vectors({file.path: [0, 9]})
    whole = Path(vector.path).read_bytes()
    assert whole[:4] == whole[-4:] == bytes.fromhex("50464131")
    assert whole[4:48] == blob
    assert (vector.more["content_offset"], vector.more["content_size_in_bytes"]) == (4, 44)
    builder.commit(vector)
    assert _ids(builder) == list(range(1, 9))
    assert open_table(builder.root, validate=True).scan("id < 3").to_arrow()["id"].to_pylist() == [1, 2]
    # A blob alone, as some writers left it, is where the manifest says that it is.
    Path(vector.path).write_bytes(blob)
    vector.more["content_offset"] = 0
    builder._manifests.clear()
    builder.commit(file, vector)
    assert _ids(builder) == list(range(1, 9))


@pytest.mark.req("BEY-34", half="reader")
def test_it_takes_the_place_of_position_deletes(tmp_path: Path, recorder: Recorder) -> None:
    builder = _builder(tmp_path)
    one, two = builder.data(_TEN), builder.data(_TEN)
    positions = builder.position_deletes([(one, 4), (two, 4)])
    mine = builder.position_deletes([(one, 5)], referenced_data_file=one.path)
    builder.commit(one, two, positions, mine)
    assert _ids(builder).count(5) == 1
    builder.commit(*builder.deletion_vectors({one.path: [0]}))
    recorder.clear()
    found = _ids(builder)
    assert [found.count(number) for number in range(10)] == [1, 2, 2, 2, 1, 2, 2, 2, 2, 2]
    assert Path(mine.path).name not in recorder.read
    builder.commit(builder.equality_deletes([1], [{"id": 9}]))
    assert _ids(builder).count(9) == 0


@pytest.mark.req("BEY-34", half="reader")
def test_several_vectors_in_one_file(tmp_path: Path, road: Road) -> None:
    builder = _builder(tmp_path)
    files = [builder.data([{"id": 10 * number + at} for at in range(10)]) for number in range(3)]
    builder.commit(*files)
    vectors = builder.deletion_vectors({file.path: [number, 9] for number, file in enumerate(files)})
    assert len({vector.path for vector in vectors}) == 1
    builder.commit(*vectors)
    expected = [n for n in range(30) if n % 10 != 9 and n not in (0, 11, 22)]
    assert road.column(open_table(builder.root).scan(), "id") == expected


@pytest.mark.req("BEY-34", half="reader")
@pytest.mark.parametrize(("sequence", "applies"), [(4, False), (5, True), (6, True)])
def test_it_is_for_files_as_old_or_older(tmp_path: Path, sequence: int, applies: bool) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_TEN)
    vectors = builder.deletion_vectors({file.path: [0]})
    manifests = [
        builder.manifest(added(file), sequence_number=5),
        builder.manifest(added(*vectors), 1, sequence_number=sequence),
    ]
    builder.commit(manifests=manifests)
    assert _ids(builder) == list(range(1 if applies else 0, 10))


@pytest.mark.req("BEY-34", half="reader")
def test_two_vectors_for_one_file(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_TEN)
    builder.commit(file, *builder.deletion_vectors({file.path: [0]}))
    builder.commit(*builder.deletion_vectors({file.path: [1]}))
    with pytest.raises(CorruptMetadataError, match="more than one deletion vector") as raised:
        _ids(builder)
    assert raised.value.context["file"] == file.path


@pytest.mark.req("BEY-34", half="reader")
def test_a_vector_that_replaces_another(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_TEN)
    first = builder.deletion_vectors({file.path: [0]})
    builder.commit(file, *first)
    builder.commit(*builder.deletion_vectors({file.path: [0, 1]}), removed=first)
    assert _ids(builder) == list(range(2, 10))


def test_a_moved_table(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_TEN)
    (vector,) = builder.deletion_vectors({f"s3://b/t/data/{Path(file.path).name}": [3]})
    for found in (file, vector):
        found.path = f"s3://b/t/data/{Path(found.path).name}"
    builder.commit(file, vector)
    table = open_table(builder.root, location_map={"s3://b/t": str(builder.root)})
    assert table.scan().count() == len(table.scan().to_arrow()) == 9


@pytest.mark.parametrize("batch_size", [1, 1000])
@pytest.mark.parametrize("split_size", [1, 1 << 30])
def test_positions_are_physical(tmp_path: Path, batch_size: int, split_size: int) -> None:
    builder = _builder(tmp_path)
    file = builder.data([{"id": number} for number in range(40)], row_group_size=10)
    builder.commit(file, *builder.deletion_vectors({file.path: [15, 20, 39]}))
    options = {"batch_size": batch_size, "split_size": split_size}
    assert _ids(builder, "id >= 14", **options) == [n for n in range(14, 40) if n not in (15, 20, 39)]


def _vector(builder: IcebergBuilder, **more: Any) -> IcebergFile:
    """Commit a file and a deletion vector that the manifest describes differently."""
    file = builder.data(_TEN)
    (vector,) = builder.deletion_vectors({file.path: [0, 9]})
    vector.more |= more
    builder.commit(file, vector)
    return vector


@pytest.mark.parametrize(
    "more",
    [
        {"content_offset": None},
        {"content_offset": -1},
        {"content_offset": 5},
        {"content_offset": 1 << 40},
        {"content_size_in_bytes": None},
        {"content_size_in_bytes": 0},
        {"content_size_in_bytes": 7},
        {"content_size_in_bytes": -100},
        {"content_size_in_bytes": 45},
        {"content_size_in_bytes": 43},
        {"content_size_in_bytes": 1 << 20},
        {"content_size_in_bytes": 1 << 31},
        {"content_size_in_bytes": (1 << 63) - 1},
        {"content_size_in_bytes": -(1 << 63)},
    ],
    ids=str,
)
def test_places_that_lie(tmp_path: Path, more: dict[str, int | None]) -> None:
    builder = _builder(tmp_path)
    _vector(builder, **more)
    with pytest.raises(CorruptDeletionVectorError, match=r"cannot be at offset|bytes, but|before its deletion vector"):
        _ids(builder)


def test_a_vector_without_its_data_file(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    _vector(builder, referenced_data_file=None)
    with pytest.raises(CorruptMetadataError, match="does not name its data file"):
        _ids(builder)


def test_a_vector_of_another_file_deletes_nothing(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    _vector(builder, referenced_data_file="/somewhere/else.parquet")
    assert _ids(builder) == list(range(10))


@pytest.mark.parametrize(("said", "count"), [(5, 5), (500, 8)])
def test_a_cardinality_that_lies(tmp_path: Path, said: int, count: int) -> None:
    """The rows are right. A count comes from the metadata if they may be true. Validation reports that they lie."""
    builder = _builder(tmp_path)
    file = builder.data(_TEN)
    (vector,) = builder.deletion_vectors({file.path: [0, 9]})
    vector.rows = said
    builder.commit(file, vector)
    assert _ids(builder) == list(range(1, 9))
    assert open_table(builder.root).scan().count() == count
    with pytest.raises(SpecViolationError, match=rf"holds 2 rows, but its .* says {said}") as raised:
        open_table(builder.root, validate=True)
    assert vector.path in str(raised.value)


def test_positions_past_the_end_delete_nothing(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_TEN)
    builder.commit(file, *builder.deletion_vectors({file.path: [3, 10, 1 << 33]}))
    assert _ids(builder) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    Path(_vector(builder).path).unlink()
    with pytest.raises(DataFileNotFoundError, match="deletion vector is gone"):
        _ids(builder)


def test_every_flipped_bit_of_a_blob_is_noticed(tmp_path: Path, rng: random.Random) -> None:
    builder = _builder(tmp_path)
    path = Path(_vector(builder).path)
    whole = path.read_bytes()
    for _ in range(60):
        place = rng.randrange(4, 48)
        broken = bytearray(whole)
        broken[place] ^= 1 << rng.randrange(8)
        path.write_bytes(broken)
        with pytest.raises(CorruptDeletionVectorError, match=r"checksum mismatch: stored|the deletion vector declares"):
            _ids(builder)
    for length in (0, 4, 10, 47):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptDeletionVectorError) as raised:
            _ids(builder)
        assert raised.value.context["deletion_vector"] == str(path)
