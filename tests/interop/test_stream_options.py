"""The streams of the connectors and ours give the same rows of the same tables, or both give none, by each option."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import DeltabergError
from tests.interop.judged_iceberg import JudgedTable
from tests.support.judge import Judge, JudgeError

pytestmark = [
    pytest.mark.judges,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.one_backend,
    pytest.mark.timeout(1800),
]

_THEIRS = """
import uuid

name = f"rows_{uuid.uuid4().hex}"
writer = spark.readStream.format(format).options(**options).load(path).writeStream.format("memory").queryName(name)
query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
spark.table(name)
"""


def _ours(form: str, path: str, options: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of our source, batch by batch, as Spark asks it for them."""
    from deltaberg.spark.source.datasource import DATA_SOURCES

    chosen = {"path": path, "deltaberg.limitsWithoutAvailableNow": "true", **options}
    source = DATA_SOURCES[form == "iceberg"](chosen)
    reader: Any = source.streamReader(source.schema())
    at, rows = reader.initialOffset(), []
    while (end := json.loads(json.dumps(reader.latestOffset(at)))) != at:
        for partition in reader.partitions(at, end):
            for batch in reader.read(partition):
                rows += batch.to_pylist()
        at = end
    return rows


def _counted(rows: list[dict[str, Any]]) -> Counter[str]:
    """Return rows that can be compared: connectors order columns as they like."""
    return Counter(str(sorted((name, str(value)) for name, value in row.items())) for row in rows)


def _compare(judge: Judge, form: str, path: str, options: Mapping[str, str], checkpoint: Path) -> str | None:
    """Return in what both sides differ, or that both refuse to go on; None if the rows are equal."""
    arguments = {"format": form, "path": path, "options": dict(options), "checkpoint": str(checkpoint)}
    try:
        theirs: Any = _counted(judge.run(_THEIRS, **arguments).to_pylist())
    except JudgeError as error:
        theirs = error
    try:
        ours: Any = _counted(_ours(form, path, options))
    except DeltabergError as error:
        ours = error
    if isinstance(theirs, Counter) and isinstance(ours, Counter):
        return None if theirs == ours else f"{options}: only theirs {theirs - ours}, only ours {ours - theirs}"
    if isinstance(theirs, Exception) and isinstance(ours, Exception):
        return "refused"
    return f"{options}: theirs {str(theirs)[:600]}; ours {str(ours)[:600]}"


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([f"p{one % 2}" for one in ids], pa.string())})


@pytest.mark.req("DL-STR-02", half="writer")
@pytest.mark.req("DL-STR-03", half="writer")
@pytest.mark.req("DL-STR-09", half="writer")
def test_delta_options(tmp_path: Path, judge: Judge) -> None:
    path = tmp_path / "t"
    table: Any = create_table(path, _rows().schema, partition_by="p", properties={"delta.enableChangeDataFeed": "true"})
    table.append(_rows(1, 2, 3))
    table.append(_rows(4))
    table.append(_rows(5, 6))
    added = DeltaTable(path).version
    table.delete("p = 'p1'")
    table.append(_rows(7, 8))
    table.update({"id": "id + 100"}, "id = 2")
    judge.run("spark.sql(f'OPTIMIZE delta.`{path}`').count()", path=str(path))
    table.refresh().append(_rows(9))
    newest = DeltaTable(path).version
    times = [commit.timestamp for commit in reversed(DeltaTable(path).history())]
    middle = times[2].strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    start, feed = {"startingVersion": "0"}, {"readChangeFeed": "true"}
    cases: list[dict[str, str]] = [
        {},
        *({**start, **more} for more in ({}, {"ignoreDeletes": "true"}, {"ignoreChanges": "true"})),
        {**start, "skipChangeCommits": "true"},
        {**start, "skipChangeCommits": "true", "maxFilesPerTrigger": "1"},
        {**start, "skipChangeCommits": "true", "maxBytesPerTrigger": "1b"},
        *({"startingVersion": text, "ignoreChanges": "true"} for text in ("2", str(added), str(newest), "latest")),
        *({"startingVersion": str(newest + more)} for more in (1, 2)),
        {"startingTimestamp": middle, "skipChangeCommits": "true"},
        {"startingTimestamp": "2001-01-01", "skipChangeCommits": "true"},
        {"startingTimestamp": "2101-01-01"},
        {"excludeRegex": "p=p1"},
        {**start, "excludeRegex": "p=p1", "skipChangeCommits": "true", "maxFilesPerTrigger": "1"},
        feed,
        *({**feed, **start, **more} for more in ({}, {"maxFilesPerTrigger": "1"}, {"skipChangeCommits": "true"})),
        {**feed, "startingVersion": str(added)},
        {**feed, "startingTimestamp": middle},
        {**feed, "startingVersion": str(newest + 1)},
        {**feed, "startingTimestamp": "2101-01-01"},
    ]
    judge.run("spark.conf.set('spark.sql.session.timeZone', 'UTC')")
    compared = [_compare(judge, "delta", str(path), case, tmp_path / f"c{n}") for n, case in enumerate(cases)]
    assert compared == ["refused" if n in [1, 2, 11, 12, 15, 24, 25] else None for n in range(len(cases))]


@pytest.mark.req("ICE-STR-01", half="writer")
@pytest.mark.req("ICE-STR-02", half="writer")
def test_iceberg_options(tmp_path: Path, judge: Judge) -> None:
    judged = JudgedTable(judge, "streamed_by_options")
    table: Any = judged.create(_rows().schema, partition_by="p")
    for ids in ((1, 2, 3), (4,), (5, 6)):
        table.append(_rows(*ids))
    table.delete("p = 'p1'")
    table.append(_rows(7, 8))
    table.update({"id": "id + 100"}, "id = 2")
    table.append(_rows(10))
    judged.call("rewrite_data_files")
    judged.sql("INSERT INTO {t} VALUES (9, 'p1')")
    times = [snapshot.timestamp_ms for snapshot in judged.open().snapshots]
    skips = {f"streaming-skip-{what}-snapshots": "true" for what in ("overwrite", "delete")}
    cases: list[dict[str, str]] = [
        *(
            {"stream-from-timestamp": "0", **skips, **more}
            for more in (
                {},
                {"streaming-max-files-per-micro-batch": "1"},
                {"streaming-max-rows-per-micro-batch": "1"},
                {"streaming-max-rows-per-micro-batch": "3"},
            )
        ),
        *({"stream-from-timestamp": "0", name: "true"} for name in skips),
        {"stream-from-timestamp": "0"},
        *({"stream-from-timestamp": str(one + more), **skips} for one in times[1:] for more in (0, 1)),
    ]
    path = str(judged.root)
    compared = [_compare(judge, "iceberg", path, case, tmp_path / f"c{n}") for n, case in enumerate(cases)]
    assert compared == ["refused" if n in [4, 5, 6] else None for n in range(len(cases))]
