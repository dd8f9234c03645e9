"""What a call asks of its session: each setting once, however many files a scan has."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import Scan, open_table
from deltaberg.errors import InvalidArgumentError
from deltaberg.spark.session import SessionFacts
from deltaberg.table.read.scan_options import processors
from tests.spark.doors import needs_native, unchanged
from tests.support.delta_builder import DeltaBuilder


def _session(settings: dict[str, str]) -> Any:
    """Return a session that has nothing but settings, and tells no setting of another name."""

    def get(name: str, _: None) -> str:
        return settings[name]

    return SimpleNamespace(createDataFrame=print, conf=SimpleNamespace(get=get), version=settings.get("version"))


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [
        ({"default.parallelism": "7", "sql.leafNodeDefaultParallelism": "3"}, 7),
        ({"default.parallelism": "0", "sql.leafNodeDefaultParallelism": "3"}, 3),
        ({"default.parallelism": "many", "master": "local"}, 1),
        ({"master": "local[3]"}, 3),
        ({"master": "local[2, 4]"}, 2),
        ({"master": "local[*]"}, processors()),
        ({"master": "yarn", "executor.instances": "4", "executor.cores": "2"}, 8),
        ({"master": "yarn", "executor.instances": "4"}, 4),
        ({"master": "yarn", "executor.cores": "4"}, 8),
        ({}, 8),
    ],
)
def test_how_many_tasks_run_at_a_time(settings: dict[str, str], tasks: int) -> None:
    facts = SessionFacts.of(_session({f"spark.{name}": value for name, value in settings.items()}))
    assert facts.parallelism == tasks


@pytest.mark.parametrize(
    ("version", "rows", "takes"),
    [
        ("3.5.9", "10000", False),
        ("4.0.0", "10000", True),
        ("4.1.0-SNAPSHOT", "1", True),
        ("4.1.0", "0", False),
        ("4.1.0", "-1", False),
        ("10.0", "10000", True),
    ],
)
def test_which_sessions_take_arrow_tables(version: str, rows: str, takes: bool) -> None:
    session = _session({"version": version, "spark.sql.execution.arrow.maxRecordsPerBatch": rows})
    assert SessionFacts.of(session).takes_arrow_tables == takes


@pytest.mark.parametrize("other", [None, "local[2]", SimpleNamespace(createDataFrame=1)])
def test_what_is_not_a_session(other: object) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a Spark session"):
        SessionFacts.of(other)


_CALLS: dict[str, Callable[[Scan, Any], object]] = {
    "auto": lambda scan, spark: scan.to_spark(spark),
    "native": lambda scan, spark: scan.to_spark(spark, road="native"),
    "arrow": lambda scan, spark: scan.to_spark(spark, road="arrow"),
    "fused": lambda scan, spark: scan.map_in_arrow(spark, unchanged, "id bigint"),
    "explain": lambda scan, spark: scan.explain(spark),
}


@pytest.mark.spark
@needs_native
@pytest.mark.parametrize("carried", [True, False])
@pytest.mark.parametrize("call", _CALLS)
def test_a_call_asks_for_a_setting_once(
    call: str, carried: bool, spark: Any, builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over Spark Connect each question is a round trip."""
    if not carried:
        monkeypatch.setattr("deltaberg.spark.read.task_frames._MOST_CARRIED", 0)
    asked: list[str] = []
    settings = type(spark.conf)
    original = settings.get

    def get(conf: Any, name: str, *default: Any) -> Any:
        # PySpark asks for settings of its own.
        if sys._getframe(1).f_globals["__name__"].startswith("deltaberg."):
            asked.append(name)
        return original(conf, name, *default)

    monkeypatch.setattr(settings, "get", get)

    def ask(files: int) -> list[str]:
        # One of the files goes by Arrow.
        table = DeltaBuilder(builder.root / str(files))
        rows = pa.table({"id": [1]})
        adds = [table.add(rows, vector=table.vector([], "i") if number else None) for number in range(files)]
        if call != "native":
            adds.append(table.add(rows, path="_x.parquet"))
        table.create(rows.schema, *adds, protocol=table.features("deletionVectors"))
        asked.clear()
        _CALLS[call](open_table(table.root).scan(), spark)
        return list(asked)

    few, many = ask(2), ask(40)
    assert few == many
    assert len(set(few)) == len(few)
    assert 1 <= len(few) <= 2


@pytest.mark.spark
def test_another_call_asks_again(spark: Any) -> None:
    """Settings change from one call to the next."""
    assert SessionFacts.of(spark).parallelism == 2
    asked = SessionFacts.of(spark)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "0")
    try:
        assert not asked.takes_arrow_tables
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert not asked.takes_arrow_tables
    assert SessionFacts.of(spark).takes_arrow_tables == (int(spark.version[0]) >= 4)
