"""``spark.read.format("delta")`` without a jar: options, views, versions and errors."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from tests.spark.doors import needs_data_sources, own_calls, register
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import collect

pytestmark = [pytest.mark.spark, needs_data_sources]

_NOON = 1_704_110_400_000  # 2024-01-01 12:00:00 UTC
_HOUR = 3_600_000


def _versions(builder: DeltaBuilder) -> None:
    """Version 0 has a and b, version 1 c too, version 2 has lost b by a deletion vector; an hour between them."""
    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    configuration = {"delta.enableChangeDataFeed": "true"}
    first = builder.add(rows, stats="full")
    features = builder.features("deletionVectors", writer_only=["changeDataFeed"])
    builder.create(rows.schema, first, protocol=features, configuration=configuration, millis=_NOON)
    builder.commit(builder.add(pa.table({"id": [3], "name": ["c"]}), stats="full"), millis=_NOON + _HOUR)
    body = {**first["add"], "deletionVector": builder.vector([1])}
    builder.commit(builder.remove(first), {"add": body}, millis=_NOON + 2 * _HOUR)


def _load(spark: Any, builder: DeltaBuilder, **options: Any) -> Any:
    return register(spark).read.format("delta").options(**options).load(str(builder.root))


def _names(frame: Any) -> str:
    return "".join(sorted(row["name"] for row in frame.collect()))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, "ac"),
        ({"versionAsOf": 0}, "ab"),
        ({"VERSIONASOF": "1"}, "abc"),
        ({"timestampAsOf": "2024-01-01 13:59:59"}, "abc"),
        ({"timestampAsOf": "2024-01-01T12:00:00.000Z"}, "ab"),
        ({"timestampAsOf": "2024-01-01 14:00:00+01:00"}, "abc"),
        ({"timestampAsOf": "2024-01-01 13:00:00", "timezone": "Europe/Paris"}, "ab"),
        ({"filter": "id > 1"}, "c"),
        ({"batchSize": "1", "versionAsOf": "1"}, "abc"),
    ],
)
def test_rows(options: Mapping[str, Any], names: str, spark: Any, builder: DeltaBuilder) -> None:
    _versions(builder)
    assert _names(_load(spark, builder, **options)) == names


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ("name", {"name": ["a", "c"]}),
        (" NAME , id", {"name": ["a", "c"], "id": [1, 3]}),
        ('["id"]', {"id": [1, 3]}),
        ('[["name"]]', {"name": ["a", "c"]}),
    ],
)
def test_columns(columns: str, found: dict[str, list[Any]], spark: Any, builder: DeltaBuilder) -> None:
    _versions(builder)
    assert collect(_load(spark, builder, columns=columns).orderBy(*found)).to_pydict() == found


def test_metadata_columns(spark: Any, builder: DeltaBuilder) -> None:
    _versions(builder)
    frame = _load(spark, builder, columns="id,_metadata.row_index,_metadata.file_name", versionAsOf=1)
    rows = sorted((row["id"], row["_metadata"]["row_index"], row["_metadata"]["file_name"]) for row in frame.collect())
    first, second = (add["add"]["path"] for version in (0, 1) for add in builder.commits[version] if "add" in add)
    assert rows == [(1, 0, first), (2, 1, first), (3, 0, second)]


_FEED = [
    ("a", "insert", 0, _NOON),
    ("b", "insert", 0, _NOON),
    ("c", "insert", 1, _NOON + _HOUR),
    ("b", "delete", 2, _NOON + 2 * _HOUR),
]


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({"startingVersion": 0}, _FEED),
        ({"startingVersion": 1, "endingVersion": "1"}, _FEED[2:3]),
        ({"startingTimestamp": "2024-01-01 12:30:00"}, _FEED[2:]),
        ({"startingVersion": 0, "endingTimestamp": "2024-01-01 13:30:00"}, _FEED[:3]),
        ({"startingVersion": 0, "filter": "_change_type = 'delete'"}, _FEED[3:]),
    ],
)
def test_change_feed(options: Mapping[str, Any], changes: list[Any], spark: Any, builder: DeltaBuilder) -> None:
    _versions(builder)
    found = collect(_load(spark, builder, readChangeFeed="true", **options)).to_pylist()
    assert sorted(found, key=repr) == sorted(
        (
            {
                "id": ord(name) - ord("a") + 1,
                "name": name,
                "_change_type": kind,
                "_commit_version": version,
                "_commit_timestamp": dt.datetime.fromtimestamp(millis / 1000, dt.timezone.utc),
            }
            for name, kind, version, millis in changes
        ),
        key=repr,
    )


def test_views_and_joins_in_sql(spark: Any, builder: DeltaBuilder) -> None:
    _versions(builder)
    register(spark)
    views = {"newest": "", "old": ", versionAsOf '0'", "feed": ", readChangeFeed 'true', startingVersion 0"}
    for view, more in views.items():
        options = f"path '{builder.root}'{more}"
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW delta_{view} USING delta OPTIONS ({options})")
    joined = "SELECT name FROM delta_old JOIN delta_newest USING (id, name)"
    assert _names(spark.sql(joined)) == "a"
    lost = """
        SELECT old.name, feed._commit_version
        FROM delta_old old LEFT ANTI JOIN delta_newest newest ON old.id = newest.id
        JOIN delta_feed feed ON feed.id = old.id AND feed._change_type = 'delete'"""
    assert [tuple(row) for row in spark.sql(lost).collect()] == [("b", 2)]
    both = "SELECT * FROM delta_old UNION ALL SELECT * FROM delta_newest"
    counts = spark.sql(f"SELECT count(*), count(DISTINCT name) FROM ({both})").collect()
    assert [tuple(row) for row in counts] == [(4, 3)]


def test_a_frame_keeps_its_version(spark: Any, builder: DeltaBuilder) -> None:
    """Spark plans each action again in a new process, but the version was fixed when the frame was made."""
    _versions(builder)
    frame = _load(spark, builder)
    assert _names(frame) == "ac"
    builder.commit(builder.add(pa.table({"id": [4], "name": ["d"]})))
    assert _names(frame) == "ac"
    assert frame.filter("id > 2").count() == 1
    assert _names(_load(spark, builder)) == "acd"


_PAIRS = [
    ({"versionAsOf": 0, "timestampAsOf": "2024-01-01"}, "versionAsOf and timestampAsOf cannot be used together"),
    ({"versionAsOf": "newest"}, "the option versionAsOf must be an integer, not 'newest'"),
    ({"versionAsOf": 7}, "version 7"),
    ({"timestampAsOf": "2023-01-01"}, "2023-01-01"),
    ({"timestampAsOf": "yesterday"}, "'yesterday' is not a timestamp"),
    ({"startingVersion": 0}, "the option startingVersion needs a change feed"),
    ({"readChangeFeed": "true"}, "a change feed needs the option startingVersion or startingTimestamp"),
    (
        {"readChangeFeed": "true", "startingVersion": 0, "versionAsOf": 1},
        "the option versionAsOf cannot be used with a change feed",
    ),
    (
        {"readChangeFeed": "perhaps", "startingVersion": 0},
        "the option readChangeFeed must be true or false, not 'perhaps'",
    ),
    (
        {"readChangeFeed": "true", "startingVersion": 0, "startingTimestamp": "2024-01-01"},
        "startingVersion and startingTimestamp cannot be used together",
    ),
    ({"versionsAsOf": 0}, "did you mean versionAsOf?"),
    ({"mergeSchema": "true"}, "has no option mergeschema\nhint: leave it out: a read has the columns"),
    ({"overwriteSchema": "true"}, "has no option overwriteschema\nhint: leave it out: a read has the columns"),
    ({"withSchemaEvolution": "true"}, "has no option withschemaevolution\nhint: leave it out: a read has the columns"),
    ({"columns": "name,,id"}, "the option columns must be names separated by commas, not 'name,,id'"),
    ({"columns": "nmae"}, "nmae"),
    ({"columns": "[name]"}, "must be a JSON list, not"),
    ({"columns": "[]"}, "the option columns names no column"),
    ({"filter": "colour = 'red'"}, "colour"),
    ({"timezone": "Mars/Olympus"}, "'Mars/Olympus' is not a time zone"),
]


@pytest.mark.parametrize(("options", "words"), _PAIRS, ids=[words for _, words in _PAIRS])
def test_options_that_are_refused(options: Mapping[str, Any], words: str, builder: DeltaBuilder) -> None:
    """The schema is asked for in a process of Spark, which passes the message on to the driver (see below).

    Some options have a meaning for streams, which have the same schema: these are refused where the read is planned.
    """
    from deltaberg.errors import DeltabergError
    from deltaberg.spark.source.datasource import DeltaDataSource

    _versions(builder)
    source = DeltaDataSource({"path": str(builder.root)} | {name.lower(): str(text) for name, text in options.items()})
    with pytest.raises(DeltabergError) as raised:
        source.reader(source.schema())
    assert words in str(raised.value)


def test_stores_options_are_known_by_their_spelling(builder: DeltaBuilder) -> None:
    from deltaberg.spark.source.datasource import DeltaDataSource

    _versions(builder)
    given = {"AWS_REGION": "eu-west-1", "s3.endpoint": "http://localhost:1", "max_retries": "3", "profile": "p"}
    assert DeltaDataSource({"path": str(builder.root), **given}).schema().names == ["id", "name"]


def _refused(builder: DeltaBuilder) -> None:
    builder.create(pa.schema([("id", pa.int64())]), protocol=builder.features("quantumEntanglement"))


def _nothing(builder: DeltaBuilder) -> None:
    (builder.log / "00000000000000000000.json").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_refused, ["UnsupportedFeatureError", "quantumEntanglement"]),
        (_nothing, ["TableNotFoundError", "holds no commit"]),
    ],
)
def test_our_message_reaches_the_driver_when_the_frame_is_made(
    make: Any, words: list[str], spark: Any, builder: DeltaBuilder
) -> None:
    from pyspark.errors import AnalysisException

    make(builder)
    with pytest.raises(AnalysisException) as raised:
        # Over Connect a frame is made when its schema is asked for.
        _ = _load(spark, builder).schema
    assert str(builder.root) in str(raised.value)
    assert own_calls(raised.value) <= {"call"}
    for said in words:
        assert said in str(raised.value)


def test_without_a_path(spark: Any) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="needs one path"):
        register(spark).read.format("delta").load()


@pytest.mark.parametrize(("table_format", "clause"), [("delta", "LOCATION '{}'"), ("iceberg", "OPTIONS (path '{}')")])
def test_a_table_of_the_catalog_is_refused_when_it_is_created(
    table_format: Any, clause: str, spark: Any, tmp_path: Path
) -> None:
    """Spark passes the path only then, so that no query of the table could find it."""
    from pyspark.errors import AnalysisException

    deltaberg.write_table(tmp_path / "t", pa.table({"id": [1]}), format=table_format)
    with pytest.raises(AnalysisException) as raised:
        register(spark).sql(f"CREATE TABLE listed USING {table_format} {clause.format(tmp_path / 't')}").collect()
    assert f'format("{table_format}") cannot hold a table of Spark\'s catalog' in str(raised.value)
    assert f"CREATE TEMPORARY VIEW ... USING {table_format} OPTIONS (path '...')" in str(raised.value)
    assert not spark.catalog.tableExists("listed")


def test_queries_of_a_path_are_refused_by_spark(spark: Any, builder: DeltaBuilder) -> None:
    """As docs/spark.md says, with what to write instead."""
    from pyspark.errors import AnalysisException

    _versions(builder)
    with pytest.raises(AnalysisException, match="UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"):
        register(spark).sql(f"SELECT * FROM delta.`{builder.root}`").collect()
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW seen USING delta OPTIONS (path '{builder.root}')").collect()
    assert _names(spark.sql("SELECT * FROM seen")) == "ac"
    spark.sql("DROP VIEW seen").collect()


def test_a_schema_of_the_caller_must_be_that_of_the_table(spark: Any, builder: DeltaBuilder) -> None:
    _versions(builder)
    reader = register(spark).read.format("delta")
    assert _names(reader.schema("id bigint, name string").load(str(builder.root))) == "ac"
    for schema in ("id int, name string", "name string, id bigint", "id bigint"):
        with pytest.raises(Exception, match="is not that of the table"):
            reader.schema(schema).load(str(builder.root)).collect()
