"""Puffin files assembled byte by byte, and deletion vectors in them, with bitmaps of pyroaring."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cramjam
import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import (
    CorruptDeletionVectorError,
    CorruptMetadataError,
    CorruptTableError,
    DataFileNotFoundError,
    DeltabergError,
    SpecViolationError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.deletes.puffin import PuffinFile
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile

_MAGIC = bytes.fromhex("50464131")
_STORE = StoreSpec()


def _puffin(
    blobs: Sequence[tuple[bytes, Mapping[str, Any]]], *, compressed: bool = False, payload: bytes | None = None
) -> bytes:
    """Return a file of blobs; the mapping holds the members that describe a blob beside its place."""
    body, told = _MAGIC, []
    for data, more in blobs:
        place = {"offset": len(body), "length": len(data)}
        told.append({"type": "some-blob", "fields": [1], "snapshot-id": 2, "sequence-number": 1, **place, **more})
        body += data
    if payload is None:
        payload = json.dumps({"blobs": told, "properties": {"created-by": "a test"}}).encode()
    if compressed:
        payload = bytes(cramjam.lz4.compress(payload))
    flags = bytes([int(compressed), 0, 0, 0])
    return body + _MAGIC + payload + len(payload).to_bytes(4, "little") + flags + _MAGIC


def _open(path: Path, data: bytes) -> PuffinFile:
    path.write_bytes(data)
    return PuffinFile(parse_location(str(path)), _STORE)


@pytest.mark.req("BEY-33", half="reader")
@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_and_its_blobs(tmp_path: Path, compressed: bool) -> None:
    data = _puffin([(b"", {}), (b"abcdefghi", {"fields": [3, 4], "properties": {"a": "b"}})], compressed=compressed)
    assert data[-8] == compressed
    found = _open(tmp_path / "a.puffin", data)
    assert found.properties == {"created-by": "a test"}
    assert [(blob.offset, blob.length, blob.fields) for blob in found.blobs] == [(4, 0, (1,)), (4, 9, (3, 4))]
    assert [found.read(blob) for blob in found.blobs] == [b"", b"abcdefghi"]
    second = found.blobs[1]
    assert (second.type, second.snapshot_id, second.sequence_number) == ("some-blob", 2, 1)
    assert (second.compression_codec, second.properties) == (None, {"a": "b"})


@pytest.mark.req("BEY-33", half="reader")
def test_a_file_without_blobs(tmp_path: Path) -> None:
    found = _open(tmp_path / "a.puffin", _puffin([]))
    assert found.blobs == ()
    assert (tmp_path / "a.puffin").read_bytes()[:8] == _MAGIC * 2


@pytest.mark.req("BEY-33", half="reader")
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_blobs(tmp_path: Path, codec: str) -> None:
    values = [bytes(range(256)) * 20_000, b"", b"x"]
    compress = {"lz4": cramjam.lz4.compress, "zstd": cramjam.zstd.compress}[codec]
    blobs = [(bytes(compress(value)), {"compression-codec": codec}) for value in values]
    found = _open(tmp_path / "a.puffin", _puffin(blobs, compressed=True))
    assert [found.read(blob) for blob in found.blobs] == values


@pytest.mark.req("BEY-33", half="reader")
def test_a_footer_longer_than_the_first_read(tmp_path: Path) -> None:
    blobs = [(b"%d" % number, {"properties": {"number": f"{number:0100}"}}) for number in range(500)]
    found = _open(tmp_path / "a.puffin", _puffin(blobs))
    assert [found.read(blob) for blob in found.blobs] == [data for data, _ in blobs]


@pytest.mark.req("BEY-33", half="reader")
@pytest.mark.parametrize("place", [0, -4, "footer"])
def test_each_magic_number_is_looked_at(tmp_path: Path, place: int | str) -> None:
    data = bytearray(_puffin([(b"abc", {})]))
    data[7 if place == "footer" else int(place)] ^= 1
    with pytest.raises(CorruptMetadataError, match="PFA1") as caught:
        _open(tmp_path / "a.puffin", bytes(data))
    assert caught.value.context["file"] == str(tmp_path / "a.puffin")


@pytest.mark.req("BEY-33", half="reader")
def test_files_that_are_cut_off(tmp_path: Path) -> None:
    data = _puffin([(b"abc", {})])
    for length in [*range(40), len(data) - 4, len(data) - 1]:
        with pytest.raises(CorruptMetadataError, match=r"Puffin file|PFA1"):
            _open(tmp_path / "a.puffin", data[:length])


@pytest.mark.parametrize("length", [-1, -(1 << 31), (1 << 31) - 1, 1 << 20, 5])
def test_a_length_of_the_footer_that_lies(tmp_path: Path, length: int) -> None:
    data = bytearray(_puffin([(b"abc", {})]))
    data[-12:-8] = struct.pack("<i", length)
    with pytest.raises(CorruptMetadataError, match=r"bytes cannot have|does not begin with PFA1"):
        _open(tmp_path / "a.puffin", bytes(data))


@pytest.mark.parametrize("flags", [2, 1 << 8, 1 << 31])
def test_flags_that_are_not_known(tmp_path: Path, flags: int) -> None:
    data = bytearray(_puffin([]))
    data[-8:-4] = struct.pack("<I", flags)
    with pytest.raises(UnsupportedFeatureError, match="flags"):
        _open(tmp_path / "a.puffin", bytes(data))


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"[]", b"{", b"\xff", b'{"blobs": 1}', b'{"blobs": [1]}', b'{"blobs": [{}]}', b'{"properties": {"a": 1}}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_footers_that_say_nothing(tmp_path: Path, payload: bytes) -> None:
    with pytest.raises(CorruptMetadataError, match="footer"):
        _open(tmp_path / "a.puffin", _puffin([], payload=payload))


@pytest.mark.parametrize(
    "more",
    [{"offset": 3}, {"offset": -1}, {"offset": 5}, {"length": -1}, {"length": 4}, {"length": 1 << 62}, {"offset": "4"}],
)
def test_places_that_lie_outside(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(CorruptMetadataError, match=r"does not fit at offset|has an unexpected type"):
        _open(tmp_path / "a.puffin", _puffin([(b"abc", more)]))


def test_what_cannot_be_decompressed(tmp_path: Path) -> None:
    frame = bytes(cramjam.zstd.compress(b"x" * 100_000))
    for data in (frame[:-2], b"\0" * 20, frame[:4]):
        puffin = _open(tmp_path / "a.puffin", _puffin([(data, {"compression-codec": "zstd"})]))
        with pytest.raises(CorruptMetadataError, match="decompressed"):
            puffin.read(puffin.blobs[0])
    puffin = _open(tmp_path / "a.puffin", _puffin([(frame, {"compression-codec": "brotli"})]))
    with pytest.raises(UnsupportedFeatureError, match="brotli"):
        puffin.read(puffin.blobs[0])
    broken = bytearray(_puffin([]))
    broken[-8] = 1
    with pytest.raises(CorruptMetadataError, match="decompressed"):
        _open(tmp_path / "a.puffin", bytes(broken))


def test_random_damage(tmp_path: Path, rng: random.Random) -> None:
    compressed = bytes(cramjam.zstd.compress(b"abc" * 100))
    blobs: list[tuple[bytes, dict[str, Any]]] = [(b"abc", {}), (compressed, {"compression-codec": "zstd"})]
    refused = 0
    for _ in range(500):
        data = bytearray(_puffin(blobs, compressed=rng.random() < 0.3))
        for _ in range(rng.choice((1, 2, 5))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            found = _open(tmp_path / "a.puffin", bytes(data))
            for blob in found.blobs:
                found.read(blob)
        except DeltabergError:
            refused += 1
    assert refused > 100


def test_small_blobs_do_not_become_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltaberg.iceberg.deletes.puffin._LARGEST_BLOB", 1 << 20)
    exact, bomb = (bytes(cramjam.zstd.compress(bytes(size))) for size in (1 << 20, (1 << 20) + 1))
    blobs = [(data, {"compression-codec": "zstd"}) for data in (exact, bomb)]
    found = _open(tmp_path / "a.puffin", _puffin(blobs))
    assert len(found.read(found.blobs[0])) == 1 << 20
    with pytest.raises(CorruptMetadataError, match="1048576 bytes"):
        found.read(found.blobs[1])


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(DataFileNotFoundError, match="a Puffin file is missing"):
        PuffinFile(parse_location(str(tmp_path / "gone.puffin")), _STORE)


_BLOB = bytes.fromhex(
    "00000024 d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0000 0900 2a671846"
)


def _with_vector(
    root: Path, blob: bytes = _BLOB, *, rows: int = 2, version: int = 3, **more: Any
) -> tuple[IcebergBuilder, IcebergFile, IcebergFile]:
    """Write a table of 12 rows, with a deletion vector in a blob of a Puffin file with a footer."""
    builder = IcebergBuilder(root / "t", {"id": "long"}, format_version=version)
    file = builder.data([{"id": number} for number in range(12)])
    told = {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "properties": {"referenced-data-file": file.path, "cardinality": str(rows)},
        **more,
    }
    # Not at the beginning of the file.
    data = _puffin([(b"another", {}), (blob, told)])
    path = builder.root / "data" / "deletes.puffin"
    path.write_bytes(data)
    place = {"referenced_data_file": file.path, "content_offset": 11, "content_size_in_bytes": len(blob)}
    return builder, file, IcebergFile(str(path), rows, len(data), "puffin", 1, more=place)


def _ids(builder: IcebergBuilder) -> list[int]:
    return sorted(open_table(builder.root, "iceberg").scan().to_arrow().column("id").to_pylist())


@pytest.mark.req("BEY-34", half="reader")
def test_position_deletes_are_ignored_beside_a_vector(tmp_path: Path) -> None:
    builder, file, vector = _with_vector(tmp_path)
    other = builder.data([{"id": 100}, {"id": 101}])
    builder.commit(file, other)
    # The first names one data file in its metadata, the second two in its rows.
    named = builder.position_deletes([(file, 5)])
    named.more["referenced_data_file"] = file.path
    builder.commit(named, builder.position_deletes([(file, 6), (other, 0)]), operation="delete")
    assert _ids(builder) == [0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 101]
    builder.commit(vector, operation="delete")
    assert _ids(builder) == [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 101]


@pytest.mark.req("BEY-34", half="reader")
def test_equality_deletes_apply_beside_a_vector(tmp_path: Path) -> None:
    made, file, vector = _with_vector(tmp_path)
    made.commit(file)
    made.commit(vector, made.equality_deletes([1], [{"id": 7}, {"id": 9}]), operation="delete")
    assert _ids(made) == [1, 2, 3, 4, 5, 6, 8, 10, 11]


@pytest.mark.req("BEY-34", half="reader")
def test_two_vectors_for_a_file_are_refused(tmp_path: Path) -> None:
    builder, file, vector = _with_vector(tmp_path)
    builder.commit(file)
    builder.commit(vector, operation="delete")
    builder.commit(*builder.deletion_vectors({file.path: [3]}), operation="delete")
    with pytest.raises(CorruptTableError, match="more than one deletion vector") as caught:
        _ids(builder)
    assert caught.value.context["file"] == file.path


@pytest.mark.req("BEY-34", half="reader")
@pytest.mark.parametrize(
    "blob",
    [
        pytest.param(_BLOB[:-1] + b"\x47", id="checksum"),
        pytest.param(_BLOB[:20] + b"\1" + _BLOB[21:], id="bitmap"),
        pytest.param(b"\0\0\0\x23" + _BLOB[4:], id="length"),
        pytest.param(b"\x24\0\0\0" + _BLOB[4:], id="order"),
        pytest.param(_BLOB[:4] + b"\xd2" + _BLOB[5:], id="magic"),
        pytest.param(bytes(cramjam.zstd.compress(_BLOB)), id="compressed"),
    ],
)
def test_damage_of_a_vector_is_found(tmp_path: Path, blob: bytes) -> None:
    made, file, vector = _with_vector(tmp_path, blob)
    made.commit(file, vector)
    with pytest.raises(CorruptDeletionVectorError, match=r"checksum mismatch: stored|the deletion vector declares"):
        _ids(made)


def test_a_vector_without_a_container_is_read(tmp_path: Path) -> None:
    """Some writers omitted the footer. The place in the manifest is enough, and validation reports the footer."""
    builder, file, vector = _with_vector(tmp_path)
    Path(vector.path).write_bytes(b"PFA1another" + _BLOB)
    vector.size = 55
    builder.commit(file)
    builder.commit(vector, operation="delete")
    assert len(_ids(builder)) == 10
    with pytest.raises(SpecViolationError, match="PFA1"):
        open_table(builder.root, validate=True)


@pytest.mark.req("BEY-34", half="reader")
@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"properties": {"referenced-data-file": "/other", "cardinality": "2"}}, "referenced-data-file"),
        ({"properties": {"cardinality": "2"}}, "referenced-data-file"),
        ({"type": "some-blob"}, "deletion-vector-v1"),
        ({"compression-codec": "zstd"}, "compressed"),
        ({"length": 43}, "43 bytes"),
        ({"offset": 10, "length": 45}, "deletion-vector-v1"),
        ({"snapshot-id": 7}, "-1"),
        ({"sequence-number": 0}, "-1"),
    ],
)
def test_footers_that_say_something_else(tmp_path: Path, more: dict[str, Any], told: str) -> None:
    builder, file, vector = _with_vector(tmp_path, **more)
    builder.commit(file)
    builder.commit(vector, operation="delete")
    # Reading goes by the manifest.
    assert len(_ids(builder)) == 10
    with pytest.raises(SpecViolationError, match=told):
        open_table(builder.root, validate=True)


@pytest.mark.req("BEY-34", half="reader")
def test_a_cardinality_that_is_wrong(tmp_path: Path) -> None:
    made, file, vector = _with_vector(tmp_path, rows=3)
    made.commit(file)
    made.commit(vector, operation="delete")
    with pytest.raises(SpecViolationError, match="holds 2 rows, but its manifest says 3"):
        open_table(made.root, validate=True)


def test_vectors_of_one_file_are_told_apart(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    files = [builder.data([{"id": 10 * number + row} for row in range(4)]) for number in range(3)]
    builder.commit(*files)
    vectors = builder.deletion_vectors({files[0].path: [0], files[2].path: [1, 3]})
    assert len({vector.path for vector in vectors}) == 1
    builder.commit(*vectors, operation="delete")
    assert _ids(builder) == [1, 2, 3, 10, 11, 12, 13, 20, 22]
    found = open_table(builder.root, validate=True).scan().to_arrow()
    assert found.schema.types == [pa.int64()]
