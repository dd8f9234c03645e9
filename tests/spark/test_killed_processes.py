"""Processes of Spark that are killed while they write.

Tasks of executors run again elsewhere, and every row is there once. Without its driver, a table stays as it was.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

from deltaberg import create_table, open_table
from tests.spark.doors import needs_native_writes
from tests.support.spark_session import REMOTE

pytestmark = [
    pytest.mark.spark,
    pytest.mark.one_backend,
    pytest.mark.full,
    needs_native_writes,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="executors are found below /proc, as on Linux"),
]

#: Each write kills two executors, in the middle of the rows of a task.
_WRITES = """
import json, os, signal, sys
from pathlib import Path
import pyarrow as pa
from pyspark import TaskContext
from deltaberg import create_table
from tests.support.spark_session import start_session

# The session is made from other arguments.
place, settings = sys.argv[1], json.loads(sys.argv[2])

def parent(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])

def killing(name):
    def function(batches):
        for batch in batches:
            yield batch
            half = TaskContext.get().partitionId() % 2
            try:
                Path(place, f"{name}-killed-{half}").touch(exist_ok=False)
            except FileExistsError:
                continue
            # The parent of a worker is the daemon, and its parent is the executor.
            os.kill(parent(os.getppid()), signal.SIGKILL)
    return function

spark = start_session(spark__master="local-cluster[2, 1, 1024]", **settings)
columns = pa.schema([("id", pa.int64())])
rows = spark.range(0, 4000, 1, 4)
source = create_table(Path(place, "source"), columns)
source.append(rows)
source.append(rows.selectExpr("id + 4000 AS id"))
done = {}
for name, by in (("native", None), ("arrow", ["half"]), ("fused", None)):
    made = columns if by is None else columns.append(pa.field("half", pa.int64()))
    table = create_table(Path(place, name), made, partition_by=by)
    if name == "fused":
        frame = source.scan().map_in_arrow(spark, killing(name), "id bigint")
    else:
        frame = rows.mapInArrow(killing(name), "id bigint")
    result = table.append(frame if by is None else frame.selectExpr("id", "id % 2 AS half"))
    done[name] = [result.road, result.added_rows, result.added_files]
print(json.dumps(done))
spark.stop()
"""


def _run(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != REMOTE} | variables
    # Executors take the modules from where this process takes them.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), *sys.path]))
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)


def test_rows_of_killed_executors_are_there_once(tmp_path: Path) -> None:
    # Executors get their logs and their work below the home of Spark.
    home, installed = tmp_path / "spark", Path(pyspark.__file__).parent
    home.mkdir()
    for name in ("bin", "jars", "sbin", "python"):
        (home / name).symlink_to(installed / name)
    settings = {
        "spark__sql__execution__arrow__maxRecordsPerBatch": "100",
        "spark__executor__extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark__task__maxFailures": "8",
    }
    cluster = {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = _run(_WRITES, str(tmp_path), json.dumps(settings), **cluster)
    assert ran.returncode == 0, ran.stderr[-3000:]
    done = json.loads(ran.stdout.splitlines()[-1])
    assert {name: found[:2] for name, found in done.items()} == {
        "native": ["native", 4000],
        "arrow": ["arrow", 4000],
        "fused": ["fused", 8000],
    }
    assert len(list(tmp_path.glob("*-killed-*"))) == 6
    for name, (_, rows, files) in done.items():
        table = open_table(tmp_path / name)
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(rows))
        assert len(table.scan().files()) == files


#: The driver is killed when a task has written a part of its rows.
_KILLED = """
import os, signal, sys
from deltaberg import open_table
from tests.support.spark_session import start_session

place, road = sys.argv[1:]
driver = os.getpid()

def killing(batches):
    for batch in batches:
        yield batch.slice(0, 50)
        os.kill(driver, signal.SIGKILL)
        yield batch.slice(50)

spark = start_session(spark__sql__execution__arrow__maxRecordsPerBatch="100")
table = open_table(place)
rows = spark.range(0, 4000, 1, 2)
if road == "fused":
    frame = table.scan().map_in_arrow(spark, killing, "id bigint, part bigint")
else:
    frame = rows.mapInArrow(killing, "id bigint").selectExpr("id", "id % 2 AS part")
getattr(table, "overwrite" if road == "fused" else "append")(frame)
"""


@pytest.mark.parametrize(
    ("road", "made"),
    [("native", {}), ("arrow", {"partition_by": "part"}), ("native", {"format": "iceberg"}), ("fused", {})],
)
def test_a_killed_driver_leaves_the_table_as_it_was(road: str, made: dict[str, Any], tmp_path: Path) -> None:
    rows = pa.table({"id": range(2000), "part": [number % 2 for number in range(2000)]})
    table = create_table(tmp_path, rows.schema, **made)
    table.append(rows)
    ran = _run(_KILLED, str(tmp_path), road)
    assert ran.returncode == -signal.SIGKILL, ran.stderr[-3000:]
    before = table.scan().to_arrow()
    assert open_table(tmp_path).scan().to_arrow().equals(before)
    assert before.num_rows == 2000
    assert open_table(tmp_path).append(rows).committed
    assert open_table(tmp_path).scan().to_arrow().num_rows == 4000
