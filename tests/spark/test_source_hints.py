"""Hints of the Data Sources name options, not arguments of Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, write_table
from deltaberg.choices import Format
from deltaberg.errors import DeltabergError, InvalidArgumentError, TableNotFoundError
from deltaberg.hints import Hint
from deltaberg.spark.hints import ELSEWHERE, in_data_source
from deltaberg.spark.source.delta_options import DeltaReadOptions
from deltaberg.spark.source.delta_write_options import DeltaWriteOptions
from deltaberg.spark.source.iceberg_options import IcebergReadOptions
from deltaberg.spark.source.iceberg_write_options import IcebergWriteOptions
from deltaberg.spark.source.options import ReadOptions, WriteOptions
from deltaberg.spark.source.raised import briefly, briefly_yielded

pytestmark = pytest.mark.one_backend

_COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.string())])


@briefly
def _write(root: Path, columns: pa.Schema, overwrite: bool, **options: str) -> None:
    DeltaWriteOptions({"path": str(root), **options}).stage(columns, overwrite=overwrite)


@briefly
def _read(root: Path, **options: str) -> None:
    DeltaReadOptions({"path": str(root), **options}).scan().to_arrow()


def test_a_write_names_its_options(tmp_path: Path) -> None:
    create_table(tmp_path / "t", _COLUMNS)
    with pytest.raises(DeltabergError) as caught:
        _write(tmp_path / "t", _COLUMNS.append(pa.field("more", pa.int64())), False)
    assert caught.value.hint == 'leave them out, or use .option("mergeSchema", "true") to add columns to the table'
    with pytest.raises(DeltabergError) as caught:
        _write(tmp_path / "t", _COLUMNS, False, partitionBy="p")
    assert caught.value.hint == (
        'leave out the option partitionBy, or overwrite the table with .option("overwriteSchema", "true")'
    )


@pytest.mark.parametrize(
    ("write", "replaces"),
    [
        (DeltaWriteOptions, '.option("overwriteSchema", "true")'),
        (IcebergWriteOptions, 'deltaberg.open_table(path).overwrite(frame, schema_mode="overwrite")'),
    ],
)
def test_an_overwrite_names_what_replaces_columns(write: type[WriteOptions], replaces: str, tmp_path: Path) -> None:
    table_format: Any = write.format
    create_table(tmp_path, _COLUMNS, format=table_format)
    more = _COLUMNS.append(pa.field("more", pa.int64()))
    with pytest.raises(DeltabergError) as caught:
        briefly(lambda: write({"path": str(tmp_path)}).stage(more, overwrite=True))()
    adds = 'leave them out, or use .option("mergeSchema", "true") to add columns to the table'
    assert caught.value.hint == f"{adds}, or {replaces} to replace its columns"


def test_a_read_names_its_options(tmp_path: Path) -> None:
    write_table(tmp_path / "t", pa.table({"id": [1]}))
    with pytest.raises(DeltabergError, match="were not recorded") as caught:
        _read(tmp_path / "t", readChangeFeed="true", startingVersion="0")
    assert str(caught.value.hint).startswith('.option("derived", "true") derives them')


@pytest.mark.parametrize(
    ("options", "name", "said"),
    [
        (DeltaReadOptions, "snapshot-id", "use versionAsOf"),
        (DeltaReadOptions, "changes", "readChangeFeed"),
        (DeltaReadOptions, "mergeSchema", "only writes change them"),
        (DeltaWriteOptions, "compression-codec", "use compression"),
        (DeltaReadOptions, "snapshot_id", "use versionAsOf"),
        (IcebergReadOptions, "versionAsOf", "use snapshot-id"),
        (IcebergReadOptions, "version_as_of", "use snapshot-id"),
        (IcebergReadOptions, "readChangeFeed", "changes to true"),
        (IcebergReadOptions, "split-size", "leave it out"),
        (IcebergWriteOptions, "overwriteSchema", 'overwrite(frame, schema_mode="overwrite")'),
        (IcebergWriteOptions, "replaceWhere", "overwrite(frame, where="),
        (IcebergWriteOptions, "compression", "use compression-codec"),
    ],
)
def test_options_of_the_other_format(options: type[ReadOptions | WriteOptions], name: str, said: str) -> None:
    """A name that is merely similar would lead to a read or a write that nobody meant."""

    @briefly
    def use() -> None:
        made = options({"path": "/nowhere", name: "true"})
        made.scan() if isinstance(made, ReadOptions) else made.stage(_COLUMNS, overwrite=True)

    with pytest.raises(InvalidArgumentError, match=f"has no option {name}") as caught:
        use()
    assert said in str(caught.value.hint)


@pytest.mark.parametrize(
    ("read", "end", "said"),
    [
        (DeltaReadOptions, "delta@v0", '.option("versionAsOf", 0)'),
        (DeltaReadOptions, "delta@20240131120000000", '.option("timestampAsOf", "2024-01-31 12:00:00.000")'),
        (IcebergReadOptions, "iceberg#snapshots", 'open_table(path).inspect("snapshots")'),
        (IcebergReadOptions, "iceberg#snapshot_id_7", 'open it with .option("snapshot-id", 7)'),
        (IcebergReadOptions, "iceberg#tag_v1", 'open it with .option("branch", "v1")'),
        (DeltaReadOptions, "delta#snapshots", "call deltaberg.open_table(path).history()"),
        (DeltaReadOptions, "iceberg", 'format("iceberg")'),
        (IcebergReadOptions, "delta", 'format("delta")'),
    ],
)
def test_locations_as_connectors_take_them(read: type[ReadOptions], end: str, said: str, tmp_path: Path) -> None:
    for kind in ("delta", "iceberg"):
        write_table(tmp_path / kind, pa.table({"id": [1]}), format=kind)

    @briefly
    def use() -> None:
        read({"path": f"{tmp_path}/{end}"}).scan()

    with pytest.raises(TableNotFoundError) as caught:
        use()
    assert said in str(caught.value.hint)


@pytest.mark.parametrize(("write", "there"), [(DeltaWriteOptions, "iceberg"), (IcebergWriteOptions, "delta")])
def test_a_write_to_a_table_of_the_other_format(write: type[WriteOptions], there: Format, tmp_path: Path) -> None:
    write_table(tmp_path, pa.table({"id": [1]}), format=there)
    with pytest.raises(InvalidArgumentError, match=f"a table of the format {there}") as caught:
        briefly(lambda: write({"path": str(tmp_path)}).stage(_COLUMNS, overwrite=False))()
    assert caught.value.hint == f'use format("{there}"), or choose another directory'


def test_so_do_errors_of_tasks() -> None:
    @briefly_yielded
    def rows() -> Iterator[int]:
        yield 1
        raise DeltabergError("no", hint="or say where the files are now with ⟪location_map⟫")

    with pytest.raises(DeltabergError) as caught:
        list(rows())
    assert caught.value.hint == "or say where the files are now with the option location-map"


def test_an_error_without_a_hint_has_none() -> None:
    @briefly
    def fail() -> None:
        raise DeltabergError("no")

    with pytest.raises(DeltabergError) as caught:
        fail()
    assert caught.value.hint is None


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ('append with ⟪schema_mode="merge"⟫, or overwrite', 'append with .option("mergeSchema", "true"), or overwrite'),
        ('pass ⟪txn=("nightly load", 7)⟫', "pass the options txnAppId and txnVersion"),
        (
            "pass ⟪location_map={'s3://a': 's3://a'}⟫",
            "pass deltaberg.open_table(path, location_map={'s3://a': 's3://a'}).scan().to_spark(spark)",
        ),
        (
            'upgrade the table by ⟪alter().set({"format-version": "2"}).commit()⟫',
            'upgrade the table by deltaberg.open_table(path).alter().set({"format-version": "2"}).commit()',
        ),
        (
            "write only rows that match it⟦, or pass ⟪check=False⟫⟧",
            "write only rows that match it",
        ),
        ("⟪txn⟫ applies only to Delta tables", "the option txnAppId applies only to Delta tables"),
        ("check the location", "check the location"),
    ],
)
def test_what_is_said(hint: str, said: str) -> None:
    assert Hint(hint).said(in_data_source, ELSEWHERE) == said
