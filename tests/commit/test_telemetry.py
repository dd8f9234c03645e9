"""OpenTelemetry is told what is planned, read, committed and maintained, if it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from deltaberg import create_table, open_table, telemetry
from deltaberg.choices import Format
from deltaberg.errors import CommitConflictError, MissingDependencyError
from tests.support.rows import ID, ids

pytestmark = [pytest.mark.one_backend, pytest.mark.parametrize("format", ["delta", "iceberg"])]


class _Told(NamedTuple):
    spans: InMemorySpanExporter
    metrics: InMemoryMetricReader

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return the facts of all spans of a name."""
        return [dict(one.attributes or {}) for one in self.spans.get_finished_spans() if one.name == name]

    def sums(self) -> dict[str, Any]:
        """Return the sum of each counter, and of the seconds of each histogram."""
        data: Any = self.metrics.get_metrics_data()
        assert data is not None
        totals: dict[str, float] = {}
        for resource in data.resource_metrics:
            for metric in (one for scope in resource.scope_metrics for one in scope.metrics):
                for point in metric.data.data_points:
                    totals[metric.name] = point.value if isinstance(point, NumberDataPoint) else point.sum
        return totals


@pytest.fixture
def told() -> Iterator[_Told]:
    made = _Told(InMemorySpanExporter(), InMemoryMetricReader())
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(made.spans))
    telemetry.enable(tracer_provider=tracers, meter_provider=MeterProvider([made.metrics]))
    yield made
    telemetry.disable()


def test_spans_of_everything(tmp_path: Path, told: _Told, format: Format) -> None:
    table = create_table(tmp_path, ID, format=format)
    stale = open_table(tmp_path)
    for number in range(5):
        table.append(ids(number))
    stale.append(ids(7))
    told.spans.clear()
    stale.append(ids(8))
    (commit,) = told.of("deltaberg.commit")
    assert commit == {"deltaberg.table": stale.location, "deltaberg.attempts": 1, "deltaberg.conflicts": 0}
    assert stale.scan("id < 3").to_arrow().num_rows == 3
    (plan,) = told.of("deltaberg.plan")
    assert (plan["deltaberg.files"], plan["deltaberg.all_files"]) == (3, 7)
    assert plan["deltaberg.table"] == stale.location
    (read,) = told.of("deltaberg.read")
    assert (read["deltaberg.rows"], read["deltaberg.files_planned"]) == (3, 3)
    assert read["deltaberg.bytes_read"] > 0
    told.spans.clear()
    stale.maintain(dry_run=False)
    (compact,) = (one for one in told.of("deltaberg.maintain") if one["deltaberg.step"] == "compact")
    assert (compact["deltaberg.is_due"], compact["deltaberg.removed_files"]) == (True, 7)
    spans = told.spans.get_finished_spans()
    steps = {one.context.span_id for one in spans if one.name == "deltaberg.maintain" and one.context is not None}
    commits = [one.parent for one in spans if one.name == "deltaberg.commit"]
    assert commits
    assert all(parent is not None and parent.span_id in steps for parent in commits)
    sums = told.sums()
    assert sums["deltaberg.read.rows"] >= 3
    assert sums["deltaberg.commit.attempts"] >= 8
    assert sums["deltaberg.plan.duration"] > 0


def test_lost_attempts_and_errors(tmp_path: Path, told: _Told, format: Format) -> None:
    table = create_table(tmp_path, ID, format=format)
    table.append(ids(1, 2))
    loser = open_table(tmp_path).transaction()
    loser.delete("id = 1", strategy="copy-on-write")
    table.delete("id = 2", strategy="copy-on-write")
    told.spans.clear()
    with pytest.raises(
        CommitConflictError, match=r"committed meanwhile, and it added a file|another commit added data files"
    ):
        loser.commit()
    (span,) = (one for one in told.spans.get_finished_spans() if one.name == "deltaberg.commit")
    assert not span.status.is_ok
    assert span.attributes is not None
    assert span.attributes["error.type"] == span.status.description
    assert str(span.status.description).startswith("Concurrent") or span.status.description == "CommitConflictError"


def test_a_reader_that_stops_is_no_error(tmp_path: Path, told: _Told, format: Format) -> None:
    table = create_table(tmp_path, ID, format=format)
    table.append(ids(1, 2, 3))
    batches = table.scan(batch_size=1).to_batches()
    next(batches)
    batches.close()
    (span,) = (one for one in told.spans.get_finished_spans() if one.name == "deltaberg.read")
    assert span.status.is_ok or span.status.status_code.name == "UNSET"


def test_it_is_off_unless_it_is_asked_for(
    tmp_path: Path, told: _Told, monkeypatch: pytest.MonkeyPatch, format: Format
) -> None:
    telemetry.disable()
    table = create_table(tmp_path, ID, format=format)
    table.append(pa.table({"id": [1]}))
    assert table.count() == 1
    assert not told.spans.get_finished_spans()
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingDependencyError, match="opentelemetry-api") as raised:
        telemetry.enable()
    assert "deltaberg[otel]" in str(raised.value.hint)
