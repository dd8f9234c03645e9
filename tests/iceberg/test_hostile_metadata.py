"""Damaged or malicious metadata raises our own exceptions only, and costs bounded memory and time."""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg import open_table
from deltaberg.errors import CorruptMetadataError, DeltabergError, UnsupportedFeatureError
from deltaberg.iceberg.metadata import metadata_file
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_file import read_metadata
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING
from deltaberg.schema.arrow import arrow_schema
from tests.iceberg.metadata_json import SNAPSHOT, document, parse, parse_with, schema_of, write_metadata
from tests.support.effort import unhurried

pytestmark = pytest.mark.one_backend

_MIB = 1 << 20


def _rich(version: int) -> dict[str, Any]:
    """Metadata in which all parts that are read occur."""
    fields: list[dict[str, Any]] = [
        {"id": 1, "name": "id", "required": True, "type": "long", "doc": "who"},
        {"id": 2, "name": "at", "required": False, "type": "timestamptz"},
        {"id": 3, "name": "price", "required": False, "type": "decimal(9,2)", "initial-default": "14.20"},
        {
            "id": 4,
            "name": "tags",
            "required": False,
            "type": {"type": "list", "element-id": 5, "element-required": False, "element": "fixed[4]"},
            "initial-default": ["00010203"],
        },
        {
            "id": 6,
            "name": "places",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 7,
                "key": "string",
                "value-id": 8,
                "value-required": False,
                "value": {"type": "struct", "fields": [{"id": 9, "name": "x", "required": False, "type": "date"}]},
            },
        },
    ]
    mapping = [{"field-id": 1, "names": ["id"]}, {"names": ["tags"], "fields": [{"field-id": 5, "names": ["element"]}]}]
    order = {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}
    metadata = document(
        version,
        schemas=[schema_of(*fields, **{"identifier-field-ids": [1]})],
        current_schema_id=0,
        partition_specs=[
            {"spec-id": 0, "fields": [{"source-id": 2, "field-id": 1000, "name": "day", "transform": "day"}]}
        ],
        default_spec_id=0,
        sort_orders=[{"order-id": 1, "fields": [order]}],
        default_sort_order_id=1,
        properties={NAME_MAPPING: json.dumps(mapping), "a": "b"},
        snapshots=[SNAPSHOT, {**SNAPSHOT, "snapshot-id": 20, "parent-snapshot-id": 10, "schema-id": 0}],
        current_snapshot_id=20,
        refs={"main": {"snapshot-id": 20, "type": "branch"}, "t": {"snapshot-id": 10, "type": "tag"}},
        snapshot_log=[{"timestamp-ms": 100, "snapshot-id": 10}, {"timestamp-ms": 200, "snapshot-id": 20}],
        metadata_log=[{"timestamp-ms": 5, "metadata-file": "s3://b/v1.metadata.json"}],
        statistics=[{"snapshot-id": 10, "statistics-path": "s3://b/a.puffin"}],
    )
    if version == 1:
        metadata["schema"] = metadata["schemas"][0]
    return metadata


def _use(metadata: TableMetadata) -> None:
    """Use everything that a table needs of its metadata."""
    arrow_schema(metadata.current_schema.struct)
    if metadata.name_mapping is not None:
        metadata.name_mapping.find("id")
    for snapshot in metadata.snapshots.values():
        assert list(metadata.ancestors(snapshot))
        metadata.schema_of(snapshot)
    for name in metadata.all_refs:
        metadata.snapshot_of_ref(name)
    if metadata.snapshot_log:
        metadata.snapshot_as_of(metadata.snapshot_log[0].timestamp_ms)


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    parts: Any = ()
    if isinstance(node, dict):
        parts = node.items()
    elif isinstance(node, list):
        parts = enumerate(node)
    for key, value in parts:
        yield (*path, key)
        yield from _places(value, (*path, key))


_STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, False, 0, -1, 1, 1 << 31, 1 << 63, -(1 << 63) - 1, 10**40, 1.5, float("nan"), float("inf")),
        *("", "a", "\x00", "\ud800", "long", "decimal(99,1)", "fixed[999999999]", "fixed[0]", "geometry(x)", "2"),
        *([], [None], [[]], {}, {"type": "struct", "fields": []}, {"a": None}, ["a"], [1], "[" * 5000, [{}]),
    ]
)


@unhurried(500)
@given(st.sampled_from([1, 2, 3]), st.lists(st.tuples(st.integers(0, 1 << 20), _STRANGE), min_size=1, max_size=3))
def test_members_replaced(version: int, changes: list[tuple[int, Any]]) -> None:
    metadata = _rich(version)
    for number, value in changes:
        places = list(_places(metadata))
        *path, key = places[number % len(places)]
        within = metadata
        for step in path:
            within = within[step]
        within[key] = copy.deepcopy(value)
    try:
        _use(parse(metadata))
    except DeltabergError:
        return


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_member_left_out(version: int) -> None:
    _use(parse(_rich(version)))
    refused = 0
    for *path, key in list(_places(_rich(version))):
        metadata = _rich(version)
        within: Any = metadata
        for step in path:
            within = within[step]
        del within[key]
        try:
            _use(parse(metadata))
        except DeltabergError:
            refused += 1
    assert refused > 40


@pytest.mark.parametrize("compressed", [False, True])
def test_bytes_flipped(rng: random.Random, compressed: bool) -> None:
    plain = json.dumps(_rich(2)).encode()
    whole = gzip.compress(plain) if compressed else plain
    refused = 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            _use(read_metadata(bytes(data)))
        except DeltabergError:
            refused += 1
    assert refused > 100


@unhurried()
@given(st.binary(max_size=200), st.sampled_from([b"", b"\x1f\x8b", b"\x1f\x8b\x08\x00", b"{", b"\xef\xbb\xbf{"]))
def test_any_bytes(data: bytes, start: bytes) -> None:
    with pytest.raises(CorruptMetadataError, match="metadata"):
        read_metadata(start + data)


def test_cut_off() -> None:
    plain = json.dumps(_rich(3)).encode()
    packed = gzip.compress(plain)
    for whole, message in ((plain, "is not JSON"), (packed, r"is not JSON|cannot be decompressed")):
        read_metadata(whole)
        for length in range(0, len(whole), 7):
            with pytest.raises(CorruptMetadataError, match=message):
                read_metadata(whole[:length])
    with pytest.raises(CorruptMetadataError, match="cannot be decompressed"):
        read_metadata(packed + b"and more")


def test_several_streams() -> None:
    plain = json.dumps(document(properties={"a": "b"})).encode()
    packed = gzip.compress(plain[:50]) + gzip.compress(plain[50:]) + bytes(8)
    assert read_metadata(packed).properties == {"a": "b"}


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, '{"schema":{"type":' * 100_000])
def test_deep_json(text: str) -> None:
    with pytest.raises(CorruptMetadataError, match="is not JSON"):
        read_metadata(text.encode())


@pytest.mark.parametrize("nesting", ["list", "struct", "map"])
def test_deep_types(nesting: str) -> None:
    kind: Any = "int"
    for number in range(2, 2 + 2 * 150, 2):
        kind = {
            "list": {"type": "list", "element-id": number, "element-required": True, "element": kind},
            "struct": {"type": "struct", "fields": [{"id": number, "name": "a", "required": True, "type": kind}]},
            "map": {
                "type": "map",
                "key-id": number,
                "key": kind,
                "value-id": number + 1,
                "value-required": True,
                "value": "int",
            },
        }[nesting]
    field = {"id": 1, "name": "a", "required": True, "type": kind}
    with pytest.raises(CorruptMetadataError, match="nested too deeply"):
        parse_with(schemas=[schema_of(field)])


@pytest.mark.parametrize("digits", [20, 400, 5000])
def test_huge_numbers(digits: int) -> None:
    text = json.dumps(document()).replace('"last-updated-ms": 200', f'"last-updated-ms": {"9" * digits}')
    with pytest.raises(CorruptMetadataError, match=r"64 bits|is not JSON"):
        read_metadata(text.encode())


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e3", "1.0", "01", "0x10"])
def test_numbers_that_are_no_integers(text: str) -> None:
    changed = json.dumps(document()).replace('"last-updated-ms": 200', f'"last-updated-ms": {text}')
    with pytest.raises(CorruptMetadataError, match=r"last-updated-ms|is not JSON"):
        read_metadata(changed.encode())


def _with_text_everywhere() -> dict[str, Any]:
    """Return metadata that has the text HERE wherever a text is understood."""
    column = {"id": 1, "name": "HERE", "required": False, "type": "string", "initial-default": "HERE"}
    return document(
        1,
        location="HERE",
        schema=schema_of(column),
        properties={"HERE": "HERE"},
        snapshots=[
            {"snapshot-id": 1, "timestamp-ms": 1, "manifests": ["HERE"], "summary": {"HERE": "HERE"}},
            {"snapshot-id": 2, "timestamp-ms": 1, "manifest-list": "HERE"},
        ],
        refs={"HERE": {"snapshot-id": 1, "type": "branch"}},
        metadata_log=[{"timestamp-ms": 1, "metadata-file": "HERE"}],
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b'"\\ud800"', "surrogate|the default"),
        (b'"a\\uDfff"', "surrogate|the default"),
        (b'"\xed\xa0\x80"', "is not JSON"),
        (b'"\xff"', "is not JSON"),
    ],
)
def test_half_characters(bad: bytes, message: str) -> None:
    parts = json.dumps(_with_text_everywhere()).encode().split(b'"HERE"')
    assert len(parts) == 12
    for place in range(1, len(parts)):
        text = b'"HERE"'.join(parts[:place]) + bad + b'"HERE"'.join(parts[place:])
        with pytest.raises(CorruptMetadataError, match=message):
            read_metadata(text)


def test_whole_characters_in_two_escapes() -> None:
    field = {"id": 1, "name": "\U0001f600", "required": True, "type": "int"}
    text = json.dumps(document(schemas=[schema_of(field)]))
    assert "\\ud83d\\ude00" in text
    assert read_metadata(text.encode()).current_schema.struct.names == ["\U0001f600"]


def test_a_bomb_is_defused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_file, "MOST_BYTES", 4 * _MIB)
    bomb = gzip.compress(bytes(256 * _MIB))
    assert len(bomb) < _MIB
    tracemalloc.start()
    try:
        with pytest.raises(CorruptMetadataError, match="more than 4 MiB"):
            read_metadata(bomb)
        assert tracemalloc.get_traced_memory()[1] < 16 * _MIB
    finally:
        tracemalloc.stop()
    plain = json.dumps(document()).encode()
    padded = plain + b" " * (4 * _MIB - len(plain))
    assert read_metadata(gzip.compress(padded)).format_version == 2
    with pytest.raises(CorruptMetadataError, match="more than 4 MiB"):
        read_metadata(gzip.compress(padded + b" "))


def test_many_small_streams_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the file was copied for each stream, so that the time grew with the square of their number."""
    read = []

    class Counted(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            found = super().read(size)
            read.append(len(found))
            return found

    monkeypatch.setattr(io, "BytesIO", Counted)
    data = gzip.compress(b"") * 20_000
    with pytest.raises(CorruptMetadataError, match="is not JSON"):
        read_metadata(data)
    assert len(data) <= sum(read) <= 2 * len(data)


def test_other_compression_is_named() -> None:
    with pytest.raises(UnsupportedFeatureError, match="zstd"):
        read_metadata(b"\x28\xb5\x2f\xfd" + bytes(20))


def test_damage_names_the_file(tmp_path: Path) -> None:
    target = write_metadata(tmp_path, "v1.metadata.json")
    target.write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(CorruptMetadataError) as caught:
        open_table(tmp_path)
    assert caught.value.context["file"] == str(target)
