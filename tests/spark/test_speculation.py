"""Tasks that Spark runs twice at the same time (``spark.speculation``): every row is there once, by each road.

Spark starts the second attempt of a task on another host only, so that this cluster has two names of this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from deltaberg import open_table
from tests.spark.doors import needs_native_writes
from tests.support.spark_session import REMOTE

pytestmark = [
    pytest.mark.spark,
    pytest.mark.one_backend,
    pytest.mark.full,
    needs_native_writes,
    pytest.mark.skipif(sys.platform != "linux", reason="all of 127.0.0.0/8 is this machine on Linux"),
]

_SETTINGS = {
    "spark__speculation": "true",
    "spark__speculation__interval": "50ms",
    "spark__speculation__quantile": "0.5",
    "spark__speculation__multiplier": "1.1",
    "spark__speculation__minTaskRuntime": "100ms",
    # A stage may have one task only.
    "spark__speculation__task__duration__threshold": "1s",
    "spark__sql__execution__arrow__maxRecordsPerBatch": "100",
    "spark__executor__memory": "512m",
    "spark__executor__extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
#: The first task of each write stops in the middle of its rows, until a second attempt of it has come as far.
_WRITES = """
import json, sys, time
from pathlib import Path
import pyarrow as pa
from pyspark import TaskContext
from deltaberg import create_table
from tests.support.spark_session import start_session

place, settings = sys.argv[1], json.loads(sys.argv[2])

def waiting(name):
    def function(batches):
        for number, batch in enumerate(batches):
            yield batch
            context = TaskContext.get()
            if number == 0 and context.partitionId() == 0:
                Path(place, f"{name}-{context.attemptNumber()}").touch()
                end = time.monotonic() + 60
                while not Path(place, f"{name}-1").exists() and time.monotonic() < end:
                    time.sleep(0.02)
    return function

spark = start_session(**settings)
columns = pa.schema([("id", pa.int64())])
rows = spark.range(0, 2000, 1, 4)
source = create_table(Path(place, "source"), columns)
for first in range(0, 2000, 500):
    source.append(pa.table({"id": range(first, first + 500)}))
roads = {}
for name in ("native", "arrow", "fused"):
    # Rows of a column that must not be null go by Arrow.
    table = create_table(Path(place, name), pa.schema([pa.field("id", pa.int64(), nullable=name != "arrow")]))
    if name == "fused":
        frame = source.scan(batch_size=100).map_in_arrow(spark, waiting(name), "id bigint")
    else:
        frame = rows.mapInArrow(waiting(name), "id bigint")
    roads[name] = table.append(frame).road
print(json.dumps(roads))
spark.stop()
"""


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextlib.contextmanager
def _cluster(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Start a master and a worker on each of two hosts, and return where the master listens."""
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), "org.apache.spark.deploy"]
    port = _port()
    address = f"spark://127.0.0.1:{port}"
    starts = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for host in ("127.0.0.1", "127.0.0.2"):
        work = ["--work-dir", str(folder / host), "--webui-port", "0", address]
        starts.append(["worker.Worker", "--host", host, "--cores", "1", "--memory", "1g", *work])
    running: list[subprocess.Popen[bytes]] = []
    try:
        for name, *arguments in starts:
            process = [command[0], f"{command[1]}.{name}", *arguments]
            with (folder / f"{len(running)}.log").open("wb") as log:
                running.append(subprocess.Popen(process, env=environment, stdout=log, stderr=log))
        yield address
    finally:
        for started in reversed(running):
            started.terminate()
            started.wait(30)


def test_tasks_that_run_at_the_same_time_count_once(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != REMOTE}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), *sys.path]))
    with _cluster(tmp_path, environment) as master:
        settings = json.dumps({"spark__master": master, **_SETTINGS})
        command = [sys.executable, "-c", _WRITES, str(tmp_path), settings]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
    roads = ["native", "arrow", "fused"]
    assert json.loads(ran.stdout.splitlines()[-1]) == {road: road for road in roads}
    assert {path.name for path in tmp_path.glob("*-[0-9]")} == {
        f"{road}-{number}" for road in roads for number in (0, 1)
    }
    for road in roads:
        assert sorted(open_table(tmp_path / road).scan().to_arrow()["id"].to_pylist()) == list(range(2000))
