"""Rows of a Spark DataFrame on their way to the driver, by tasks that run in this process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from deltaberg import DeltaTable, IcebergTable, create_table, open_table, write_table
from deltaberg.errors import ColumnNotFoundError, ConstraintViolationError, InvalidArgumentError, SchemaError
from deltaberg.spark import FrameRows
from deltaberg.table.maintain.bins import stage
from tests.support.canon import canonical_lines

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]

_Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class _Frame:
    """A DataFrame whose tasks run here: each of them twice, as speculative ones do, and the first reply is lost."""

    isStreaming = False  # noqa: N815

    def __init__(self, parts: list[list[pa.RecordBatch]], schema: st.StructType) -> None:
        self.sparkSession = self
        self.schema = schema
        self._parts = parts
        self._replies: list[dict[str, Any]] = []
        self.columns: list[str] = []

    def createDataFrame(self, *_: object) -> None:  # noqa: N802
        """Exist, as sessions are known by it."""

    def toDF(self, *names: str) -> _Frame:  # noqa: N802
        self._parts = [[batch.rename_columns(list(names)) for batch in part] for part in self._parts]
        self.columns = list(names)
        return self

    def select(self, *names: str) -> _Frame:
        self._parts = [[batch.select(list(names)) for batch in part] for part in self._parts]
        self.columns = list(names)
        return self

    def mapInArrow(self, task: _Task, _: str) -> _Frame:  # noqa: N802
        sent: _Task = pickle.loads(pickle.dumps(task))
        for part in self._parts:
            list(sent(iter(part)))
            self._replies += [row for reply in sent(iter(part)) for row in reply.to_pylist()]
        return self

    def collect(self) -> list[dict[str, Any]]:
        return self._replies


@pytest.fixture(autouse=True)
def run_jobs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call what waits for jobs, which no session could cancel here."""
    monkeypatch.setattr("deltaberg.spark.write.frame_rows.run_job", lambda _, call: call())


_SCHEMA = {
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("a.b", "string"))
    ]
}


def _frame(*parts: pa.Table, schema: str = "id bigint, `a.b` string") -> FrameRows:
    columns = [column.strip().split(" ") for column in schema.split(",")]
    kinds = {"bigint": st.LongType(), "string": st.StringType(), "timestamp": st.TimestampType()}
    fields = [st.StructField(name.strip("`"), kinds[kind]) for name, kind in columns]
    return FrameRows(_Frame([part.to_batches() for part in parts], st.StructType(fields)))  # type: ignore[arg-type]  # it stands in for a frame


def _rows(*ids: int, text: str = "new") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "a.b": [f"{text} {number}" for number in ids]})


def _table(root: Path, table_format: Any = "delta") -> DeltaTable | IcebergTable:
    write_table(root, _rows(1, 2, 3, text="old"), format=table_format)
    found: DeltaTable | IcebergTable = open_table(root)
    return found


def _left(root: Path) -> list[str]:
    return [
        path.name for path in root.iterdir() if path.suffix not in (".parquet", "") and not path.name.startswith(".")
    ]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_frame_is_merged_once(tmp_path: Path, table_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tasks stored twice counts once, and nothing of it stays."""
    monkeypatch.setattr(stage, "_STREAM", 1)
    table = _table(tmp_path, table_format)
    parts = pa.concat_tables([_rows(2), _rows(7)]), _rows(), _rows(8)
    merge = table.merge(_frame(*parts), "target.id = source.id")
    result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (result.metrics["numSourceRows"], result.metrics["numTargetRowsUpdated"]) == (3, 1)
    expected = pa.concat_tables([_rows(1, 3, text="old"), _rows(2, 7, 8)])
    assert canonical_lines(table.scan().to_arrow()) == canonical_lines(expected)
    assert table.upsert(_frame(_rows(8, text="again"), _rows(9)), "id").metrics["numTargetRowsInserted"] == 1
    assert table.scan("id = 8").to_arrow()["a.b"].to_pylist() == ["again 8"]
    assert table.upsert(_frame(_rows()), "id").committed is False
    only = _Frame([_rows(8, 9).to_batches()], st.StructType.fromJson(_SCHEMA))
    merge = table.merge(FrameRows(only), "target.id = source.id")  # type: ignore[arg-type]  # it stands in for a frame
    assert merge.when_matched_delete().execute().metrics["numTargetRowsDeleted"] == 2
    assert only.columns == ["c0"]
    anything = table.merge(_frame(_rows(1), _rows(2)), "FALSE").when_not_matched_insert({"id": "0"})
    assert anything.execute().metrics["numTargetRowsInserted"] == 2
    assert not _left(tmp_path)


def test_a_frame_holds_keys_of_rows_to_delete(tmp_path: Path) -> None:
    table = _table(tmp_path, "iceberg")
    assert isinstance(table, IcebergTable)
    table.delete_by_keys(_frame(_rows(2), _rows(), _rows(3, text="not")), "id")
    assert table.scan().to_arrow()["id"].to_pylist() == [1]
    assert not table.delete_by_keys(_frame(_rows(), schema="id bigint, `a.b` string"), "id").committed
    only = FrameRows(_Frame([_rows(1).to_batches()], st.StructType.fromJson(_SCHEMA)))  # type: ignore[arg-type]  # it stands in for a frame
    with pytest.raises(InvalidArgumentError, match="no columns to compare"):
        table.delete_by_keys(only, [])
    with pytest.raises(SchemaError, match="cannot be written"):
        table.delete_by_keys(_frame(pa.table({"id": ["x"], "a.b": ["y"]})), "id")
    assert not _left(tmp_path)


def test_a_frame_that_cannot_be_merged_leaves_nothing(tmp_path: Path) -> None:
    table = _table(tmp_path)
    assert isinstance(table, DeltaTable)
    with pytest.raises(ConstraintViolationError, match="key"):
        table.upsert(_frame(_rows(7), _rows(7)), "id")
    with pytest.raises(ConstraintViolationError, match="several rows"):
        table.merge(_frame(_rows(2), _rows(2)), "target.id = source.id").when_matched_update_all().execute()
    with pytest.raises(ColumnNotFoundError, match="no column 'other'"):
        table.upsert(_frame(_rows(7), schema="id bigint, other string"), "id")
    wrong = pa.table({"id": ["x"], "a.b": ["y"]})
    with pytest.raises(SchemaError, match="cannot be written"):
        table.upsert(_frame(_rows(7), wrong), "id")
    assert (table.refresh().version, _left(tmp_path)) == (0, [])
    memory = create_table("memory://staged/rows", pa.schema([("id", pa.int64()), ("a.b", pa.string())]))
    with pytest.raises(InvalidArgumentError, match="only in this process"):
        memory.upsert(_frame(_rows(7)), "id")


def test_timestamps_arrive_in_the_zone_of_the_session(tmp_path: Path) -> None:
    instants = pa.array([1_000_000, None], pa.timestamp("us", "UTC"))
    write_table(tmp_path, pa.table({"id": [1, 2], "at": pa.nulls(2, instants.type)}))
    table = open_table(tmp_path, "delta")
    sent = pa.table({"id": [1, 2], "at": instants.cast(pa.timestamp("us", "Asia/Kolkata"))})
    table.upsert(_frame(sent, schema="id bigint, at timestamp"), "id")
    assert table.scan().to_arrow().sort_by("id")["at"].combine_chunks() == instants
