"""Storage options reach the executors by each door of Spark; each of them is a process without any other word of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from tests.spark.doors import DOORS, needs_native, read
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import collect, native_plan

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("door", DOORS)
def test_a_bucket(door: str, s3: Any, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in s3.options:
        monkeypatch.delenv(name, raising=False)
    builder = DeltaBuilder(tmp_path / "made")
    add = builder.add(
        pa.table({"id": [1, 2, 3]}),
        path="p=a%2Fb/part 1%.parquet",
        partition={"p": "a/b"},
        vector=builder.vector([1], prefix="ab"),
    )
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    builder.create(schema, add, partition_by=["p"], protocol=builder.features("deletionVectors"))
    found = read(door, spark, s3.upload(builder.root, "a table"), storage_options=s3.options)
    assert sorted(found["id"].to_pylist()) == [1, 3]
    assert set(found["p"].to_pylist()) == {"a/b"}


@needs_native
def test_files_of_two_stores(s3: Any, spark: Any, tmp_path: Path) -> None:
    """A clone has files of other stores, each of which Spark may have a file system for, or none."""
    schema = pa.schema([("id", pa.int64())])
    source, clone = DeltaBuilder(tmp_path / "source"), DeltaBuilder(tmp_path / "clone")
    # Spark would be asked for a file system for whichever is first.
    far = [source.add(pa.table({"id": [number]}), path=f"{number}.parquet") for number in (1, 3)]
    source.create(schema, *far)
    bucket = s3.upload(source.root, "source")
    near = clone.add(pa.table({"id": [2]}), path="2.parquet")
    for add in far:
        add["add"]["path"] = f"{bucket}/{add['add']['path']}"
    clone.create(schema, far[0], near, far[1])
    scan = open_table(clone.root, storage_options=s3.options, location_map={bucket: bucket}).scan()
    assert sorted(collect(scan.to_spark(spark))["id"].to_pylist()) == [1, 2, 3]
    found = native_plan(scan, spark)
    assert found.reasons == {"the session has no file system for its location": 2}
    assert sum(found.files.to_pylist()) == 1
