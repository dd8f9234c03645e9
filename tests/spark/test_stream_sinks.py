"""Streams into tables: every batch once, whatever is sent again, with no option to set."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql.types import LongType, StructType

from deltaberg import create_table, load_catalog, open_table
from deltaberg.errors import InvalidArgumentError
from deltaberg.spark.source.delta_write_options import DeltaWriteOptions
from deltaberg.spark.source.iceberg_write_options import IcebergWriteOptions
from deltaberg.spark.source.streaming import stream_sink as sinks
from tests.spark.doors import needs_data_sources, register
from tests.support.rows import ids

pytestmark = [needs_data_sources, pytest.mark.spark, pytest.mark.one_backend]


@pytest.fixture(params=["delta", "iceberg"])
def table_format(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


class _Arrivals:
    """A folder of files, each of which is a batch, and the queries that read it."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark = spark
        self.folder, self.checkpoint = root / "arrivals", root / "checkpoint"
        self.folder.mkdir()
        register(spark)

    def arrive(self, *ids: int) -> None:
        number = len(list(self.folder.iterdir()))
        lines = (json.dumps({"id": one, "region": f"r{one % 2}"}) for one in ids)
        (self.folder / f"{number}.json").write_text("\n".join(lines))

    @property
    def rows(self) -> Any:
        reader = self.spark.readStream.schema("id long, region string")
        return reader.option("maxFilesPerTrigger", "1").json(str(self.folder))

    def run(self, writer: Any) -> str:
        """Run a query over all that has arrived, and return its id."""
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        found: str = query.id
        return found

    def forget_commit(self, batch: int) -> None:
        """Leave the checkpoint as a driver leaves it that is killed after a batch, and before its own log says so."""
        for path in (self.checkpoint / "commits").glob(f"*{batch}*"):
            path.unlink()


@pytest.fixture
def arrivals(spark: Any, tmp_path: Path) -> _Arrivals:
    return _Arrivals(spark, tmp_path)


def _ids(path: Path) -> list[int]:
    found: list[int] = sorted(open_table(path).scan().to_arrow()["id"].to_pylist())
    return found


@pytest.mark.req("DL-STR-07", half="writer")
@pytest.mark.req("ICE-STR-04", half="writer")
def test_each_batch_is_in_the_table_once(arrivals: _Arrivals, tmp_path: Path, table_format: str) -> None:
    path = tmp_path / "t"

    def query() -> str:
        return arrivals.run(arrivals.rows.writeStream.format(table_format).option("path", str(path)))

    arrivals.arrive(1, 2)
    arrivals.arrive(3)
    name = query()
    assert (_ids(path), len(open_table(path).history())) == ([1, 2, 3], 2)
    arrivals.forget_commit(1)
    arrivals.arrive(4)
    assert query() == name
    assert _ids(path) == [1, 2, 3, 4]
    table: Any = open_table(path)
    if table_format == "delta":
        assert {app: one.version for app, one in table.transactions.items()} == {name: 2}
    else:
        assert table.properties == {f"deltaberg.stream.{name}": "2"}


@pytest.mark.req("DL-STR-08", half="writer")
def test_complete_mode_replaces_the_rows(arrivals: _Arrivals, tmp_path: Path, table_format: str) -> None:
    path = tmp_path / "t"
    arrivals.arrive(1, 2)
    arrivals.arrive(3)
    counts = arrivals.rows.groupBy("region").count().writeStream.outputMode("complete").format(table_format)
    arrivals.run(counts.option("path", str(path)))
    table = open_table(path)
    assert sorted(table.scan().to_arrow()["count"].to_pylist()) == [1, 2]
    assert len(table.history()) == 2


def test_foreach_batch_finds_its_batch(arrivals: _Arrivals, tmp_path: Path, table_format: Any, spark: Any) -> None:
    """A second verb of the batch needs a name, also where a job group of the caller's own is set in between."""
    if not hasattr(spark, "sparkContext"):
        pytest.skip("over Spark Connect the batch is passed")
    path = tmp_path / "t"
    results: list[bool] = []
    refused: list[str] = []
    arrivals.arrive(1, 2)

    def write(rows: Any, number: int) -> None:
        from deltaberg import write_table

        results.append(write_table(path, rows, mode="append", format=table_format, txn="auto").committed)
        rows.sparkSession.sparkContext.setJobGroup("mine", "of the caller")
        with pytest.raises(InvalidArgumentError) as raised:
            open_table(path).upsert(rows, "id", txn="auto")
        refused.append(raised.value.message)
        results.append(open_table(path).append(rows, txn="auto:copy").committed)

    writer = arrivals.rows.writeStream.foreachBatch(write)
    arrivals.run(writer)
    assert (results, _ids(path)) == ([True, True], [1, 1, 2, 2])
    arrivals.forget_commit(0)
    results.clear()
    arrivals.run(writer)
    # Another run of the query sends the batch again: each of its verbs has been committed.
    assert (results, _ids(path)) == ([False, False], [1, 1, 2, 2])
    assert refused == ['the batch 0 was committed to the table before by txn="auto"'] * 2


@pytest.mark.parametrize("place", ["t", "sales.new"])
def test_replies_have_no_secrets(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: Any
) -> None:
    """Without them the files of a batch are committed, and those of one that failed are deleted."""
    settings: Any = DeltaWriteOptions if table_format == "delta" else IcebergWriteOptions
    options = {"path": str(tmp_path / place), "aws_secret_access_key": "of-the-store"}
    if place == "t":
        create_table(tmp_path / place, ids().schema, format=table_format)
    elif table_format == "delta":
        pytest.skip("catalogs have no Delta tables")
    else:
        pytest.importorskip("sqlalchemy")
        options = {"path": place, "catalog": "shop"}
        own = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path / "t")}
        for name, value in {**own, "s3__secret_access_key": "of-the-store"}.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__SHOP__{name.upper()}", value)
        load_catalog("shop").create_namespace("sales")
    columns = StructType().add("id", LongType())
    monkeypatch.setattr(sinks, "_Base", None)

    def sink(*, commits: bool) -> sinks.StreamSink:
        return sinks.stream_sink(settings, options, columns, overwrite=False, commits=commits)

    def reply(number: int) -> Any:
        task = SimpleNamespace(partitionId=lambda: number, getLocalProperty=lambda _: "a query")
        monkeypatch.setattr(TaskContext, "get", lambda: task)
        return sink(commits=False).write(iter(ids(number).to_batches()))

    failed, sent = ([reply(number) for number in range(2)] for _ in range(2))
    assert b"of-the-store" not in pickle.dumps((failed, sent))
    assert len(list(tmp_path.rglob("*.parquet"))) == 4
    sink(commits=True).abort([*failed, None], 0)
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    sink(commits=True).commit(sent, 0)
    table = open_table(tmp_path / place) if place == "t" else load_catalog("shop").load_table(place)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1]
