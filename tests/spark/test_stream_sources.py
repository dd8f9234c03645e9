"""``spark.readStream`` without a jar: a case of each kind; plans are tested without Spark."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import deltaberg.spark
from deltaberg import create_table, load_catalog, open_table
from deltaberg.errors import (
    DataFileNotFoundError,
    DeltabergError,
    InvalidArgumentError,
    SchemaError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tests.spark.doors import VERSION, needs_data_sources, register
from tests.support.log_entries import named_actions

pytestmark = [pytest.mark.spark, needs_data_sources]

_ANYWHERE = {"deltaberg.limitsWithoutAvailableNow": "true"}


def _stream(spark: Any, at: Path, form: str, **options: str) -> list[list[int]]:
    """Run a query to the end of what there is, and return the ids of each batch."""
    batches: list[list[int]] = []

    def give(rows: Any, number: int) -> None:
        batches.append(sorted(row["id"] for row in rows.collect()))

    reader = register(spark).readStream.format(form).options(**options)
    writer = reader.load(str(at / "table")).writeStream.foreachBatch(give)
    query = writer.option("checkpointLocation", str(at / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return batches


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_query_goes_on_from_its_checkpoint(form: Any, spark: Any, tmp_path: Path) -> None:
    table = create_table(tmp_path / "table", {"id": pa.int64()}, format=form)
    for number in range(3):
        table.append(pa.table({"id": [number, number + 10]}))
    limit = "maxFilesPerTrigger" if form == "delta" else "streaming-max-files-per-micro-batch"
    batches = _stream(spark, tmp_path, form, **{limit: "2", "filter": "id < 100", **_ANYWHERE})
    # Before Spark 4.2, such a query ends after one batch.
    assert [len(batch) for batch in batches] == ([4, 2] if VERSION >= (4, 2) else [4])
    table.append(pa.table({"id": [20, 120]}))
    table.compact()
    for _ in range(2):
        batches += _stream(spark, tmp_path, form, filter="id < 100")
    given = [number for batch in batches for number in batch]
    assert sorted(given) == [0, 1, 2, 10, 11, 12, 20]


@pytest.mark.parametrize(("form", "options"), [("delta", {"readChangeFeed": "true"}), ("iceberg", {"changes": "true"})])
def test_what_is_planned_and_read(form: Any, options: dict[str, str], tmp_path: Path) -> None:
    from deltaberg.spark.source.datasource import DATA_SOURCES

    properties = {"delta.enableChangeDataFeed": "true"} if form == "delta" else None
    table = create_table(tmp_path, {"id": pa.int64()}, format=form, properties=properties)
    table.append(pa.table({"id": list(range(1000))}))
    source = DATA_SOURCES[form == "iceberg"]({"path": str(tmp_path), **options})
    schema = source.schema()
    assert "_change_type" in schema.names
    reader = source.streamReader(schema)
    end = reader.latestOffset()
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, end)
    # What reads is another process, which gets nothing but the partition.
    reading = pickle.loads(pickle.dumps(reader))
    assert len(pickle.dumps(reader)) < 500
    assert len(pickle.dumps(partition)) < 10_000
    assert sum(batch.num_rows for batch in reading.read(partition)) == 1000
    # A query that was stopped in its first batch asks for it again, and knows its end only.
    table.append(pa.table({"id": [1]}))
    again: Any = source.streamReader(schema)
    (repeated,) = again.partitions(again.initialOffset(), end)
    assert sum(batch.num_rows for batch in again.read(repeated)) == 1000
    assert again.latestOffset() != end
    # The first call after a restart is for no rows, and tells the position.
    later: Any = source.streamReader(schema)
    assert later.partitions(end, end) == []
    (newer,) = later.partitions(end, later.latestOffset())
    assert sum(batch.num_rows for batch in later.read(newer)) == 1
    table.alter().add("name", pa.string()).commit()
    with pytest.raises(SchemaError, match="start the query again"):
        source.streamReader(schema).latestOffset()


def test_a_stream_of_what_comes_later_begins_with_no_rows(tmp_path: Path) -> None:
    """So a query that is stopped in its first batch knows where that began."""
    from deltaberg.spark.source.datasource import DATA_SOURCES

    table = create_table(tmp_path, {"id": pa.int64()})
    source: Any = DATA_SOURCES[0]({"path": str(tmp_path), "startingVersion": "latest"})
    reader = source.streamReader(source.schema())
    begin = reader.initialOffset()
    table.append(pa.table({"id": [1]}))
    end = reader.latestOffset()
    assert end == begin
    again = source.streamReader(source.schema())
    assert again.partitions(again.initialOffset(), end) == []
    (partition,) = again.partitions(end, again.latestOffset())
    assert sum(batch.num_rows for batch in again.read(partition)) == 1


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        ("delta", {"maxFilesPerTrigger": str(10**30), **_ANYWHERE}, "from 1 to"),
        ("delta", {"maxFilesPerTrigger": "0", **_ANYWHERE}, "from 1 to"),
        ("delta", {"maxBytesPerTrigger": "many", **_ANYWHERE}, "a number of bytes"),
        ("delta", {"startingVersion": "0", "startingTimestamp": "2024-01-01"}, "cannot be used together"),
        ("delta", {"startingVersion": "newest", "ignoreDeletes": "true"}, "must be an integer"),
        ("delta", {"ignoreChange": "true"}, "no option ignoreChange"),
        ("delta", {"excludeRegex": "("}, "regular expression"),
        ("iceberg", {"stream-from-timestamp": "yesterday"}, "must be an integer"),
        ("iceberg", {"streaming-max-rows-per-micro-batch": "-1", **_ANYWHERE}, "from 1 to"),
    ],
)
def test_what_is_refused(form: Any, options: dict[str, str], message: str, tmp_path: Path) -> None:
    from deltaberg.spark.source.datasource import DATA_SOURCES

    create_table(tmp_path, {"id": pa.int64()}, format=form)
    made = DATA_SOURCES[form == "iceberg"]({"path": str(tmp_path), **options})
    with pytest.raises(InvalidArgumentError, match=message):
        made.streamReader(made.schema()).latestOffset()


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_errors_name_what_streams_have(form: Any, tmp_path: Path) -> None:
    from deltaberg.spark.source.datasource import DATA_SOURCES

    source = DATA_SOURCES[form == "iceberg"]
    table = create_table(tmp_path, {"id": pa.int64()}, format=form)
    table.append(pa.table({"id": [1]}))
    existing: Any = source({"path": str(tmp_path)})
    reader = existing.streamReader(existing.schema())
    begin = reader.latestOffset()
    assert reader.partitions(reader.initialOffset(), begin)
    table.delete("id = 1")
    with pytest.raises(UnsupportedFeatureError) as removed:
        reader.latestOffset(begin)
    for option in ("skipChangeCommits", "streaming-skip-overwrite-snapshots", "streaming-skip-delete-snapshots"):
        assert option in str(removed.value.hint)
    with pytest.raises(InvalidArgumentError, match="needs one path") as nameless:
        source({}).streamWriter(existing.schema(), False)
    assert "start(path) for a stream" in str(nameless.value.hint)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
@pytest.mark.parametrize("recorded", [0, [], "1", None, {"logOffset": 0}])
def test_offsets_of_other_sources_are_refused(form: Any, recorded: Any, tmp_path: Path) -> None:
    from deltaberg.spark.source.datasource import DATA_SOURCES

    create_table(tmp_path, {"id": pa.int64()}, format=form)
    made: Any = DATA_SOURCES[form == "iceberg"]({"path": str(tmp_path)})
    with pytest.raises(InvalidArgumentError, match="is no offset"):
        made.streamReader(made.schema()).partitions(recorded, recorded)


@pytest.mark.skipif(VERSION >= (4, 2), reason="Spark 4.2 and newer lets a source know its position")
def test_limits_are_refused_where_they_would_lose_rows(tmp_path: Path) -> None:
    from deltaberg.spark.source.datasource import DATA_SOURCES

    create_table(tmp_path, {"id": pa.int64()})
    made = DATA_SOURCES[0]({"path": str(tmp_path), "maxBytesPerTrigger": "10m"})
    with pytest.raises(InvalidArgumentError, match="would stay unread"):
        made.streamReader(made.schema()).latestOffset()


def _halved(batches: Any) -> Any:
    for batch in batches:
        yield pa.record_batch({"half": pc.divide(batch["id"], 2), "name": batch["name"]})


@pytest.mark.parametrize("kind", ["delta", "iceberg", "catalog"])
def test_a_function_runs_where_a_stream_is_read(kind: Any, spark: Any, tmp_path: Path) -> None:
    """The query goes on from the checkpoint of one without a function."""
    columns = {"id": pa.int64(), "name": pa.string()}
    if kind == "catalog":
        pytest.importorskip("sqlalchemy")
        catalog = load_catalog("shop", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "w"))
        catalog.create_namespace("sales")
        table = catalog.create_table("sales.orders", pa.schema(columns.items()))
    else:
        table = create_table(tmp_path / "table", columns, format=kind)
    table.append(pa.table({"id": [0, 2], "name": ["a", "b"]}))
    checkpoint, written = str(tmp_path / "checkpoint"), tmp_path / "written"

    def run(rows: Any) -> None:
        query = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query.format("parquet").option("path", str(written)).start().awaitTermination()

    options = {"filter": "id < 100", "columns": "name,id"}
    if kind != "catalog":
        run(register(spark).readStream.format(kind).options(**options).load(str(tmp_path / "table")))
        for file in written.glob("*.parquet"):
            file.write_bytes(b"")
    table.append(pa.table({"id": [4, 102], "name": ["c", "d"]}))
    run(deltaberg.spark.read_stream(table, spark, options).map_in_arrow(_halved, "half bigint, name string"))
    files = [pq.read_table(file) for file in written.glob("*.parquet") if file.stat().st_size]
    rows = pa.concat_tables(files).sort_by("name").to_pylist()
    before = [{"half": 0, "name": "a"}, {"half": 1, "name": "b"}]
    assert rows == [*(before if kind == "catalog" else []), {"half": 2, "name": "c"}]


def test_sources_of_equal_streams_have_one_name(tmp_path: Path) -> None:
    """Spark removes no source: a loop that makes the same stream again and again registers one."""
    from pyspark.sql.types import StructType

    from deltaberg.spark.source.streaming.delta_stream_settings import DeltaStreamSettings
    from deltaberg.spark.source.streaming.read_stream import _Fused, name_of

    create_table(tmp_path, {"id": pa.int64()})

    def name(factor: int, **options: str) -> str:
        settings = DeltaStreamSettings({"path": str(tmp_path), **options})
        settings.scan()
        return name_of(_Fused(settings, lambda batches: (batch.slice(factor) for batch in batches), StructType()))

    assert name(1) == name(1)
    assert len({name(1), name(2), name(1, filter="id > 1")}) == 3


def test_tables_of_the_past_are_no_streams(tmp_path: Path) -> None:
    create_table(tmp_path, {"id": pa.int64()})
    past, table = open_table(tmp_path, version=0), open_table(tmp_path)
    for wrong, options, message in (
        (past, None, "opened with version"),
        (str(tmp_path), None, "of type str"),
        (table, ["startingVersion"], "must be a mapping"),
        (table, None, "not a Spark session"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            deltaberg.spark.read_stream(wrong, None, options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "option", [{"startingVersio": 1}, {"filter": "nope = 1"}, {"Path": "/nowhere"}, {"catalog": "x"}]
)
def test_options_of_a_stream_with_a_function_are_refused_at_once(tmp_path: Path, option: Any) -> None:
    table = create_table(tmp_path, {"id": pa.int64()})
    with pytest.raises(DeltabergError, match=r"startingVersio|nope|the option (path|catalog) "):
        deltaberg.spark.read_stream(table, None, option)  # type: ignore[arg-type]


def test_rows_whose_vector_is_lost_are_not_passed_over(tmp_path: Path) -> None:
    from deltaberg.spark.source.datasource import DATA_SOURCES

    table = create_table(tmp_path, {"id": pa.int64()}, properties={"delta.enableDeletionVectors": "true"})
    table.append(pa.table({"id": range(9)}))
    table.delete("id = 4")
    (vector,) = tmp_path.glob("deletion_vector_*.bin")
    vector.unlink()
    source: Any = DATA_SOURCES[0]({"path": str(tmp_path), "failOnDataLoss": "false"})
    reader = source.streamReader(source.schema())
    partitions = reader.partitions(reader.initialOffset(), reader.latestOffset())
    with pytest.raises(DataFileNotFoundError, match="the file of a deletion vector is gone"):
        _ = [batch for partition in partitions for batch in reader.read(partition)]


def test_what_was_vacuumed_is_passed_over_where_it_may_be_lost(tmp_path: Path) -> None:
    from deltaberg.spark.source.datasource import DATA_SOURCES

    table = create_table(tmp_path, {"id": pa.int64()})
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    # Rows of version 2 are in a file that is gone, and the commits of versions 0 and 1 were cleaned up.
    table.checkpoint()
    gone = tmp_path / named_actions(tmp_path, 2, "add")[0]["path"]
    gone.unlink()
    for version in range(2):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    options = {"path": str(tmp_path), "startingVersion": "0"}
    strict: Any = DATA_SOURCES[0](options)
    with pytest.raises(VersionNotFoundError, match="cannot begin at version 0"):
        strict.streamReader(strict.schema()).latestOffset()
    source: Any = DATA_SOURCES[0]({**options, "failOnDataLoss": "false"})
    reader = source.streamReader(source.schema())
    with pytest.warns(UserWarning, match="rows of .* are lost"):
        offsets = [
            one
            for partition in reader.partitions(reader.initialOffset(), reader.latestOffset())
            for batch in reader.read(partition)
            for one in batch["id"].to_pylist()
        ]
    assert offsets == [2]
    strict = DATA_SOURCES[0]({**options, "startingVersion": "2"}).streamReader(source.schema())
    partitions = strict.partitions(strict.initialOffset(), strict.latestOffset())
    with pytest.raises(DataFileNotFoundError, match="a live data file is gone"):
        _ = [batch for partition in partitions for batch in strict.read(partition)]
