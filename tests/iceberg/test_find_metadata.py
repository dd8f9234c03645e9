"""Finding the newest metadata file of a table."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptMetadataError, ObjectNotFoundError, TableNotFoundError
from deltaberg.iceberg.location.find_metadata import find_metadata, is_metadata_file
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from tests.iceberg.metadata_json import document, write_metadata

pytestmark = pytest.mark.one_backend

_UUID = "cd0ff1f5-7e7b-4cbb-a1a6-1a2b3c4d5e6f"


def _write(root: Path, *names: str) -> None:
    for name in names:
        write_metadata(root, name)


def _hint(root: Path, text: str | bytes) -> None:
    (root / "metadata" / "version-hint.text").write_bytes(text if isinstance(text, bytes) else text.encode())


def _found(root: Path) -> str:
    return find_metadata(parse_location(root), StoreSpec()).file.path.rpartition("/")[2]


@pytest.mark.req("BEY-50", "ICE-COM-09", half="reader")
@pytest.mark.parametrize("hint", ["3", "3\n", "v3", " 5 ", "1"])
def test_the_hint_is_where_the_search_begins(tmp_path: Path, hint: str) -> None:
    for number in range(1, 6):
        write_metadata(tmp_path, f"v{number}.metadata.json", document(properties={"version": str(number)}))
    _hint(tmp_path, hint)
    assert _found(tmp_path) == "v5.metadata.json"
    assert open_table(tmp_path).properties == {"version": "5"}


def test_the_hint_wins_over_what_is_not_linked_to_it(tmp_path: Path) -> None:
    _write(tmp_path, "v2.metadata.json", "v3.metadata.json", "v9.metadata.json", f"00012-{_UUID}.metadata.json")
    _hint(tmp_path, "2")
    assert _found(tmp_path) == "v3.metadata.json"


@pytest.mark.req("BEY-50", "ICE-COM-09", half="reader")
@pytest.mark.parametrize(
    "hint",
    [
        None,
        "",
        "  \n",
        "latest",
        "-1",
        "1.0",
        "7",
        "9" * 30,
        "\u0663",
        "v",
        "../v1",
        "00003-x\0y",
        "00003-" + "x" * 5000,
        b"\xff\xfe\x00",
        f"00007-{_UUID}",
    ],
)
def test_without_a_usable_hint_the_directory_is_listed(tmp_path: Path, hint: str | bytes | None) -> None:
    _write(tmp_path, "v1.metadata.json", "v2.metadata.json", "v10.metadata.json", "v9.metadata.json")
    if hint is not None:
        _hint(tmp_path, hint)
    assert _found(tmp_path) == "v10.metadata.json"


def test_hints_that_name_a_file(tmp_path: Path) -> None:
    _write(tmp_path, f"00001-{_UUID}.metadata.json", "00002-other.metadata.json", "00003-newest.metadata.json")
    _hint(tmp_path, "00002-other\n")
    assert _found(tmp_path) == "00002-other.metadata.json"


def test_the_newest_of_a_listing(tmp_path: Path) -> None:
    _write(tmp_path, f"00009-{_UUID}.metadata.json", f"00010-{_UUID}.metadata.json", f"2-{_UUID}.metadata.json")
    for name in (
        "snap-99.avro",
        "99.metadata.json",
        "v99.json",
        "99-m0.avro",
        "v99.metadata.json.bak",
        "x.metadata.json",
    ):
        (tmp_path / "metadata" / name).write_bytes(b"")
    # A clock may be wrong; a number is not.
    for name, seconds in ((f"00009-{_UUID}", 3_000), (f"00010-{_UUID}", 1_000), (f"2-{_UUID}", 2_000)):
        os.utime(tmp_path / "metadata" / f"{name}.metadata.json", (seconds, seconds))
    assert _found(tmp_path) == f"00010-{_UUID}.metadata.json"
    # A directory hides what its name stands for: no older version opens in its place.
    (tmp_path / "metadata" / "v99.metadata.json").mkdir()
    with pytest.raises(ObjectNotFoundError, match=r"v99\.metadata\.json"):
        open_table(tmp_path)


@pytest.mark.parametrize("newest", ["00003-a", "00003-b"])
def test_of_equal_numbers_the_youngest_is_taken(tmp_path: Path, newest: str) -> None:
    for name in ("00003-a", "00003-b"):
        target = write_metadata(tmp_path, f"{name}.metadata.json")
        seconds = 2_000 if name == newest else 1_000
        os.utime(target, (seconds, seconds))
    assert _found(tmp_path) == f"{newest}.metadata.json"


@pytest.mark.req("BEY-49")
@pytest.mark.parametrize("hint", [None, "4"])
@pytest.mark.parametrize("name", ["v4.gz.metadata.json", "v4.metadata.json.gz"])
def test_names_of_compressed_metadata(tmp_path: Path, name: str, hint: str | None) -> None:
    _write(tmp_path, "v3.metadata.json")
    target = tmp_path / "metadata" / name
    target.write_bytes(gzip.compress(json.dumps(document(properties={"a": "b"})).encode()))
    if hint is not None:
        _hint(tmp_path, hint)
        _write(tmp_path, "v9.metadata.json")
    table = open_table(tmp_path, "iceberg")
    assert (table.metadata_location, table.properties) == (str(target), {"a": "b"})
    assert open_table(target, "iceberg").properties == {"a": "b"}


@pytest.mark.req("BEY-49")
@pytest.mark.parametrize("suffix", [".metadata.json", ".gz.metadata.json", ".metadata.json.gz"])
@pytest.mark.parametrize("compressed", [False, True])
def test_the_first_bytes_say_what_is_compressed(tmp_path: Path, suffix: str, compressed: bool) -> None:
    data = json.dumps(document(properties={"a": "b"})).encode()
    target = write_metadata(tmp_path, f"00001-{_UUID}{suffix}")
    target.write_bytes(gzip.compress(data) if compressed else data)
    assert open_table(tmp_path).properties == {"a": "b"}


@pytest.mark.parametrize("name", ["v1.metadata.json", f"00007-{_UUID}.gz.metadata.json", "any.metadata.json"])
def test_a_metadata_file_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    target = write_metadata(tmp_path, name)
    _write(tmp_path, "v999.metadata.json")
    place = find_metadata(parse_location(target), StoreSpec())
    assert is_metadata_file(place.file)
    assert (str(place.file), str(place.root)) == (str(target), str(tmp_path))
    assert open_table(target, "iceberg").metadata_location == str(target)


@pytest.mark.parametrize("name", ["v1.metadata.json", "v1.gz.metadata.json"])
def test_a_metadata_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    target = write_metadata(tmp_path, "v2.metadata.json").parent / name
    with pytest.raises(TableNotFoundError, match="no such metadata file") as caught:
        open_table(target)
    assert caught.value.context["file"] == str(target)
    assert "directory" in str(caught.value.hint)


def test_a_metadata_file_outside_of_a_metadata_directory(tmp_path: Path) -> None:
    target = write_metadata(tmp_path, "v1.metadata.json").rename(tmp_path / "v1.metadata.json")
    place = find_metadata(parse_location(target), StoreSpec())
    assert (str(place.file), str(place.root)) == (str(target), str(tmp_path))


@pytest.mark.parametrize("made", [(), ("metadata",), ("metadata", "data"), ("data",)])
def test_no_table(tmp_path: Path, made: tuple[str, ...]) -> None:
    for name in made:
        (tmp_path / name).mkdir()
    for root, reason in ((tmp_path, "no metadata file"), (tmp_path / "nowhere", "the directory does not exist")):
        with pytest.raises(TableNotFoundError, match=reason) as caught:
            find_metadata(parse_location(root), StoreSpec())
        assert caught.value.context["table"] == str(root)
        assert "load_catalog" in str(caught.value.hint)


def test_a_hint_and_no_metadata(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    _hint(tmp_path, "3")
    with pytest.raises(TableNotFoundError, match="no metadata file in metadata/"):
        find_metadata(parse_location(tmp_path), StoreSpec())


@pytest.mark.parametrize("scheme", ["memory://x/table", "memory://x/a b/100%/table"])
def test_object_stores(scheme: str) -> None:
    location = parse_location(scheme)
    store = StoreSpec()
    opened = store.open(location)
    for number in (1, 2):
        opened.put(location.join(f"metadata/v{number}.metadata.json").path, json.dumps(document()).encode())
    place = find_metadata(location, store)
    assert place.file == location.join("metadata/v2.metadata.json")
    opened.put(location.join("metadata/version-hint.text").path, b"1")
    assert find_metadata(location, store) == place


def test_the_damaged_file_is_named(tmp_path: Path) -> None:
    target = write_metadata(tmp_path, "v1.metadata.json", {"format-version": "2"})
    with pytest.raises(CorruptMetadataError, match="format-version") as caught:
        open_table(tmp_path)
    assert caught.value.context["file"] == str(target)


def test_reading_again_finds_the_next_version(tmp_path: Path) -> None:
    write_metadata(tmp_path, "v1.metadata.json")
    _hint(tmp_path, "1")
    table = open_table(tmp_path)
    before: Any = table.metadata
    assert table.refresh().metadata is before
    write_metadata(tmp_path, "v2.metadata.json", document(properties={"a": "b"}))
    assert table.refresh().properties == {"a": "b"}


@pytest.mark.parametrize("by_file", [False, True])
def test_a_table_made_again_is_noticed(tmp_path: Path, by_file: bool) -> None:
    """The metadata file of the new table may have the name of the old one's."""
    file = write_metadata(tmp_path, "v1.metadata.json")
    table = open_table(file if by_file else tmp_path)
    shutil.rmtree(tmp_path / "metadata")
    write_metadata(tmp_path, "v1.metadata.json", document(table_uuid=str(uuid.uuid4()), properties={"other": "table"}))
    with pytest.raises(CorruptMetadataError, match="table-uuid"):
        table.refresh()
