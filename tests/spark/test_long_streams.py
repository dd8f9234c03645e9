"""A long stream of small batches into a table that is put in order meanwhile: nothing grows with the batches.

``python -m tests.spark.test_long_streams delta 5000`` runs a longer one, and prints what it measured.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import DeltabergError
from tests.spark.doors import needs_data_sources, register

pytestmark = [needs_data_sources, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.full]

_BATCHES = 120
_ASKS = {
    "delta": {"delta.autoOptimize.autoCompact": "true"},
    "iceberg": {
        "deltaberg.auto-compact.enabled": "true",
        "write.metadata.previous-versions-max": "20",
        "write.metadata.delete-after-commit.enabled": "true",
        "history.expire.max-snapshot-age-ms": "1",
    },
}


def _resident(process: int) -> int:
    """Return the memory of a process in MiB."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    # A process that has ended has none.
    return next((int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS")), 0)


def _workers(root: int) -> list[int]:
    """Return the processes below one, but for itself."""
    workers, waiting = [], [root]
    while waiting:
        for path in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            try:
                below = [int(text) for text in path.read_text().split()]
            except OSError:
                continue
            workers += below
            waiting += below
    return workers


def measured(spark: Any, at: Path, table_format: Any, batches: int) -> dict[str, Any]:
    """Run a stream of so many batches beside maintenance, and return what was measured."""
    register(spark).conf.set("spark.sql.streaming.numRecentProgressUpdates", str(batches + 1))
    (at / "arrivals").mkdir()
    for number in range(batches):
        (at / "arrivals" / f"{number:06}.json").write_text(json.dumps({"id": number}))
    create: Any = create_table
    create(at / "t", {"id": pa.int64()}, format=table_format, properties=_ASKS[table_format])
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", "1").json(f"{at}/arrivals")
    writer = rows.coalesce(1).writeStream.format(table_format).option("checkpointLocation", f"{at}/checkpoint")
    query = writer.option("autoCompactBatches", "5").trigger(availableNow=True).start(f"{at}/t")
    ended = threading.Event()
    maintained: list[int | str] = []
    memory: list[tuple[int, int]] = []
    jvm = spark.sparkContext._gateway.proc.pid if hasattr(spark, "sparkContext") else None

    def maintain() -> None:
        while not ended.wait(3):
            # Others commit in between: what they got in the way of is left for the next run.
            try:
                maintained.append(len(open_table(at / "t").maintain(dry_run=False).steps))
            except DeltabergError as error:
                maintained.append(str(error))
            if jvm is not None:
                memory.append((_resident(jvm), max((_resident(one) for one in _workers(jvm)), default=0)))

    beside = threading.Thread(target=maintain)
    beside.start()
    try:
        query.awaitTermination()
    finally:
        ended.set()
        beside.join()
    table = open_table(at / "t")
    times = [one.durationMs["triggerExecution"] for one in query.recentProgress if one.numInputRows]
    quarter = max(len(times) // 4, 1)
    return {
        "ids": sorted(table.scan().to_arrow()["id"].to_pylist()),
        "batches": len(times),
        "median ms, first and last quarter": [statistics.median(times[:quarter]), statistics.median(times[-quarter:])],
        "MiB of JVM and of the largest worker, first and last": [memory[0], memory[-1]] if memory else [],
        "live files": len(table.scan().files()),
        "files": {name: len(list((at / name).rglob("*"))) for name in ("t", "checkpoint")},
        "bytes": sum(path.stat().st_size for path in at.joinpath("t").rglob("*") if path.is_file()),
        "maintained": len(maintained),
    }


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_nothing_grows_with_the_batches(spark: Any, tmp_path: Path, table_format: Any) -> None:
    found = measured(spark, tmp_path, table_format, _BATCHES)
    assert (found["ids"], found["batches"]) == (list(range(_BATCHES)), _BATCHES)
    assert found["live files"] < _BATCHES // 2
    assert found["maintained"]


if __name__ == "__main__":
    from tests.support.spark_session import start_session

    with tempfile.TemporaryDirectory() as folder:
        shown = measured(start_session(), Path(folder), sys.argv[1], int(sys.argv[2]))
        shown["ids"] = "each once" if shown["ids"] == list(range(int(sys.argv[2]))) else "wrong"
        sys.stdout.write("".join(f"{name}: {value}\n" for name, value in shown.items()))
