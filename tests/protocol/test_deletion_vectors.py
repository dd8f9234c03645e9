"""Deletion vectors, the reader's half (DL-DV); what they are made of is in tests/kernels."""

from __future__ import annotations

import random
import struct
import uuid
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.delta.data.deletion_vectors import unique_id
from deltaberg.errors import CorruptDeletionVectorError, SpecViolationError
from deltaberg.storage.location import PathResolver, parse_location
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import Road, by_every_road
from tests.support.rows import ID, ids, ids_of
from tests.support.vectors import bitmap_bytes, z85

_SET = [3, 4, 7, 11, 18, 29]
_EXAMPLE_UUID = uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")


def _table(builder: DeltaBuilder, rows: int = 30, **add: Any) -> Any:
    """Make a table of one file with the rows 0, 1, ..., and open it."""
    add = {"stats": "full", **add}
    builder.create(ID, builder.add(ids(*range(rows)), **add), protocol=builder.features("deletionVectors"))
    return open_table(builder.root)


def _others(deleted: Iterable[int], rows: int = 30) -> list[int]:
    gone = set(deleted)
    return [row for row in range(rows) if row not in gone]


def _write(
    builder: DeltaBuilder, body: bytes, *, version: int = 1, size: int | None = None, crc: int | None = None
) -> dict[str, Any]:
    """Write a vector file of these bytes, and give the descriptor."""
    stated = len(body) if size is None else size
    checksum = zlib.crc32(body) if crc is None else crc
    data = bytes([version]) + struct.pack(">i", stated) + body + struct.pack(">I", checksum)
    return _stored(builder, data, offset=1, sizeInBytes=len(body))


def _stored(builder: DeltaBuilder, data: bytes, *, cardinality: int = len(_SET), **more: int) -> dict[str, Any]:
    identity = uuid.uuid4()
    (builder.root / f"deletion_vector_{identity}.bin").write_bytes(data)
    return {"storageType": "u", "pathOrInlineDv": z85(identity.bytes), "cardinality": cardinality, **more}


@by_every_road
@pytest.mark.req("DL-DV-01", half="reader")
def test_vectors_need_the_feature(builder: DeltaBuilder) -> None:
    add = builder.add(ids(1, 2), vector=builder.vector([0], "i"), stats="count")
    builder.create(ID, add)
    with pytest.raises(SpecViolationError, match="deletionVectors"):
        open_table(builder.root, validate=True)
    builder.commit(builder.features("deletionVectors"))
    assert ids_of(open_table(builder.root, validate=True)) == [2]


@by_every_road
@pytest.mark.req("DL-DV-03")
@pytest.mark.parametrize("value", ["false", "true", None])
def test_vectors_count_whatever_the_property_says(builder: DeltaBuilder, value: str | None) -> None:
    add = builder.add(ids(*range(10)), vector=builder.vector([0, 9]), stats="count")
    configuration = {} if value is None else {"delta.enableDeletionVectors": value}
    builder.create(ID, add, configuration=configuration, protocol=builder.features("deletionVectors"))
    assert ids_of(open_table(builder.root)) == list(range(1, 9))


@pytest.mark.req("DL-DV-04")
@pytest.mark.parametrize("storage", ["u", "p", "i"])
def test_deleted_rows_are_never_given(builder: DeltaBuilder, road: Road, storage: str) -> None:
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "text": [str(number) for number in range(10)]})
    add = builder.add(rows, vector=builder.vector([0, 9], storage), stats="full")
    builder.create(rows.schema, add, protocol=builder.features("deletionVectors"))
    table = open_table(builder.root)
    assert road.column(table.scan(columns=["id"]), "id") == list(range(1, 9))
    assert road.column(table.scan(), "text") == [str(number) for number in range(1, 9)]
    assert road.column(table.scan("id < 3"), "id") == [1, 2]
    assert road.column(table.scan("id = 9"), "id") == []
    assert road.column(table.scan("id >= 8", columns=["text"]), "text") == ["8"]
    assert table.scan().count() == 8
    assert table.scan("id > 0").count() == 8
    assert road.count(table.scan(columns=[])) == 8
    assert table.scan(limit=3).to_arrow().num_rows == 3


@pytest.mark.req("DL-DV-05")
@pytest.mark.parametrize("split_size", [0, 1])
def test_positions_are_those_in_the_file(builder: DeltaBuilder, road: Road, split_size: int) -> None:
    table = _table(builder, 12, vector=builder.vector([5, 8]), writer={"row_group_size": 4})
    assert road.column(table.scan(split_size=split_size), "id") == _others([5, 8], 12)
    skipping = table.scan("id >= 4", split_size=split_size)
    assert road.column(skipping, "id") == [4, 6, 7, 9, 10, 11]
    assert road.column(table.scan("id = 8", split_size=split_size), "id") == []
    skipping.to_arrow()
    assert skipping.metrics is not None
    assert skipping.metrics.row_groups_skipped == 1


@by_every_road
@pytest.mark.req("DL-DV-06", half="reader")
def test_an_unknown_storage_is_refused(builder: DeltaBuilder) -> None:
    vector = {**builder.vector([0], "i"), "storageType": "x"}
    with pytest.raises(CorruptDeletionVectorError, match="'x'"):
        ids_of(_table(builder, vector=vector))


@by_every_road
@pytest.mark.req("DL-DV-06", "DL-DV-07", half="reader")
def test_a_real_descriptor_is_understood(builder: DeltaBuilder) -> None:
    body = bitmap_bytes([0, 9])
    data = b"\x01" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    (builder.root / "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin").write_bytes(data)
    real = {
        "storageType": "u",
        "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA",
        "offset": 1,
        "sizeInBytes": 36,
        "cardinality": 2,
    }
    table = _table(builder, vector=real)
    (live,) = table.live_files.to_pylist()
    assert live["deletionVector"] == real
    assert ids_of(table) == _others([0, 9])


@pytest.mark.req("DL-DV-07", half="reader")
@pytest.mark.parametrize("prefix", ["", "ab", "a b%20ü"])
def test_a_prefix_is_a_directory(builder: DeltaBuilder, road: Road, prefix: str) -> None:
    vector = builder.vector(_SET, "u", prefix)
    assert (builder.root / prefix).is_dir()
    assert road.column(_table(builder, vector=vector).scan(), "id") == _others(_SET)


@pytest.mark.req("DL-DV-07", half="reader")
def test_the_example_lies_in_its_prefix(builder: DeltaBuilder) -> None:
    body = bitmap_bytes([1])
    place = builder.root / "ab" / f"deletion_vector_{_EXAMPLE_UUID}.bin"
    place.parent.mkdir()
    place.write_bytes(b"\x01" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body)))
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 1,
        "sizeInBytes": len(body),
        "cardinality": 1,
    }
    assert ids_of(_table(builder, 3, vector=vector)) == [0, 2]


@pytest.mark.req("DL-DV-07", half="reader")
def test_a_name_too_short_is_refused(builder: DeltaBuilder) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-a", "offset": 1, "sizeInBytes": 36, "cardinality": 2}
    with pytest.raises(CorruptDeletionVectorError, match="too short"):
        ids_of(_table(builder, vector=vector))


@by_every_road
@pytest.mark.req("DL-DV-08", half="reader")
def test_absolute_paths_are_decoded(builder: DeltaBuilder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where%"
    vector = builder.vector(_SET, "p", directory=elsewhere)
    assert "%20" in vector["pathOrInlineDv"]
    assert ids_of(_table(builder, vector=vector)) == _others(_SET)
    place = "s3://mytable/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    resolver = PathResolver(parse_location("s3://mytable/t"), None)
    assert str(resolver.resolve(place)) == place


@by_every_road
@pytest.mark.req("DL-DV-12", half="reader")
def test_without_an_offset_it_is_zero(builder: DeltaBuilder) -> None:
    body = bitmap_bytes(_SET)
    # No version byte in front: the size is the first thing in the file.
    data = struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    vector = _stored(builder, data, sizeInBytes=len(body))
    assert ids_of(_table(builder, vector=vector)) == _others(_SET)


@by_every_road
@pytest.mark.req("DL-DV-12", "DL-DV-24", half="reader")
def test_offsets_are_places_of_the_size(builder: DeltaBuilder) -> None:
    first, second = builder.vectors([_SET, [0, 9]])
    assert (first["offset"], second["offset"]) == (1, 53)
    table = _table(builder, vector=second)
    builder.commit(builder.add(ids(*range(100, 130)), stats="full", vector=first))
    assert ids_of(table) == _others([0, 9])
    assert ids_of(open_table(builder.root)) == _others([0, 9]) + [100 + row for row in _others(_SET)]


@by_every_road
@pytest.mark.req("DL-DV-14", half="reader")
def test_a_wrong_cardinality_is_a_violation(builder: DeltaBuilder) -> None:
    right = builder.add(ids(*range(10)), vector=builder.vector([0, 9]), stats="full")
    builder.create(ID, right, protocol=builder.features("deletionVectors"))
    assert ids_of(open_table(builder.root, validate=True)) == list(range(1, 9))
    builder.commit(builder.add(ids(*range(10)), vector={**builder.vector([0, 9]), "cardinality": 3}, stats="full"))
    with pytest.raises(SpecViolationError, match="has 2 rows, but its descriptor says 3"):
        open_table(builder.root, validate=True)


@pytest.mark.req("DL-DV-15", half="reader")
@pytest.mark.req("DL-DV-15", half="writer")
def test_unique_ids() -> None:
    inline = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    absolute = f"s3://mytable/deletion_vector_{_EXAMPLE_UUID}.bin"
    relative = "ab^-aqEH.-t@S}K{vb[*k^"
    found = [
        unique_id({"storageType": kind, "pathOrInlineDv": path, "offset": offset})
        for kind, path, offset in (("u", relative, 4), ("i", inline, None), ("p", absolute, 4))
    ]
    assert found == [f"u{relative}@4", f"i{inline}", f"p{absolute}@4"]


@by_every_road
@pytest.mark.req("DL-DV-15", half="reader")
@pytest.mark.parametrize("same", [True, False])
def test_a_remove_names_the_vector_by_its_id(builder: DeltaBuilder, same: bool) -> None:
    first, second = builder.vectors([[0], [0]])
    add = builder.add(ids(1, 2), vector=first)
    builder.create(ID, add, protocol=builder.features("deletionVectors"))
    other = {**first, "offset": second["offset"]}
    builder.commit({"remove": {**builder.remove(add)["remove"], "deletionVector": first if same else other}})
    assert ids_of(open_table(builder.root)) == ([] if same else [2])


@by_every_road
@pytest.mark.req("DL-DV-16", half="reader")
@pytest.mark.parametrize("magic", [1681511378, 0, 0xFFFFFFFF])
def test_an_unknown_magic_number_is_refused(builder: DeltaBuilder, magic: int) -> None:
    body = struct.pack("<I", magic) + bitmap_bytes(_SET)[4:]
    with pytest.raises(CorruptDeletionVectorError, match=f"the magic number is {magic}"):
        ids_of(_table(builder, vector=_write(builder, body)))


@by_every_road
@pytest.mark.req("DL-DV-18", half="reader")
def test_positions_above_32_bits_are_of_other_rows(builder: DeltaBuilder) -> None:
    """The second bucket deletes nothing in a file this small: its positions are not taken for small ones."""
    vector = builder.vector([5, 4294967301, 4294967303])
    assert ids_of(_table(builder, vector=vector)) == _others([5])


@by_every_road
@pytest.mark.req("DL-DV-19", half="reader")
@pytest.mark.parametrize(("key", "is_valid"), [(0x7FFFFFFF, True), (0x80000000, False)])
def test_a_bucket_key_of_32_bits_is_refused(builder: DeltaBuilder, key: int, is_valid: bool) -> None:
    body = bytearray(bitmap_bytes([1 << 32]))
    assert struct.unpack_from("<QI", body, 4) == (1, 1)
    body[12:16] = struct.pack("<I", key)
    table = _table(builder, vector={**_write(builder, bytes(body)), "cardinality": 1})
    if is_valid:
        assert ids_of(table) == _others([])
        return
    with pytest.raises(CorruptDeletionVectorError, match="most significant bit"):
        ids_of(table)


@by_every_road
@pytest.mark.req("DL-DV-20", half="reader")
@pytest.mark.parametrize(
    ("deleted", "cookie"),
    [
        (_SET, 12346),
        (sorted(random.Random(7).sample(range(65_536), 5_000)), 12346),
        (range(100_000), 12347),
    ],
    ids=["array", "bitmap", "run"],
)
def test_rows_of_every_kind_of_container(builder: DeltaBuilder, deleted: Sequence[int], cookie: int) -> None:
    body = bitmap_bytes(deleted)
    assert struct.unpack_from("<H", body, 16)[0] == cookie
    table = _table(builder, 100_003, vector={**_write(builder, body), "cardinality": len(deleted)})
    assert ids_of(table) == _others(deleted, 100_003)


@by_every_road
@pytest.mark.req("DL-DV-21", half="reader")
@pytest.mark.parametrize("version", [0, 2, 255])
def test_an_unknown_version_of_the_file_is_refused(builder: DeltaBuilder, version: int) -> None:
    vector = _write(builder, bitmap_bytes(_SET), version=version)
    with pytest.raises(CorruptDeletionVectorError, match="version 1"):
        ids_of(_table(builder, vector=vector))


@by_every_road
@pytest.mark.req("DL-DV-21", "DL-DV-17", half="reader")
def test_the_bytes_of_the_example_file(builder: DeltaBuilder) -> None:
    data = bytes.fromhex("0100000024d1d339640100000000000000000000003a300000010000000000010010000000000009002a671846")
    assert len(data) == 45
    vector = _stored(builder, data, offset=1, sizeInBytes=36, cardinality=2)
    assert ids_of(_table(builder, vector=vector)) == _others([0, 9])


@by_every_road
@pytest.mark.req("DL-DV-22", half="reader")
def test_a_wrong_checksum_is_an_error(builder: DeltaBuilder) -> None:
    body = bitmap_bytes(_SET)
    assert (len(body), f"{zlib.crc32(body):08x}") == (44, "acd74a79")
    flipped = bytes([*body[:-1], body[-1] ^ 1])
    table = _table(builder, vector=_write(builder, body, crc=0xACD74A79))
    assert ids_of(table) == _others(_SET)
    builder.commit(builder.add(ids(1), vector=_write(builder, flipped, crc=0xACD74A79)))
    with pytest.raises(CorruptDeletionVectorError, match="checksum mismatch: stored acd74a79"):
        ids_of(open_table(builder.root))


@by_every_road
@pytest.mark.req("DL-DV-23")
@pytest.mark.parametrize(("stated", "described"), [(36, 35), (35, 36), (36, 40), (-1, 36), (2**31 - 1, 36)])
def test_the_size_in_the_file_and_the_described_one_agree(builder: DeltaBuilder, stated: int, described: int) -> None:
    vector = {**_write(builder, bitmap_bytes([0, 9]), size=stated), "sizeInBytes": described, "cardinality": 2}
    with pytest.raises(
        CorruptDeletionVectorError,
        match=r"vector declares|ends 4 bytes before",
    ):
        ids_of(_table(builder, vector=vector))


@by_every_road
@pytest.mark.req("DL-DV-28", half="reader")
def test_an_offset_is_taken_literally(builder: DeltaBuilder) -> None:
    body = bitmap_bytes(_SET)
    data = b"\x01\xff\xff\xff" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    vector = _stored(builder, data, offset=4, sizeInBytes=len(body))
    assert ids_of(_table(builder, vector=vector)) == _others(_SET)


@pytest.mark.req("DL-DV-28", half="reader")
def test_the_examples_parse(builder: DeltaBuilder) -> None:
    absolute = f"s3://mytable/deletion_vector_{_EXAMPLE_UUID}.bin"
    examples = [
        {
            "storageType": "u",
            "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
            "offset": 4,
            "sizeInBytes": 40,
            "cardinality": 6,
        },
        {"storageType": "p", "pathOrInlineDv": absolute, "offset": 4, "sizeInBytes": 40, "cardinality": 6},
        {
            "storageType": "i",
            "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
            "sizeInBytes": 40,
            "cardinality": 6,
        },
    ]
    adds = [builder.add(ids(*range(30)), path=f"{number}.parquet", vector=one) for number, one in enumerate(examples)]
    builder.create(ID, *adds, protocol=builder.features("deletionVectors"))
    live = {row["path"]: row["deletionVector"] for row in open_table(builder.root, "delta").live_files.to_pylist()}
    assert [live[f"{number}.parquet"] for number in range(3)] == [{"offset": None, **one} for one in examples]


_INLINE = [
    pytest.param(
        "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, id="literal", marks=pytest.mark.req("DL-DV-10")
    ),
    # It has neither a size nor a checksum.
    pytest.param(
        "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        44,
        id="plain",
        marks=pytest.mark.req("DL-DV-09", "DL-DV-13", half="reader"),
    ),
    pytest.param(
        "^9>0=0rr918#]%siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, id="native", marks=pytest.mark.req("BEY-18")
    ),
]


@by_every_road
@pytest.mark.parametrize(("text", "size"), _INLINE)
def test_inline_vectors_delete_their_rows(builder: DeltaBuilder, text: str, size: int) -> None:
    vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": len(_SET)}
    assert ids_of(_table(builder, vector=vector)) == _others(_SET)


def test_a_vector_beyond_the_end_of_the_file_deletes_what_is_there(builder: DeltaBuilder) -> None:
    assert ids_of(_table(builder, 5, vector=builder.vector([1, 2**40]))) == [0, 2, 3, 4]
