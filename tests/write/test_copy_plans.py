"""Plans of copies: a table that was copied by its plan is whole where nothing of the old place is left."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import IcebergTable, RewriteTablePathResult, create_table
from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.maintain.copying.path_prefix import PathPrefix
from deltaberg.iceberg.manifests.fields import WHOLE_ENTRIES
from deltaberg.iceberg.scan.source import IcebergSource
from tests.support.below_verbs import begin
from tests.support.iceberg_builder import IcebergBuilder
from tests.write.small_iceberg import as_pyiceberg_reads

_COLUMNS = pa.schema([("id", pa.int32()), ("p", pa.int32())])
_MODES = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
_OLD = "old"


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "p": [number % 2 for number in ids]}, _COLUMNS)


def _table(root: Path, version: int, **more: Any) -> IcebergTable:
    """Return a table with all kinds of deletes that its version has, a snapshot of each, a tag and statistics."""
    place = root / _OLD / "t"
    properties = {**_MODES, "format-version": str(version), "write.data.path": str(place / "elsewhere")} | more
    table: IcebergTable = create_table(place, _COLUMNS, format="iceberg", partition_by=["p"], properties=properties)
    table.append(_rows(*range(10)))
    table.compute_partition_stats()
    table.append(_rows(*range(10, 20)))
    if version > 1:
        table.delete("id IN (2, 3, 14)")
        table.delete_by_keys(pa.table({"id": [5, 16]}))
        table.delete("id = 4")
    table.alter().create_tag("kept").commit()
    table.rewrite_manifests(rewrite_all=True)
    return table


def _copied(root: Path, plan: RewriteTablePathResult, *, leaves: bool = False) -> list[str]:
    """Copy by the file of a plan, delete the old place, and return the sources."""
    with Path(plan.file_list_location).open(newline="") as lines:
        pairs = list(csv.reader(lines))
    assert plan.files.to_pydict() == {"source": [a for a, _ in pairs], "target": [b for _, b in pairs]}
    assert len({target for _, target in pairs}) == len(pairs)
    for source, target in pairs:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    if not leaves:
        shutil.rmtree(root / _OLD)
    return [source for source, _ in pairs]


def _states(table: IcebergTable) -> dict[int, list[dict[str, Any]]]:
    """Return the rows of each snapshot, with their ids where they have some."""
    columns = ["id", "p"]
    if table.format_version == 3:
        columns += ["_row_id", "_last_updated_sequence_number"]
    return {
        one.snapshot_id: IcebergTable(table.metadata_location, snapshot_id=one.snapshot_id)
        .scan(columns=columns)
        .to_arrow()
        .sort_by("id")
        .to_pylist()
        for one in table.snapshots
    }


def _entries(table: IcebergTable) -> list[dict[str, Any]]:
    source: IcebergSource = begin(table).source
    found = []
    for one in source.reader.read(source.manifests.to_pylist(), WHOLE_ENTRIES):
        found += one.table.drop_columns(["position", "manifest"]).to_pylist()
    return sorted(found, key=lambda row: (row["file_path"].rpartition("/")[2], row["content_offset"] or 0))


def _old_paths(root: Path) -> list[str]:
    """Return the files of a copy that still name the old place, compressed ones decoded."""
    paths = []
    for path in root.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if path.suffix == ".avro":
                from fastavro import reader

                with path.open("rb") as file:
                    data += str(list(reader(file))).encode()
            elif path.suffix == ".parquet":
                data += str(pq.read_table(path).to_pydict()).encode()
            if f"/{_OLD}/".encode() in data:
                paths.append(str(path))
    return paths


@pytest.mark.req("ICE-MNT-21", half="writer")
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("form", ["parquet", "avro", "orc"])
def test_a_copied_table_needs_nothing_of_the_old_place(tmp_path: Path, version: int, form: str) -> None:
    table = _table(tmp_path, version, **{"write.delete.format.default": form})
    before, entries = _states(table), _entries(table)
    table_files = {str(path) for path in (tmp_path / _OLD).rglob("*") if path.is_file()}
    assert len(before) == (3 if version == 1 else 6)
    plan = table.rewrite_table_path(table.location, tmp_path / "new" / "t")
    assert plan.latest_version == Path(table.metadata_location).name
    assert plan.rewritten_manifests > 1
    assert (plan.rewritten_delete_files > 0) == (version > 1)
    sources = _copied(tmp_path, plan)
    # Nothing of the table is missing, but for the hint, without which a directory is listed.
    staging = plan.file_list_location.removesuffix("file-list")
    stood_for = {one.replace(staging, f"{table.location}/") for one in sources}
    assert stood_for == {one for one in table_files if not one.endswith("version-hint.text")}

    copy = IcebergTable(tmp_path / "new" / "t")
    assert copy.metadata_location == plan.metadata_location
    assert _states(copy) == before
    assert IcebergTable(tmp_path / "new" / "t", ref="kept").scan().to_arrow().num_rows == len(before[list(before)[-2]])
    assert copy.properties["write.data.path"] == str(tmp_path / "new" / "t" / "elsewhere")
    assert _old_paths(tmp_path / "new") == []
    assert copy.verify(depth="footers").findings == ()
    for old, new in zip(entries, _entries(copy), strict=True):
        assert new["file_path"] == old["file_path"].replace(f"/{_OLD}/", "/new/")
        assert new["file_size_in_bytes"] == Path(new["file_path"]).stat().st_size
        unlike = {name for name in old if old[name] != new[name]}
        if old["content"] != 1:
            assert unlike == {"file_path"}
        assert new["referenced_data_file"] is None or Path(new["referenced_data_file"]).exists()
    # It goes on from there.
    copy.append(_rows(100))
    copy.delete("id = 7")
    assert copy.scan().to_arrow().num_rows == len(before[table.snapshots[-1].snapshot_id])
    assert copy.verify(depth="footers").findings == ()


@pytest.mark.parametrize("version", [1, 2])
def test_pyiceberg_reads_a_copy(tmp_path: Path, version: int) -> None:
    place = tmp_path / _OLD / "t"
    properties = {**_MODES, "format-version": str(version)}
    table: IcebergTable = create_table(place, _COLUMNS, format="iceberg", properties=properties)
    table.append(_rows(*range(10)))
    if version > 1:
        table.delete("id IN (2, 3)")
    before = as_pyiceberg_reads(table)
    _copied(tmp_path, table.rewrite_table_path(place, tmp_path / "new"))
    assert as_pyiceberg_reads(IcebergTable(tmp_path / "new")) == before
    assert len(before) == (8 if version > 1 else 10)


def test_bounds_of_position_deletes_name_the_copy(tmp_path: Path) -> None:
    table = _table(tmp_path, 2, **{"write.delete.granularity": "file"})
    _copied(tmp_path, table.rewrite_table_path(table.location, tmp_path / "new"))
    deletes = [one for one in _entries(IcebergTable(tmp_path / "new")) if one["content"] == 1]
    assert deletes
    for one in deletes:
        (path,) = set(pq.read_table(one["file_path"])["file_path"].to_pylist())
        bounds = dict(one["lower_bounds"]), dict(one["upper_bounds"])
        assert [found[2147483546].decode() for found in bounds] == [path, path]
        assert all(2147483545 in found for found in bounds)
        assert one["split_offsets"] is one["column_sizes"] is None


def test_what_an_earlier_copy_has_is_not_copied_again(tmp_path: Path) -> None:
    """Data files stay, and the metadata of both copies fits together, also after old snapshots are gone."""
    table = _table(tmp_path, 3)
    first = table.rewrite_table_path(table.location, tmp_path / "new")
    already = set(_copied(tmp_path, first, leaves=True))
    table.append(_rows(30, 31))
    table.expire_snapshots(older_than="9999-12-31", retain_last=2)
    table.delete("id = 31")
    table.compute_partition_stats()
    plan = table.rewrite_table_path(table.location, tmp_path / "new", start_version=first.latest_version)
    before = _states(table)
    sources = _copied(tmp_path, plan)
    plain = [one for one in sources if "copy-table-staging" not in one]
    assert not already & set(plain)
    # Two files of rows, and one of statistics.
    assert [Path(one).suffix for one in plain] == [".parquet"] * 3
    versions = [Path(one).name for one in sources if one.endswith(".json")]
    assert first.latest_version not in versions
    assert versions[-1] == plan.latest_version
    assert len(versions) == 4
    copy = IcebergTable(tmp_path / "new")
    assert _states(copy) == before
    assert copy.verify(depth="footers").findings == ()


def test_a_copy_ends_with_an_older_version(tmp_path: Path) -> None:
    table = _table(tmp_path, 2)
    plan = table.rewrite_table_path(table.location, tmp_path / "new", end_version="v4.metadata.json")
    before = _states(IcebergTable(f"{table.location}/metadata/v4.metadata.json"))
    _copied(tmp_path, plan)
    copy = IcebergTable(tmp_path / "new")
    assert Path(copy.metadata_location).name == plan.latest_version == "v4.metadata.json"
    assert _states(copy) == before


def test_files_of_other_writers_are_copied(tmp_path: Path) -> None:
    """Paths have several spellings, and statistics may be gone."""
    root = tmp_path / _OLD
    builder = IcebergBuilder(root, {"id": "int"}, format_version=2)
    first = builder.data([{"id": 1}, {"id": 2}])
    second = builder.data([{"id": 3}, {"id": 4}])
    first.path, second.path = f"file:{first.path}", f"file://{second.path}"
    builder.commit(first, second)
    gone = builder.position_deletes([(first, 0), (second, 1)])
    builder.extra["statistics"] = [
        {"snapshot-id": 1000, "statistics-path": f"{root}/metadata/{name}", "file-size-in-bytes": 1}
        for name in ("there.stats", "lost.stats")
    ]
    (root / "metadata" / "there.stats").write_bytes(b"x")
    builder.commit(gone)
    plan = IcebergTable(root).rewrite_table_path(f"file://{root}/", tmp_path / "new")
    names = {Path(target).name for target in plan.files["target"].to_pylist()}
    assert "there.stats" in names
    assert "lost.stats" not in names
    for source, target in zip(*plan.files.to_pydict().values(), strict=True):
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.removeprefix("file://").removeprefix("file:"), target)
    shutil.rmtree(root)
    assert sorted(IcebergTable(tmp_path / "new").scan().to_arrow()["id"].to_pylist()) == [2, 3]
    assert _old_paths(tmp_path / "new") == []


def test_a_snapshot_that_names_its_manifests_itself_is_copied(tmp_path: Path) -> None:
    root = tmp_path / _OLD
    builder = IcebergBuilder(root, {"id": "int"}, format_version=1)
    builder.commit(builder.data([{"id": 1}, {"id": 2}]))
    (snapshot,) = builder.snapshots
    listed = begin(IcebergTable(root)).source.manifests.column("manifest_path").to_pylist()
    Path(snapshot.pop("manifest-list")).unlink()
    snapshot["manifests"] = listed
    builder.write()
    _copied(tmp_path, IcebergTable(root).rewrite_table_path(root, tmp_path / "new"))
    assert sorted(IcebergTable(tmp_path / "new").scan().to_arrow()["id"].to_pylist()) == [1, 2]
    assert _old_paths(tmp_path / "new") == []


def test_an_empty_table_is_copied(tmp_path: Path) -> None:
    table: IcebergTable = create_table(tmp_path / _OLD / "t", _COLUMNS, format="iceberg")
    plan = table.rewrite_table_path(table.location, tmp_path / "new")
    assert len(_copied(tmp_path, plan)) == 1
    assert IcebergTable(tmp_path / "new").scan().to_arrow().num_rows == 0


def test_prefixes_are_directories_in_any_spelling() -> None:
    prefix = PathPrefix("s3://lake/t/", "s3://backup/u/")
    paths = pa.array(["s3a://lake/t/data/1.parquet", None, "s3n://lake/t/ä/2", "s3://lake/t/%2E/3"])
    moved = ["s3://backup/u/data/1.parquet", None, "s3://backup/u/ä/2", "s3://backup/u/%2E/3"]
    assert prefix.moved_paths(paths).to_pylist() == moved
    assert (prefix.moved("s3a://lake/t"), prefix.moved("s3://lake/t/")) == ("s3://backup/u", "s3://backup/u")
    for path, why in (
        ("s3://lake/t2/1", "not below s3://lake/t"),
        ("s3://other/t/1", "not below"),
        ("data/1", "not below"),
        ("s3://lake/t/../x", "with '..' in it"),
        ("s3://lake/t/a/..", "with '..' in it"),
    ):
        with pytest.raises(InvalidArgumentError, match=why):
            prefix.moved(path)
    assert PathPrefix("s3://lake", "/mnt").moved("s3://lake/t/1") == "/mnt/t/1"
    assert PathPrefix("/mnt", "hdfs://name/lake/").moved("file:/mnt/t/1") == "hdfs://name/lake/t/1"


def test_what_is_not_below_the_prefix_is_refused(tmp_path: Path) -> None:
    """A directory whose name begins like the prefix is another one."""
    table = _table(tmp_path, 2)
    for prefix in (str(tmp_path / "ol"), f"{table.location}/metadata", tmp_path / "x"):
        with pytest.raises(InvalidArgumentError, match="not below"):
            table.rewrite_table_path(prefix, tmp_path / "new", staging_location=tmp_path / f"at{len(str(prefix))}")
    with pytest.raises(InvalidArgumentError, match="the same place"):
        table.rewrite_table_path(table.location, f"file://{table.location}/")
    with pytest.raises(InvalidArgumentError, match="not empty"):
        table.rewrite_table_path(table.location, tmp_path / "new", staging_location=table.location)
    for words in ({"start_version": "v99.metadata.json"}, {"end_version": "v99.metadata.json"}):
        with pytest.raises(InvalidArgumentError, match="no metadata file"):
            table.rewrite_table_path(table.location, tmp_path / "new", **words)
    with pytest.raises(InvalidArgumentError, match="nothing to copy"):
        table.rewrite_table_path(table.location, tmp_path / "new", Path(table.metadata_location).name)
