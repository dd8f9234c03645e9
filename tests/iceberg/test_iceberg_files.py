"""Single files that other implementations of Iceberg wrote, with contents that are known."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from deltaberg import IcebergTable, kernels, open_table
from deltaberg.errors import CorruptAvroError, CorruptDataFileError, CorruptDeletionVectorError, SchemaError
from deltaberg.iceberg.deletes.puffin import PuffinFile
from deltaberg.iceberg.manifests.fields import METRICS, ManifestPart
from deltaberg.iceberg.manifests.manifest_list import read_manifest_list
from deltaberg.iceberg.manifests.manifests import read_manifest
from deltaberg.schema.types import Struct
from deltaberg.schema.variants.values import variant_to_json
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from tests.support.canon import digest
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile
from tests.support.roads import by_every_road
from tests.support.shared import shared_directory

_FOLDER = "iceberg-files"


@cache
def _expected() -> dict[str, dict[str, Any]]:
    shared = shared_directory()
    if shared is None:
        return {}
    text = (shared / "conformance" / "EXPECTED" / "iceberg-files.json").read_text(encoding="utf-8")
    return {name.removeprefix(f"{_FOLDER}/"): told for name, told in json.loads(text).items()}


def _names(*folders: str) -> list[str]:
    return [name for name in _expected() if name.startswith(folders)]


@pytest.fixture
def files(conformance: Path) -> Path:
    """The folder of the files."""
    return conformance / _FOLDER


def _has_positions(bitmap: bytes, cardinality: int, told: dict[str, Any]) -> None:
    found = kernels.bitmap_positions(bitmap, 1 << 20).to_pylist()
    assert len(found) == cardinality == told["cardinality"]
    assert found[: len(told["first"])] == told["first"]
    assert found[len(found) - len(told["last"]) :] == told["last"]
    lines = "\n".join(str(position) for position in found)
    assert hashlib.sha256(lines.encode()).hexdigest() == told["sha256_of_lines"]


_BITMAPS = "java-position-bitmaps/"
_MAGIC = bytes.fromhex("d1d33964")


def test_everything_that_is_told_is_looked_at(conformance: Path) -> None:
    """Metadata files are tested elsewhere."""
    known = (_BITMAPS, "go-dv/", "go-puffin/", "java-puffin/", "java-parquet-encodings/", "go-table/shredded_variant/")
    rest = [name for name in _expected() if not name.startswith(known)]
    assert len(rest) < len(_expected()) == 111
    assert all("TableMetadata" in name or "table_metadata" in name for name in rest)


@pytest.mark.req("BEY-34", half="reader")
@pytest.mark.parametrize("name", _names(_BITMAPS))
def test_bitmaps(name: str, files: Path) -> None:
    data, told = (files / name).read_bytes(), _expected()[name]
    is_blob = name.endswith("-position-index.bin")
    framing, framed = ("puffin", data) if is_blob else ("delta-inline", _MAGIC + data)
    if "error" in told:
        with pytest.raises(CorruptDeletionVectorError, match="is not a cookie of a 32-bit Roaring bitmap"):
            kernels.unframe_bitmap(framed, framing)
        return
    _has_positions(*kernels.unframe_bitmap(framed, framing), told)


@pytest.mark.req("BEY-33", half="reader")
@pytest.mark.parametrize("name", _names("go-dv/", "go-puffin/", "java-puffin/"))
def test_puffin_files(name: str, files: Path) -> None:
    told = _expected()[name]
    puffin = PuffinFile(parse_location(str(files / name)), StoreSpec())
    assert puffin.properties == (told["properties"] or {})
    assert len(puffin.blobs) == len(told["blobs"])
    for blob, of_blob in zip(puffin.blobs, told["blobs"], strict=True):
        assert blob.type == of_blob["type"]
        assert list(blob.fields) == of_blob["fields"]
        assert (blob.snapshot_id, blob.sequence_number) == (of_blob["snapshot-id"], of_blob["sequence-number"])
        assert (blob.offset, blob.length) == (of_blob["offset"], of_blob["length"])
        assert blob.compression_codec == of_blob.get("compression-codec")
        assert blob.properties == of_blob.get("properties", {})
        data = puffin.read(blob)
        if "positions" in of_blob:
            _has_positions(*kernels.unframe_bitmap(data, "puffin"), of_blob["positions"])
            assert blob.properties["cardinality"] == str(of_blob["positions"]["cardinality"])


@pytest.mark.req("BEY-33", half="reader")
def test_blobs_are_the_same_with_and_without_compression(files: Path) -> None:
    plain, compressed = (
        PuffinFile(parse_location(str(files / "java-puffin" / f"sample-metric-data-{kind}.bin")), StoreSpec())
        for kind in ("uncompressed", "compressed-zstd")
    )
    found = [plain.read(blob) for blob in plain.blobs]
    assert found == [compressed.read(blob) for blob in compressed.blobs]
    assert found[0] == b"abcdefghi"
    assert found[1].startswith(b"some blob \0 binary data ")


@pytest.mark.req("BEY-33", half="reader")
def test_statistics_of_other_engines(conformance: Path) -> None:
    found = sorted((conformance / "iceberg").rglob("*.stats"))
    assert len(found) == 2
    for path in found:
        puffin = PuffinFile(parse_location(str(path)), StoreSpec())
        assert puffin.properties["created-by"].startswith("Trino version")
        for blob in puffin.blobs:
            assert blob.type == "apache-datasketches-theta-v1"
            # A sketch begins with its preamble, serial version 3 and family 3.
            assert puffin.read(blob)[1:3] == b"\3\3"


def _table_of(
    root: Path, source: Path, rows: int, types: Mapping[str, str], *, ids: bool = True, version: int = 2
) -> IcebergTable:
    """Return a table with a copy of a Parquet file."""
    names = [{"field-id": number, "names": [name]} for number, name in enumerate(types, start=1)]
    properties = {} if ids else {"schema.name-mapping.default": json.dumps(names)}
    builder = IcebergBuilder(root / "t", types, format_version=version, properties=properties)
    path = builder.root / "data" / source.name
    shutil.copyfile(source, path)
    builder.commit(IcebergFile(str(path), rows, path.stat().st_size))
    return open_table(builder.root, "iceberg")


_ENCODINGS = "java-parquet-encodings/"


@pytest.mark.parametrize("name", _names(_ENCODINGS))
def test_encodings_of_parquet(name: str, files: Path, tmp_path: Path) -> None:
    told = _expected()[name]
    kind = Path(name).stem.removesuffix("_with_nulls")
    if kind.startswith("decimal"):
        types = {"id": "decimal(38,0)"}
    else:
        types = {"data": {"int32": "int", "int64": "long"}.get(kind, kind)}
    rows = _table_of(tmp_path / "one", files / name, told["rows"], ids=False, types=types).scan().to_arrow()
    assert rows.num_rows == told["rows"]
    assert digest(rows) == told["sha256"]
    if told.get("equals_PLAIN"):
        twin = files / _ENCODINGS / "PLAIN" / Path(name).name
        plain = _table_of(tmp_path / "twin", twin, told["rows"], ids=False, types=types).scan().to_arrow()
        # As text: NaN equals nothing.
        assert digest(rows) == digest(plain)


def _variant(data: bytes) -> tuple[bytes, bytes]:
    """Return the metadata and the value of a variant."""
    width = (data[0] >> 6) + 1
    count = int.from_bytes(data[1 : 1 + width], "little")
    offsets = 1 + width
    last = int.from_bytes(data[offsets + count * width : offsets + (count + 1) * width], "little")
    end = offsets + (count + 1) * width + last
    return data[:end], data[end:]


_SHREDDED = "go-table/shredded_variant/"


@by_every_road
@pytest.mark.req("BEY-37", half="reader")
@pytest.mark.parametrize("name", _names(_SHREDDED))
def test_shredded_variants(name: str, files: Path, tmp_path: Path) -> None:
    told = _expected()[name]
    rows = told.get("rows", 1)
    table = _table_of(tmp_path, files / name, rows, {"id": "int", "var": "variant"}, version=3)
    expected = {
        int(path.name.split("row-")[1].split(".")[0]): _variant(path.read_bytes())
        for path in (files / name).parent.glob(f"{Path(name).stem}_row-*.variant.bin")
    }
    if not expected:
        # Values that conflict with each other, and types that no variant is shredded as.
        with pytest.raises((SchemaError, CorruptDataFileError)) as caught:
            table.scan().to_arrow()
        assert caught.value.context["column"] == "var"
        return
    variants = table.scan().to_arrow().column("var").to_pylist()
    assert len(variants) == rows
    texts = [None if row is None else variant_to_json(row["metadata"], row["value"]) for row in variants]
    assert texts == [variant_to_json(*expected[row]) if row in expected else None for row in range(rows)]
    for row, (metadata, value) in expected.items():
        assert (variants[row]["metadata"], variants[row]["value"]) == (metadata, value)
    for text, told_text in zip(texts, told.get("expected_json", texts), strict=True):
        assert told_text in (None, text)


def test_manifest_lists_of_other_writers(files: Path) -> None:
    told = {
        "icebird-files/snap-8656952484400131532-1-a85973e4-4009-4cba-875e-5278a2c6027d": (
            21,
            8656952484400131532,
            None,
        ),
        "rust-manifest-lists/manifest-list-v2-1": (1, 6653143792592159268, None),
        "rust-manifest-lists/manifest-list-v2-2": (1, 3083072880052097243, None),
    }
    for name, (rows, snapshot, first_row) in told.items():
        (row,) = read_manifest_list((files / f"{name}.avro").read_bytes()).to_pylist()
        assert (row["added_rows_count"], row["added_snapshot_id"], row["first_row_id"]) == (rows, snapshot, first_row)
        # Some writers call it added_data_files_count: the id decides.
        assert (row["added_files_count"], row["existing_files_count"], row["sequence_number"]) == (1, 0, 1)
    first, second = read_manifest_list((files / "go-table" / "duckdb_v3_manifest_list.avro").read_bytes()).to_pylist()
    assert (first["first_row_id"], first["added_rows_count"]) == (0, 100)
    assert first["manifest_path"].startswith("s3://warehouse/")
    assert second["manifest_path"] != first["manifest_path"]
    with pytest.raises(CorruptAvroError, match="this is not an Avro file"):
        read_manifest_list((files / "rust-manifest-lists" / "manifest-list-v3-encrypted.avro").read_bytes())


def test_a_manifest_of_another_writer(files: Path) -> None:
    folder = files / "icebird-files"
    stem = "a85973e4-4009-4cba-875e-5278a2c6027d-m0"
    (told,) = json.loads((folder / f"{stem}.json").read_text())
    manifests = read_manifest_list(next(folder.glob("snap-*.avro")).read_bytes()).to_pylist()
    part = ManifestPart(metrics=tuple(METRICS), rest=("split_offsets", "sort_order_id"))
    (manifest_entry,) = read_manifest(
        (folder / f"{stem}.avro").read_bytes(), manifests[0], Struct(()), part
    ).to_pylist()
    data_file = told["data_file"]
    assert (manifest_entry["status"], manifest_entry["sequence_number"]) == (1, 1)
    for name in ("content", "file_path", "record_count", "file_size_in_bytes", "split_offsets", "sort_order_id"):
        assert manifest_entry[name] == data_file[name], name
    assert manifest_entry["file_format"] == data_file["file_format"].lower()
    for name in METRICS:
        pairs = data_file.get(name)
        if pairs is not None:
            values = {pair["key"]: pair["value"] for pair in pairs}
            assert {
                key: list(value) if isinstance(value, bytes) else value for key, value in manifest_entry[name]
            } == values
