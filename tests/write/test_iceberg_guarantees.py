"""What the specification asks of writers beyond single files: which requests they make, and what entries name."""

from __future__ import annotations

import contextlib
import sqlite3
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from deltaberg import IcebergTable, create_table, load_catalog, open_table, write_table
from deltaberg.catalogs.base import Catalog
from deltaberg.errors import UnsupportedFeatureError
from deltaberg.files.formats.open_file import open_data_file
from deltaberg.storage.location import parse_location
from deltaberg.storage.remote import RemoteStorage
from deltaberg.storage.stores import StoreSpec
from tests.support.iceberg_builder import PATH_ID, POS_ID, IcebergBuilder
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend


@pytest.mark.req("ICE-GEN-07", half="writer")
def test_writing_needs_whole_puts_reads_and_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a metastore names the newest metadata, no file is listed, renamed, put on a condition or written twice."""
    written: Counter[tuple[str, str]] = Counter()

    def noted(name: str) -> Any:
        whole = getattr(RemoteStorage, name)

        def put(self: RemoteStorage, path: str, *arguments: Any, if_absent: bool = False, **options: Any) -> Any:
            assert not if_absent, path
            written[name, path] += 1
            return whole(self, path, *arguments, **options)

        return put

    def looked(name: str) -> Any:
        whole = getattr(RemoteStorage, name)

        def look(self: RemoteStorage, path: str, *arguments: Any, **options: Any) -> Any:
            # A new table looks whether its directory is that of another.
            assert not written, path
            return whole(self, path, *arguments, **options)

        return look

    def refuse(*arguments: Any, **_options: Any) -> Any:
        raise AssertionError(arguments)

    # Strays are looked for without a request.
    needed = {"get", "get_ranges", "head", "open", "delete", "delete_many", "strays"}
    for name in [name for name in vars(RemoteStorage) if not name.startswith("_")]:
        if name in ("put", "open_output"):
            monkeypatch.setattr(RemoteStorage, name, noted(name))
        elif name in ("has_objects", "list_from", "walk"):
            monkeypatch.setattr(RemoteStorage, name, looked(name))
        elif name not in needed:
            monkeypatch.setattr(RemoteStorage, name, refuse)
    name = uuid.uuid4().hex
    database = f"file:{name}?mode=memory&cache=shared"
    # The database is there as long as a connection is open.
    with contextlib.closing(sqlite3.connect(database, uri=True)):
        _write_in_all_ways(
            load_catalog("shop", type="sql", uri=f"sqlite:///{database}&uri=true", warehouse=f"memory://{name}/w")
        )
    assert max(written.values()) == 1


def _write_in_all_ways(catalog: Catalog) -> None:
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    catalog.create_namespace("s")
    table = create_table("s.t", ID, catalog=catalog, properties=properties, partition_by="bucket(2, id)")
    table.append(ids(*range(4)))
    table.append(ids(10, 11))
    table.delete("id % 2 = 1 AND id > 2", strategy="copy-on-write")
    table.delete("id = 0", strategy="merge-on-read")
    table.update({"id": "id + 100"}, "id = 10", strategy="merge-on-read")
    table.upsert(ids(1, 5), "id", strategy="copy-on-write")
    table.delete_by_keys(ids(2))
    table.overwrite(ids(1), where="id = 1")
    with table.transaction() as transaction:
        transaction.append(ids(30))
        transaction.alter().add("n", pa.string())
        transaction.delete("id = 30")
    table.append(ids(40), properties={"wap.id": "w"})
    table.publish("w")
    table.alter().create_branch("b").set({"format-version": "3"}).commit()
    table.append(ids(50), branch="b")
    table.alter().fast_forward("main", "b").commit()
    assert table.compact(min_files=2).conflicts == []
    assert ids_of(catalog.load_table("s.t")) == [1, 5, 40, 50, 110]
    write_table("s.t", ids(7), catalog=catalog, mode="overwrite", schema_mode="overwrite")
    assert ids_of(catalog.load_table("s.t")) == [7]


@pytest.mark.req("ICE-MAN-10", half="writer")
@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_entries_name_whole_uris_and_formats(version: str) -> None:
    table = create_table(f"memory://b{version}/t", ID, format="iceberg", properties={"format-version": version})
    for form in ("parquet", "orc", "avro"):
        table.alter().set({"write.format.default": form}).commit()
        table.append(ids(1, 2))
    if version != "1":
        table.delete("id = 1", strategy="merge-on-read")
    store = StoreSpec().open(parse_location(table.location))
    named: list[dict[str, Any]] = []
    for row in table.inspect("manifests").to_pylist():
        place = parse_location(row["path"])
        assert str(place) == row["path"]
        with store.open(place.path) as file:
            reader: Any = fastavro.reader(file)
            named += [record["data_file"] for record in reader]
        fields = next(child["type"] for child in reader.writer_schema["fields"] if child["name"] == "data_file")
        found = {child["field-id"]: (child["name"], child["type"]) for child in fields["fields"]}
        assert (found[100], found[101]) == (("file_path", "string"), ("file_format", "string"))
    # As the Java library spells them; readers take any case.
    assert {one["file_format"] for one in named} == {"PARQUET", "ORC", "AVRO"} | (
        {"PUFFIN"} if version == "3" else set()
    )
    for one in named:
        assert one["file_path"].startswith(f"memory://b{version}/t/data/")
        assert one["file_path"].endswith("." + one["file_format"].lower())
        assert store.head(parse_location(one["file_path"]).path).size == one["file_size_in_bytes"]
    with pytest.raises(UnsupportedFeatureError, match="csv"):
        table.alter().set({"write.format.default": "csv"})


def _columns(path: str, form: str) -> list[tuple[str, int]]:
    """Return the columns of a file, and their field ids."""
    stored = open_data_file(form, parse_location(path), StoreSpec(), None).schema_with(None)
    return [(child.name, int(child.metadata[b"PARQUET:field_id"])) for child in stored]


@pytest.mark.req("ICE-SCH-19", "ICE-DEL-06", half="writer")
@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_delete_files_hold_paths_and_positions_but_no_rows(tmp_path: Path, form: str) -> None:
    """Delete files of others may hold rows; one that takes in their deletes would know only some, and holds none."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    files = [
        builder.data([{"id": 10 * file + row} for row in range(5)], format=form, row_group_size=2) for file in (0, 1)
    ]
    row = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    fields = [
        {"id": PATH_ID, "name": "file_path", "required": True, "type": "string"},
        {"id": POS_ID, "name": "pos", "required": True, "type": "long"},
        {"id": 2147483544, "name": "row", "required": True, "type": row},
    ]
    theirs = builder.data([{"file_path": files[0].path, "pos": 3, "row": {"id": 3}}], fields=fields, format=form)
    theirs.content = 1
    theirs.more = {"referenced_data_file": files[0].path}
    builder.commit(*files, theirs)
    table: IcebergTable = open_table(builder.root, "iceberg")
    table.alter().set({"write.delete.format.default": form, "write.delete.granularity": "file"}).commit()
    table.delete("id IN (1, 14)", strategy="merge-on-read")
    left = [(10 * file + row, row, files[file].path) for file in (0, 1) for row in range(5)]
    left = [one for one in left if one[0] not in (1, 3, 14)]
    found = table.scan(columns=["id", "_pos", "_file"]).to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in found) == left
    deletes = table.inspect("delete_files").to_pylist()
    assert sorted(one["record_count"] for one in deletes) == [1, 2]
    for one in deletes:
        assert one["file_path"] != theirs.path
        assert _columns(one["file_path"], form) == [("file_path", 2147483546), ("pos", 2147483545)]
