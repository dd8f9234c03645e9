"""Random rows, random specs and random filters: a scan returns what a check of every row returns."""

from __future__ import annotations

import datetime as dt
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import Primitive
from tests.iceberg.entries import added
from tests.support.effort import tries
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile

_EPOCH = dt.datetime(1970, 1, 1)
_COLUMNS = {"n": "int", "v": "long", "s": "string", "t": "timestamp"}
_TYPES = {"n": Primitive("integer"), "v": Primitive("long"), "s": Primitive("string"), "t": Primitive("timestamp_ntz")}
_NUMBERS = ("identity", "bucket[3]", "truncate[5]")
_TRANSFORMS = {
    "n": _NUMBERS,
    "v": _NUMBERS,
    "s": ("identity", "bucket[3]", "truncate[2]"),
    "t": ("identity", "bucket[3]", "year", "month", "day", "hour", "void"),
}
_Row = dict[str, Any]
#: True, false, or unknown.
_Judge = Callable[[_Row], "bool | None"]


class _Filter(NamedTuple):
    sql: str
    judge: _Judge


def _value(rng: random.Random, column: str) -> Any:
    if rng.random() < 0.15:
        return None
    if column in "nv":
        return rng.choice([rng.randrange(-12, 13), -(1 << 31), (1 << 31) - 1])
    if column == "s":
        return "".join(rng.choice("ab\u00e9") for _ in range(rng.randrange(4)))
    return _EPOCH + dt.timedelta(hours=rng.choice([rng.randrange(-30, 30), rng.randrange(-20_000, 20_000)]))


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"'{value}'"


def _filter(rng: random.Random, depth: int = 0) -> _Filter:
    kind = rng.random()
    if depth < 3 and kind < 0.4:
        one, two = _filter(rng, depth + 1), _filter(rng, depth + 1)
        if kind < 0.2:
            return _Filter(f"({one.sql} AND {two.sql})", lambda row: _and(one.judge(row), two.judge(row)))
        return _Filter(f"({one.sql} OR {two.sql})", lambda row: _not(_and(_not(one.judge(row)), _not(two.judge(row)))))
    if depth < 3 and kind < 0.5:
        inner = _filter(rng, depth + 1)
        return _Filter(f"(NOT {inner.sql})", lambda row: _not(inner.judge(row)))
    return _predicate(rng, rng.choice(list(_COLUMNS)))


def _predicate(rng: random.Random, column: str) -> _Filter:
    kind = rng.random()
    if kind < 0.1:
        return _Filter(f"{column} IS NULL", lambda row: row[column] is None)
    if kind < 0.2:
        return _Filter(f"{column} IS NOT NULL", lambda row: row[column] is not None)
    values = [value for value in (_value(rng, column) for _ in range(8)) if value is not None][:3] or [_EPOCH]
    if column != "t" and isinstance(values[0], dt.datetime):
        return _Filter(f"{column} IS NULL", lambda row: row[column] is None)
    if kind < 0.35:
        inside = ", ".join(map(_literal, values))
        negated = rng.random() < 0.5
        test = _known(column, (lambda stored: stored not in values) if negated else (lambda stored: stored in values))
        return _Filter(f"{column} {'NOT ' if negated else ''}IN ({inside})", test)
    value = values[0]
    if column == "s" and kind < 0.5:
        negated = rng.random() < 0.3
        test = _known(column, lambda stored: stored.startswith(value) is not negated)
        return _Filter(f"s {'NOT ' if negated else ''}LIKE '{value}%'", test)
    operator = rng.choice(["=", "<>", "<", "<=", ">", ">="])
    compare: dict[str, Callable[[Any], bool]] = {
        "=": lambda stored: stored == value,
        "<>": lambda stored: stored != value,
        "<": lambda stored: stored < value,
        "<=": lambda stored: stored <= value,
        ">": lambda stored: stored > value,
        ">=": lambda stored: stored >= value,
    }
    return _Filter(f"{column} {operator} {_literal(value)}", _known(column, compare[operator]))


def _known(column: str, test: Callable[[Any], bool]) -> _Judge:
    return lambda row: None if row[column] is None else test(row[column])


def _and(one: bool | None, two: bool | None) -> bool | None:
    if one is False or two is False:
        return False
    return None if one is None or two is None else True


def _not(one: bool | None) -> bool | None:
    return None if one is None else not one


def _single(value: Any) -> bytes:
    """Return the bytes of a bound."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dt.datetime):
        return struct.pack("<q", (value - _EPOCH) // dt.timedelta(microseconds=1))
    return struct.pack("<q", value)


def _metrics(rows: list[_Row]) -> dict[str, dict[int, Any]]:
    """Return the metrics that a writer records; the bounds of an int have four bytes."""
    metrics: dict[str, dict[int, Any]] = {
        "value_counts": {},
        "null_value_counts": {},
        "lower_bounds": {},
        "upper_bounds": {},
    }
    for number, column in enumerate(_COLUMNS, start=1):
        values = [row[column] for row in rows if row[column] is not None]
        metrics["value_counts"][number] = len(rows)
        metrics["null_value_counts"][number] = len(rows) - len(values)
        for name, bound in (("lower_bounds", min), ("upper_bounds", max)):
            if values:
                metrics[name][number] = _single(bound(values))[: 4 if column == "n" else None]
    return metrics


class _Table:
    """A table of random rows."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.rng = rng
        self.specs = [self._spec(number) for number in range(rng.randrange(1, 4))]
        self.builder = IcebergBuilder(root, _COLUMNS, specs=self.specs)
        self.rows: list[_Row] = []
        manifests = []
        for number in range(len(self.specs)):
            rows = [{column: _value(rng, column) for column in _COLUMNS} for _ in range(rng.randrange(1, 30))]
            self.rows += rows
            files = self._files(number, rows)
            half = len(files) // 2
            manifests += [self._manifest(number, part) for part in (files[:half], files[half:]) if part]
        self.builder.commit(manifests=manifests)

    def _spec(self, number: int) -> list[dict[str, Any]]:
        columns = self.rng.sample(list(_COLUMNS), self.rng.randrange(3))
        names = list(_COLUMNS)
        return [
            {
                "source-id": names.index(column) + 1,
                "name": f"{column}_{number}",
                "transform": self.rng.choice(_TRANSFORMS[column]),
                "field-id": 1000 + 10 * number + place,
            }
            for place, column in enumerate(columns)
        ]

    def _files(self, number: int, rows: list[_Row]) -> list[IcebergFile]:
        """Write the rows of a spec, a file for each partition, some of them without metrics."""
        names = list(_COLUMNS)
        values = []
        for part in self.specs[number]:
            column = names[part["source-id"] - 1]
            array = pa.array([row[column] for row in rows], arrow_type(_TYPES[column]))
            values.append(parse_transform(part["transform"]).apply(array, _TYPES[column]).to_pylist())
        by_partition: dict[tuple[Any, ...], list[_Row]] = {}
        for at, row in enumerate(rows):
            by_partition.setdefault(tuple(column[at] for column in values), []).append(row)
        return [
            self.builder.data(
                mine,
                partition={part["name"]: value for part, value in zip(self.specs[number], key, strict=True)},
                spec_id=number,
                metrics=_metrics(mine) if self.rng.random() < 0.8 else None,
                format=self.rng.choice(["parquet", "avro", "orc"]),
            )
            for key, mine in by_partition.items()
        ]

    def _manifest(self, number: int, files: list[IcebergFile]) -> dict[str, Any]:
        summaries: list[dict[str, Any]] = []
        for part in self.specs[number]:
            values = [file.partition[part["name"]] for file in files]
            known = [value for value in values if value is not None]
            bounds = [self._bound(part, bound(known)) if known else None for bound in (min, max)]
            summary = {"contains_null": len(known) < len(values), "lower_bound": bounds[0], "upper_bound": bounds[1]}
            summaries.append({**summary, "contains_nan": False})
        told = None if self.rng.random() < 0.2 else summaries
        return self.builder.manifest(added(*files), 0, number, partitions=told)

    def _bound(self, part: dict[str, Any], value: Any) -> bytes:
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            value = (value - _EPOCH.date()).days
        is_long = part["source-id"] == 2 and not part["transform"].startswith("bucket")
        return struct.pack("<i", value) if isinstance(value, int) and not is_long else _single(value)


@pytest.mark.thorough
@pytest.mark.req("ICE-SCAN-02")
def test_no_matching_row_is_lost(tmp_path: Path, rng: random.Random) -> None:
    skipped = 0
    for case in range(tries(16)):
        drawn = _Table(tmp_path / str(case), rng)
        table = open_table(drawn.builder.root, validate=True)
        everything = table.scan().files().num_rows
        for _ in range(15):
            condition = _filter(rng)
            expected = [row for row in drawn.rows if condition.judge(row) is True]
            scan = table.scan(condition.sql)
            rows = scan.to_arrow().to_pylist()
            assert sorted(rows, key=repr) == sorted(expected, key=repr), (condition.sql, drawn.specs)
            skipped += everything - scan.files().num_rows
    # A table skips between none and hundreds of files, as its partitions and the filters fall; all together skip some.
    assert skipped > 0
