"""Filters on columns that a table is partitioned by, through transforms, return exactly the rows that match.

pyiceberg computes the partition values, so that our transforms do not judge themselves.
"""

from __future__ import annotations

import datetime as dt
import operator
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType, LongType, StringType, TimestamptzType
from pyiceberg.utils.datetime import datetime_to_micros

from deltaberg import open_table
from deltaberg.table.read.scan import bound_scan
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.roads import by_every_road

_COLUMNS = {"id": "long", "s": "string", "ts": "timestamptz"}
_TYPES: dict[str, IcebergType] = {"id": LongType(), "s": StringType(), "ts": TimestamptzType()}
_TRANSFORMS = {
    "id": ["identity", "bucket[4]", "truncate[10]", "void"],
    "s": ["identity", "bucket[3]", "truncate[2]"],
    "ts": ["identity", "bucket[5]", "year", "month", "day", "hour"],
}
_DAY = dt.date(1970, 1, 1)


def _row(rng: random.Random) -> dict[str, Any]:
    instant = dt.datetime(1969, 12, 28, tzinfo=dt.timezone.utc) + dt.timedelta(hours=rng.randrange(24 * 800))
    return {
        "id": rng.choice([None, rng.randrange(-25, 25)]),
        "s": rng.choice([None, "", "iceberg", "ice", "日本語", "b" * rng.randrange(4)]),
        "ts": rng.choice([None, instant]),
    }


def _partition(transform: str, column: str, value: Any) -> Any:
    plain = datetime_to_micros(value) if isinstance(value, dt.datetime) else value
    found = parse_transform(transform).transform(_TYPES[column])(plain)
    if transform == "day" and found is not None:
        return _DAY + dt.timedelta(days=found)
    return value if transform == "identity" else found


def _build(root: Path, rng: random.Random) -> tuple[IcebergBuilder, list[dict[str, Any]]]:
    """Write rows under two specs, files by partition, half of them with bounds."""
    ids = {name: number for number, name in enumerate(_COLUMNS, start=1)}
    specs: list[list[dict[str, Any]]] = []
    used = 1000
    for _ in range(2):
        spec: list[dict[str, Any]] = []
        for column in rng.sample(list(_COLUMNS), rng.randrange(1, 3)):
            transform = rng.choice(_TRANSFORMS[column])
            part = {"source-id": ids[column], "name": f"p{used}", "transform": transform, "field-id": used}
            spec.append({**part, "column": column})
            used += 1
        specs.append(spec)
    written = [[{name: part[name] for name in part if name != "column"} for part in spec] for spec in specs]
    builder = IcebergBuilder(root, _COLUMNS, specs=written)
    rows = [_row(rng) for _ in range(60)]
    files = []
    for number, spec in enumerate(specs):
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
        for row in rows[number::2]:
            groups[tuple(_partition(part["transform"], part["column"], row[part["column"]]) for part in spec)].append(
                row
            )
        for key, mine in groups.items():
            partition = {part["name"]: value for part, value in zip(spec, key, strict=True)}
            files.append(builder.data(mine, partition=partition, spec_id=number))
    builder.commit(*files)
    return builder, rows


def _condition(rng: random.Random) -> tuple[str, Any]:
    """Return a filter, and the same filter as a function of a row that returns None for unknown."""
    column = rng.choice(list(_COLUMNS))
    if rng.random() < 0.15:
        return f"{column} IS NULL", lambda row: row[column] is None
    value: Any = None
    while value is None:
        value = _row(rng)[column]
    shown = (
        f"'{value}'" if column == "s" else f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}'" if column == "ts" else str(value)
    )
    if column == "s" and rng.random() < 0.3:
        return f"s LIKE '{value}%'", lambda row: row["s"] is not None and row["s"].startswith(value)
    sign = rng.choice(["=", "<>", "<", "<=", ">", ">="])
    signs: dict[str, Callable[[Any, Any], bool]] = {
        "=": operator.eq,
        "<>": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
    compare = signs[sign]
    return f"{column} {sign} {shown}", lambda row: row[column] is not None and compare(row[column], value)


def _joined(rng: random.Random) -> tuple[str, Any]:
    (one, first), (two, second) = _condition(rng), _condition(rng)
    if rng.random() < 0.5:
        return f"({one}) AND ({two})", lambda row: first(row) and second(row)
    return f"({one}) OR ({two})", lambda row: first(row) or second(row)


def _check(builder: IcebergBuilder, rows: list[dict[str, Any]], rng: random.Random, count: int) -> int:
    """Compare scans with random filters with plain Python; return how many files these filters left out."""
    table = open_table(builder.root)
    pruned = 0
    for _ in range(count):
        text, matches = _joined(rng) if rng.random() < 0.5 else _condition(rng)
        scan = table.scan(text)
        found = sorted(map(repr, scan.to_arrow().to_pylist()))
        whole = sorted(map(repr, (row for row in table.scan().to_arrow().to_pylist() if matches(row))))
        assert found == whole, text
        assert len(whole) == sum(1 for row in rows if matches(row))
        pruned += bound_scan(scan).plan.steps[0].files - len(bound_scan(scan).plan.files)
    return pruned


@pytest.mark.req("ICE-SCAN-02")
@pytest.mark.parametrize("number", range(8))
def test_random_rows_specs_and_predicates(number: int, tmp_path: Path, rng: random.Random) -> None:
    builder, rows = _build(tmp_path / "t", rng)
    pruned = _check(builder, rows, rng, 25)
    assert pruned > 0 or all(part["transform"] == "void" for spec in builder.specs for part in spec)


@by_every_road
@pytest.mark.req("ICE-SCAN-02")
def test_some_random_predicates(tmp_path: Path, rng: random.Random) -> None:
    builder, rows = _build(tmp_path / "t", rng)
    _check(builder, rows, rng, 2)


@by_every_road
@pytest.mark.req("ICE-TRF-11", half="reader")
@pytest.mark.parametrize("declared", ["date", "int"])
def test_days_are_dates_or_integers(declared: str, tmp_path: Path) -> None:
    """Some writers declare the result of ``day`` as an int. Both types are read, and prune alike."""
    days = [{"source-id": 1, "name": "day", "transform": "day"}]
    builder = IcebergBuilder(tmp_path / "t", {"ts": "timestamptz"}, specs=[days])
    builder.days_are_integers = declared == "int"
    instants = [
        dt.datetime(2017, 11, 16, 22, 31, 8, tzinfo=dt.timezone.utc),
        dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.timezone.utc),
    ]
    numbers = [17_486, -1]
    files = [
        builder.data([{"ts": instant}], partition={"day": day if declared == "int" else _DAY + dt.timedelta(days=day)})
        for instant, day in zip(instants, numbers, strict=True)
    ]
    builder.commit(*files)
    table = open_table(builder.root)
    assert table.scan().files().column("partition").to_pylist() == [
        {"day": dt.date(2017, 11, 16)},
        {"day": dt.date(1969, 12, 31)},
    ]
    for instant in instants:
        scan = table.scan(f"ts = TIMESTAMP '{instant:%Y-%m-%d %H:%M:%S}'")
        assert len(bound_scan(scan).plan.files) == 1
        assert scan.to_arrow().column("ts").to_pylist() == [instant]
