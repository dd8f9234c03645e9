"""Tables of catalogs, which the Data Sources find by name: ``option("catalog", …)`` and the name as the path."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import load_catalog
from deltaberg.errors import InvalidArgumentError, ObjectNotFoundError, TableNotFoundError
from deltaberg.spark.source.delta_options import DeltaReadOptions
from deltaberg.spark.source.delta_write_options import DeltaWriteOptions
from deltaberg.spark.source.iceberg_options import IcebergReadOptions
from deltaberg.spark.source.iceberg_write_options import IcebergWriteOptions
from deltaberg.spark.source.options import SourceOptions
from deltaberg.spark.source.streaming.delta_stream_settings import DeltaStreamSettings
from deltaberg.spark.source.streaming.iceberg_stream_settings import IcebergStreamSettings
from tests.spark.doors import needs_data_sources, register

pytestmark = [needs_data_sources, pytest.mark.one_backend]

_COLUMNS = pa.schema([("id", pa.int64())])
_NAMED = {"path": "sales.orders", "catalog": "of-spark"}


@pytest.fixture
def configured(catalog_of_spark: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The catalog, which this process finds by its name, too, with a table that nobody has."""
    pytest.importorskip("sqlalchemy")
    for name in ("type", "uri", "warehouse"):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__OF_SPARK__{name.upper()}", catalog_of_spark[name])
    monkeypatch.setenv("PYICEBERG_CATALOG__OF_SPARK__S3__SECRET_ACCESS_KEY", catalog_of_spark["s3.secret-access-key"])
    catalog = load_catalog("of-spark")
    catalog.create_namespace("sales")
    yield catalog
    for table in catalog.list_tables("sales"):
        catalog.drop_table(table, purge=True)
    catalog.drop_namespace("sales")


@pytest.mark.spark
def test_rows_and_streams_of_named_tables(configured: Any, spark: Any, tmp_path: Path) -> None:
    """A query finds its tables by name in processes of its own, and its checkpoint tells nothing of their catalog."""

    def of_catalog(door: Any) -> Any:
        return door.format("iceberg").option("catalog", "of-spark")

    register(spark)
    for first in (0, 10):
        of_catalog(spark.range(first, first + 10).coalesce(1).write).mode("append").save("sales.orders")
    frame = of_catalog(spark.read).load("sales.orders")
    assert sorted(row["id"] for row in frame.collect()) == list(range(20))
    configured.load_table("sales.orders").delete("id >= 15")
    assert frame.count() == 20
    assert of_catalog(spark.read).load("sales.orders").count() == 15
    for _ in range(2):
        stream = of_catalog(spark.readStream).load("sales.orders")
        query = of_catalog(stream.writeStream).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start("sales.copies").awaitTermination()
        copies = configured.load_table("sales.copies")
        assert sorted(copies.scan().to_arrow()["id"].to_pylist()) == list(range(15))
    assert len(copies.history()) == 1
    logged = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert logged
    assert not [text for text in logged for secret in (b"sqlite", b"NotToBeSeen", b"of-spark") if secret in text]


def test_names_alone_travel(configured: Any) -> None:
    """What has the catalog commit rows goes through Spark's tasks; its properties stay where they are configured."""
    configured.create_table("sales.orders", _COLUMNS)
    options = IcebergWriteOptions(_NAMED)
    staged = options.stage(_COLUMNS, overwrite=False)
    pointer: Any = staged
    pickled = pickle.dumps(pointer.pointer)
    assert b"sqlite" not in pickled
    assert b"NotToBeSeen" not in pickled
    assert pickle.loads(pickled).load().file == configured.load_table("sales.orders")._loaded.file


def test_a_read_keeps_the_state_that_it_found(configured: Any) -> None:
    table = configured.create_table("sales.orders", _COLUMNS)
    table.append(pa.table({"id": [1]}, _COLUMNS))
    options = IcebergReadOptions(_NAMED)
    assert options.scan().count() == 1
    table.append(pa.table({"id": [2]}, _COLUMNS))
    sent = pickle.loads(pickle.dumps(options))
    assert (sent.scan().count(), IcebergReadOptions(_NAMED).scan().count()) == (1, 2)
    by_path = IcebergReadOptions({"path": table.metadata_location})
    by_path.scan()
    table.append(pa.table({"id": [3]}, _COLUMNS))
    for path in Path(table.location, "metadata").glob("*.metadata.json"):
        if str(path) != table.metadata_location:
            path.unlink()
    for planned in (options, by_path):
        with pytest.raises(ObjectNotFoundError, match="was planned on is gone") as raised:
            pickle.loads(pickle.dumps(planned)).scan()
        assert "load the table again" in str(raised.value.hint)


@pytest.mark.parametrize("options", [DeltaReadOptions, DeltaWriteOptions, DeltaStreamSettings])
def test_catalogs_have_no_delta_tables(options: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="no option catalog") as raised:
        options(_NAMED)._path()
    assert "the location of the table" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"s3.region": "eu"}, "the option s3.region cannot be used together with catalog"),
        ({"location-map": "auto"}, "the options catalog and location-map cannot be used together"),
        ({"brunch": "x"}, "no option brunch"),
    ],
)
@pytest.mark.parametrize("kind", [IcebergReadOptions, IcebergStreamSettings])
def test_what_a_name_excludes(kind: type[SourceOptions], more: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        kind({**_NAMED, **more})._named()


def test_a_name_that_the_catalog_does_not_have(configured: Any) -> None:
    with pytest.raises(TableNotFoundError, match="the catalog has no such table") as raised:
        IcebergReadOptions({**_NAMED, "path": "sales.others"}).scan()
    assert raised.value.context["table"] == "sales.others"


def test_where_a_named_table_is_written(configured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is there needs no place for new ones; and one in memory is one process's alone."""
    configured.create_table("sales.orders", _COLUMNS)
    monkeypatch.delenv("PYICEBERG_CATALOG__OF_SPARK__WAREHOUSE")
    IcebergWriteOptions(_NAMED).stage(_COLUMNS, overwrite=False)
    with pytest.raises(InvalidArgumentError, match="warehouse"):
        IcebergWriteOptions({**_NAMED, "path": "sales.others"}).stage(_COLUMNS, overwrite=False)
    monkeypatch.setenv("PYICEBERG_CATALOG__OF_SPARK__WAREHOUSE", "memory:///w")
    with pytest.raises(InvalidArgumentError, match="exists only in one process"):
        IcebergWriteOptions({**_NAMED, "path": "sales.others"}).stage(_COLUMNS, overwrite=False)
