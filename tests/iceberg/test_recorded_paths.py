"""A file table holds the paths that manifests record, byte for byte, beside the places to which they lead."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import UnsafePathError
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.storage.location import PathResolver, parse_location
from deltaberg.table.read.scan import bound_scan
from deltaberg.table.read.source import FILE_NUMBER
from tests.iceberg.entries import list_rows, rewrite_avro
from tests.support.iceberg_builder import IcebergBuilder

pytestmark = pytest.mark.one_backend


def _source(root: Path, **options: Any) -> IcebergSource:
    source = bound_scan(open_table(root, format="iceberg", **options).scan()).source
    assert isinstance(source, IcebergSource)
    return source


def _files(source: IcebergSource) -> list[dict[str, Any]]:
    files = source.select_files(TRUE).files
    located = source.locate(files)
    found: list[dict[str, Any]] = files.append_column("location", located.column("location")).to_pylist()
    return found


def _recorded(source: IcebergSource, number: int) -> str:
    """Return the path in the manifest for the number of a file, as fastavro reads it."""
    manifest = source.manifests.to_pylist()[number >> 32]
    entries = fastavro.reader(io.BytesIO(source.reader.fetch(manifest["manifest_path"])))
    found: Any = list(entries)[number & (1 << 32) - 1]
    return str(found["data_file"]["file_path"])


@pytest.mark.req("ICE-MAN-10", half="reader")
def test_paths_of_tables_that_were_moved(conformance: Path) -> None:
    index = json.loads((conformance / "index.json").read_text())
    compared, moved = 0, 0
    for entry in index.values():
        if entry["format"] != "iceberg":
            continue
        source = _source(conformance / entry["dir"], location_map="auto")
        for row in _files(source)[:20]:
            assert row["path"] == row["=_file"] == _recorded(source, row[FILE_NUMBER]), entry["id"]
            assert Path(row["location"]).is_file(), entry["id"]
            compared += 1
            moved += row["path"] != row["location"]
    assert (compared > 100, moved > 100) == (True, True)


@pytest.mark.parametrize("name", ["a b.parquet", "a%20b.parquet", "ä+&.parquet", "a//b.parquet", "./a.parquet", ".a"])
def test_spellings_of_paths(tmp_path: Path, name: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    file = builder.data([{"id": 1}])
    builder.commit(file)
    target = builder.root / "data" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    Path(file.path).rename(target)
    recorded = f"{builder.root}/data/{name}"
    manifest = Path(list_rows(builder)[0]["manifest_path"])
    rewrite_avro(manifest, record=lambda row: row["data_file"].update(file_path=recorded))
    (row,) = _files(_source(builder.root))
    assert (row["path"], Path(row["location"])) == (recorded, target)
    assert open_table(builder.root).scan(columns=["id", "_file"]).to_arrow().to_pylist() == [
        {"id": 1, "_file": recorded}
    ]


_LOCATION = "s3://bucket/table"
_PATHS = [
    "/data/a.parquet",
    "/data//a.parquet",
    "/data/./a.parquet",
    "/./a.parquet",
    "//a.parquet",
    "/a%2F.parquet",
    "/.hidden/..a",
    "/part/a.parquet",
    "/part/b/c.parquet",
    "/partial/a.parquet",
]


@pytest.mark.parametrize(
    "mapping",
    [
        None,
        {_LOCATION: "/here"},
        {"s3://bucket": "/here"},
        {f"{_LOCATION}/part": "/there"},
        {f"{_LOCATION}/part": "/there", _LOCATION: "/here"},
        {f"{_LOCATION}/part/b": "s3://other/b", "s3://bucket/": "/here"},
        {"s3a://bucket/table/part": "/there"},
        {"s3a://bucket/table/part": "/there", _LOCATION: "/here"},
        {"data": "/here"},
    ],
)
@pytest.mark.parametrize("any_store", [False, True])
@pytest.mark.parametrize("location", [_LOCATION, _LOCATION + "/"])
@pytest.mark.parametrize("many", [1, 1000], ids=["in threads", "one by one"])
def test_many_paths_lead_where_each_leads(
    mapping: dict[str, str] | None, any_store: bool, location: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltaberg.storage.location._MANY_PATHS", many)
    resolver = PathResolver(parse_location(_LOCATION), mapping, encoded=False, any_store=any_store)
    paths = [
        *(_LOCATION + path for path in _PATHS),
        *("s3a://bucket/table" + path for path in _PATHS[:3]),
        "data/a.parquet",
        "s3://bucket/elsewhere/a.parquet",
    ]
    expected = [str(resolver.resolve(path)) for path in paths]
    # The first of them must not speak for the others.
    for turn in range(len(paths)):
        found = resolver.locate(pa.chunked_array([paths[turn:], paths[:turn]]), location.rstrip("/") + "/")
        assert found.to_pylist() == expected[turn:] + expected[:turn]


def test_no_path_climbs_out_of_the_table() -> None:
    resolver = PathResolver(parse_location(_LOCATION), encoded=False)
    for path in ("/../a", "/data/../a", "/data/.."):
        with pytest.raises(UnsafePathError, match=r"contains '\.\.'"):
            resolver.locate(pa.chunked_array([[f"{_LOCATION}/data/a.parquet", _LOCATION + path]]), _LOCATION + "/")
    assert resolver.locate(pa.chunked_array([], pa.string()), _LOCATION + "/").to_pylist() == []


def test_a_file_is_the_same_however_its_path_is_spelled(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    files = [builder.data([{"id": number}, {"id": number + 1}]) for number in (1, 3)]
    builder.commit(*files)
    builder.commit(builder.position_deletes([(files[1], 0)]))

    def spell(row: dict[str, Any]) -> None:
        if row["data_file"]["file_path"] == files[1].path:
            row["data_file"]["file_path"] = files[1].path.replace("/data/", "/data//./")

    rewrite_avro(next(Path(row["manifest_path"]) for row in list_rows(builder) if row["content"] == 0), record=spell)
    assert sorted(open_table(builder.root).scan().to_arrow().column("id").to_pylist()) == [1, 2, 4]
