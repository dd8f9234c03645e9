"""Storage options reach the executors by each door of Spark; each of them is a process without any other word of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.doors import DOORS, read
from tests.support.delta_builder import DeltaBuilder

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("door", DOORS)
def test_a_bucket(door: str, s3: Any, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in s3.options:
        monkeypatch.delenv(name, raising=False)
    made = DeltaBuilder(tmp_path / "made")
    add = made.add(
        pa.table({"id": [1, 2, 3]}),
        path="p=a%2Fb/part 1%.parquet",
        partition={"p": "a/b"},
        vector=made.vector([1], prefix="ab"),
    )
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    made.create(schema, add, partition_by=["p"], protocol=made.features("deletionVectors"))
    found = read(door, spark, s3.upload(made.root, "a table"), storage_options=s3.options)
    assert sorted(found["id"].to_pylist()) == [1, 3]
    assert set(found["p"].to_pylist()) == {"a/b"}
