"""Drivers of streams that are killed at each step of a batch: every row is in the table once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from tests.spark.doors import VERSION, needs_data_sources
from tests.spark.killed_sources import STEPS, ids_by_the_log, ids_of_killed_query
from tests.support.spark_session import REMOTE

pytestmark = [
    needs_data_sources,
    pytest.mark.spark,
    pytest.mark.one_backend,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="drivers are found below /proc, as on Linux"),
]

_BATCHES = 6
_QUERY = """
import sys
from tests.spark.killing_sinks import KILLING_SOURCES
from tests.spark.killed_sources import STEPS, ids_by_the_log, ids_of_killed_query
from tests.support.spark_session import start_session

place, table_format = sys.argv[1:]
spark = start_session()
spark.dataSource.register(KILLING_SOURCES[table_format])
rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", "1").json(f"{place}/arrivals")
query = rows.repartition(2).writeStream.format(table_format).option("checkpointLocation", f"{place}/checkpoint")
query.trigger(availableNow=True).start(f"{place}/t").awaitTermination()
print("done")
"""


@pytest.mark.full
@pytest.mark.req("DL-STR-07", half="writer")
@pytest.mark.req("ICE-STR-04", half="writer")
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_every_row_is_there_once(tmp_path: Path, table_format: str) -> None:
    if VERSION < (4, 1):
        pytest.skip("one release is enough for kills")
    (tmp_path / "arrivals").mkdir()
    (tmp_path / "killed").mkdir()
    for number in range(_BATCHES):
        lines = [json.dumps({"id": 10 * number + one}) for one in range(10)]
        (tmp_path / "arrivals" / f"{number}.json").write_text("\n".join(lines))
    environment = {name: value for name, value in os.environ.items() if name != REMOTE}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), *sys.path]))
    environment["DELTABERG_TEST_KILLED"] = str(tmp_path / "killed")
    ended: list[bool] = []
    command = [sys.executable, "-c", _QUERY, str(tmp_path), table_format]
    while not ended or (not ended[-1] and len(ended) <= _BATCHES):
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
        ended.append(ran.returncode == 0)
    assert ended == [False] * _BATCHES + [True], ran.stderr[-3000:]
    steps = Counter(path.name.rpartition(" ")[0] for path in (tmp_path / "killed").iterdir())
    assert steps == dict.fromkeys(("write", "before commit", "after commit"), 2)
    expected = list(range(10 * _BATCHES))
    assert sorted(open_table(tmp_path / "t").scan().to_arrow()["id"].to_pylist()) == expected
    if table_format == "delta":
        assert sorted(ids_by_the_log(tmp_path / "t")) == expected


@pytest.mark.req("DL-STR-04", half="writer")
@pytest.mark.req("ICE-STR-03", half="writer")
@pytest.mark.parametrize(
    ("table_format", "step", "batches"),
    [
        ("delta", "partitions", 1),
        *(pytest.param(form, step, 2, marks=pytest.mark.full) for form in ("delta", "iceberg") for step in STEPS),
    ],
)
def test_every_row_of_a_source_is_given_once(tmp_path: Path, table_format: Any, step: str, batches: int) -> None:
    if VERSION < (4, 1):
        pytest.skip("one release is enough for kills")
    expected, found = ids_of_killed_query(tmp_path, table_format, step, batches)
    assert found == expected
