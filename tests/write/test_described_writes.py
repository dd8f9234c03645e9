"""What a write says of a table that is there already: it is so already, or it is refused before a file is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, IcebergTable, create_table, load_catalog, open_table, write_table
from deltaberg.errors import InvalidArgumentError
from tests.support.rows import ids_of

_ROWS = pa.table({"id": [1, 2], "p": ["a", "b"]})
#: What describes a table of each format, and the same in other words.
_SAID: dict[str, dict[str, Any]] = {
    "delta": {
        "properties": {"delta.appendOnly": False, "own": "1", "delta.feature.v2Checkpoint": "supported", "no": None},
        "description": "d",
        "name": "n",
        "cluster_by": "id",
    },
    "iceberg": {
        "properties": {"format-version": 3, "commit.retry.num-retries": 5, "no": None},
        "description": "d",
        "sort_by": "id desc",
        "partition_by": "bucket(4, id)",
    },
}
_SAME: dict[str, dict[str, Any]] = {
    "delta": {"configuration": {"delta.appendOnly": "FALSE", "own": 1}, "cluster_by": ["ID"]},
    "iceberg": {"configuration": {"commit.retry.num-retries": "5"}, "sort_by": ["ID desc nulls last"]},
}
#: What differs, and what the error says.
_OTHER: dict[str, list[tuple[dict[str, Any], str]]] = {
    "delta": [
        ({"properties": {"own": "2"}}, r'the property own of the table is \'1\'.*alter\(\)\.set\(\{"own": "2"\}\)'),
        ({"configuration": {"delta.appendOnly": True}}, r"delta\.appendOnly of the table is 'false', but 'true'"),
        ({"properties": {"delta.apendOnly": "true"}}, "Delta has no property"),
        ({"properties": {"delta.feature.deletionVectors": "supported"}}, "no property delta.feature.deletionVectors"),
        ({"properties": {"delta.minReaderVersion": 3, "delta.enableDeletionVectors": "true"}}, "but 'true' is asked"),
        ({"properties": {"delta.constraints.c": "id > 0"}}, "no property delta.constraints.c"),
        ({"description": "e"}, r"the description of the table is 'd'.*alter\(\)\.describe\(description='e'\)"),
        ({"name": ""}, "the name of the table is 'n', but nothing"),
        ({"cluster_by": "p"}, r"the clustering of the table is \['id'\].*alter\(\)\.cluster_by\('p'\)"),
        ({"cluster_by": []}, r"the clustering of the table is \['id'\], but nothing"),
        ({"partition_by": "p"}, "the table is not partitioned"),
    ],
    "iceberg": [
        ({"properties": {"write.metadata.compression-codec": b"gzip"}}, "which is not text"),
        ({"properties": {"comit.retry.num-retries": 5}}, r'no property comit\..*alter\(\)\.set\(\{"comit\.retry'),
        ({"configuration": {"commit.retry.num-retries": 4}}, "of the table is '5', but '4'"),
        ({"description": "e"}, r"the description of the table is 'd'.*alter\(\)\.set\(\{\"comment\": \"e\"\}\)"),
        ({"sort_by": "id"}, r"the order of rows of the table is \['identity\(id\) desc.*alter\(\)\.sort_by\('id'\)"),
        ({"sort_by": []}, "the order of rows of the table is .*, but nothing"),
        ({"partition_by": "id"}, r"partitioned by id_bucket \(bucket\[4\]\)"),
    ],
}


def _files(root: Path) -> set[Path]:
    return set(root.rglob("*"))


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_write_changes_nothing_but_rows(form: Any, tmp_path: Path) -> None:
    said = _SAID[form]
    write_table(tmp_path / "t", _ROWS, format=form, **said)
    mode: Any
    for mode in ("append", "overwrite"):
        assert write_table(tmp_path / "t", _ROWS, mode=mode, **said).committed
        assert write_table(open_table(tmp_path / "t"), _ROWS, mode=mode, **_SAME[form]).committed
    files = _files(tmp_path)
    for other, message in _OTHER[form]:
        for mode in ("append", "overwrite"):
            with pytest.raises(InvalidArgumentError) as raised:
                write_table(tmp_path / "t", _ROWS, mode=mode, **other)
            assert raised.match(f"(?s){message}")
        assert not write_table(tmp_path / "t", _ROWS, mode="ignore", **other).committed
        assert _files(tmp_path) == files
    assert ids_of(open_table(tmp_path / "t")) == [1, 2]


def test_in_a_catalog(tmp_path: Path) -> None:
    catalog = load_catalog("here", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "w"))
    catalog.create_namespace("n")
    for _ in range(2):
        write_table("n.t", _ROWS, catalog=catalog, mode="append", properties={"write.format.default": "parquet"})
    files = _files(tmp_path / "w")
    with pytest.raises(InvalidArgumentError, match=r"the property write\.format\.default of the table is 'parquet'"):
        write_table("n.t", _ROWS, catalog=catalog, mode="append", properties={"write.format.default": "orc"})
    assert _files(tmp_path / "w") == files
    assert ids_of(catalog.load_table("n.t")) == [1, 1, 2, 2]


@pytest.mark.parametrize("kind", [DeltaTable, IcebergTable])
def test_an_open_table_has_its_options(kind: Any, tmp_path: Path) -> None:
    form: Any = "delta" if kind is DeltaTable else "iceberg"
    create_table(tmp_path / "t", _ROWS.schema, format=form)
    options = {"AWS_REGION": "a"}
    table = kind(str(tmp_path / "t"), storage_options=options)
    assert write_table(table, _ROWS, mode="append", storage_options=options).committed
    for other in ({"AWS_REGION": "b"}, {}):
        with pytest.raises(InvalidArgumentError, match="the table was opened with other storage_options"):
            write_table(table, _ROWS, mode="append", storage_options=other)


def test_what_the_table_is_in_other_words(tmp_path: Path) -> None:
    """Versions are the least ones, names of constraints have no case, and what is off need not be recorded."""
    off = {"delta.enableChangeDataFeed": "false", "delta.columnMapping.mode": "none", "delta.minWriterVersion": 2}
    said: dict[str, Any] = {"delta.constraints.PosId": "id > 0", "delta.appendOnly": True, "delta.minReaderVersion": 1}
    write_table(tmp_path / "d", _ROWS, properties=said)
    log = tmp_path / "d" / "_delta_log" / f"{0:020d}.json"
    # As other engines record it, and by a protocol that does not list what the property needs.
    log.write_text(log.read_text().replace("constraints.posid", "constraints.PosId"))
    (tmp_path / "d" / "_delta_log" / f"{0:020d}.crc").unlink(missing_ok=True)
    assert write_table(tmp_path / "d", _ROWS, mode="append", properties={**said, **off}).committed
    created: dict[str, Any] = {"properties": {"format-version": 2, "comment": "a"}, "description": "b"}
    write_table(tmp_path / "i", _ROWS, format="iceberg", **created)
    IcebergTable(tmp_path / "i").alter().set({"format-version": "3"}).commit()
    assert write_table(tmp_path / "i", _ROWS, mode="append", **created).committed


def test_a_table_of_a_catalog_has_its_options(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/c.db"
    catalog = load_catalog("here", type="sql", uri=place, warehouse=str(tmp_path / "w"), **{"s3.region": "a"})
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", _ROWS.schema)
    assert write_table(table, _ROWS, mode="append", storage_options={"s3.region": "a"}).committed
    with pytest.raises(InvalidArgumentError, match="was opened with other storage_options"):
        write_table(table, _ROWS, mode="append", storage_options={"s3.region": "b"})


def test_a_table_of_a_catalog_without_a_place_for_new_ones(tmp_path: Path) -> None:
    catalog = load_catalog("here", type="sql", uri=f"sqlite:///{tmp_path}/c.db")
    catalog.create_namespace("n")
    catalog.create_table("n.t", _ROWS.schema, location=str(tmp_path / "t"))
    assert write_table("n.t", _ROWS, catalog=catalog, mode="append").committed
    with pytest.raises(InvalidArgumentError, match="no directory for new tables"):
        write_table("n.u", _ROWS, catalog=catalog)
