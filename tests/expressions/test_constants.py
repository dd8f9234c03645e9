"""Constants that cannot be computed are refused before a row is read, as Spark refuses them when it plans a query."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import DeltabergError, EvaluationError, ExpressionError

_COLUMNS = pa.schema([("i", pa.int32()), ("id", pa.int64()), ("d", pa.date32()), ("b", pa.bool_())])
#: Conditions that PySpark 4.1 refuses in its ANSI mode, also for a table without rows.
_REFUSED = {
    ExpressionError: [
        "i = 'abc'",
        "true OR i = 'abc'",
        "i = 'abc' OR id IS NOT NULL",
        "id > 100 AND i = 'abc'",
        "false AND i = 'abc'",
        "i IN ('1', 'abc')",
        "id > 0 OR i IN (1, 'abc')",
        "NOT (i = 'abc')",
        "i BETWEEN 'a' AND 'b'",
        "i <=> '1.5'",
        "id >= 0 OR d = 'xyz'",
        "b = 'maybe'",
    ],
    EvaluationError: [
        "id >= 0 OR CAST('abc' AS INT) = 1",
        "CAST('abc' AS INT) = 1",
        "1 / 0 = 1",
        "id >= 0 OR i + 1 / 0 > 1",
        "greatest(i, 1 / 0) > 1",
        "id >= 0 OR element_at(array(1), 5) = 1",
        "CASE WHEN CAST('abc' AS INT) = 1 THEN true END",
    ],
}
#: Conditions that it takes: what stands inside of CASE or COALESCE is looked at row by row.
_TAKEN = [
    "CASE WHEN id >= 0 THEN true ELSE i = 'abc' END",
    "if(id >= 0, true, i = 'abc')",
    "coalesce(id > 0, i = 'abc')",
    "id >= 0 AND coalesce(id, 1 / 0) > 1",
    "true OR 1 / 0 = 1 OR false",
    "id > 0 AND (1 = 0 AND 1 / 0 = 1)",
    "i + null + 1 / 0 > 1 OR id > 0",
    "id = 1 OR coalesce(null = CAST('abc' AS INT), true)",
    "try_cast('abc' AS INT) IS NULL AND id >= 0",
]


_KEYS = pa.table({"key": pa.array([1], pa.int64())})
_ROWS = pa.table({"i": [1], "id": [9], "d": [None], "b": [True]}, _COLUMNS)


def _merge(table: Any, verb: str, argument: Any, on: str = "target.id = source.key", source: pa.Table = _KEYS) -> Any:
    return getattr(table.merge(source, on), verb)(argument).execute()


#: Where a condition is given.
_DOORS: dict[str, Callable[[Any, str], Any]] = {
    "scan": lambda table, text: table.scan(text).to_arrow(),
    "delete": lambda table, text: table.delete(text),
    "update": lambda table, text: table.update({"id": "id"}, text),
    "set": lambda table, text: table.update({"b": text}),
    "overwrite": lambda table, text: table.overwrite(_COLUMNS.empty_table(), where=text),
    "merge": lambda table, text: _merge(table, "when_matched_delete", text),
    "on": lambda table, text: _merge(table, "when_matched_delete", None, f"target.id = source.key AND ({text})"),
    "clause": lambda table, text: _merge(table, "when_matched_update", {"b": text}),
    "insert": lambda table, text: _merge(
        table, "when_not_matched_insert", {"id": "id", "b": text}, "target.id = source.id", source=_ROWS
    ),
    "check": lambda table, text: table.alter().add_constraint("c", text).commit(),
}


def _told(door: str, table: Any, text: str) -> Exception | None:
    """Return what is raised; None if nothing is."""
    try:
        _DOORS[door](table, text)
    except DeltabergError as error:
        return error
    return None


@pytest.mark.parametrize("form", ["delta", "iceberg"])
@pytest.mark.parametrize("rows", [0, 3])
def test_every_door_refuses_the_same(form: Any, rows: int, tmp_path: Path) -> None:
    table: Any = create_table(tmp_path / "t", _COLUMNS, format=form)
    if rows:
        table.append(pa.table({"i": range(rows), "id": range(rows), "d": [None] * rows, "b": [True] * rows}))
    doors = _DOORS.keys() - {"check"} if form == "iceberg" else _DOORS.keys()
    tried = [(kind, door, text) for kind, texts in _REFUSED.items() for text in texts for door in doors]
    assert [one for one in tried if not isinstance(_told(one[1], table, one[2]), one[0])] == []
    told = {(door, text): _told(door, table, text) for text in _TAKEN for door in ("scan", "set", "clause", "insert")}
    assert [key for key, error in told.items() if error is not None] == []


def test_nothing_is_written_for_them(tmp_path: Path) -> None:
    for form in ("delta", "iceberg"):
        table: Any = create_table(tmp_path / form, _COLUMNS, format=form)
        table.append(pa.table({"i": [1], "id": [1], "d": [None], "b": [True]}))
        before = set(tmp_path.rglob("*"))
        for door in _DOORS.keys() - {"check"}:
            _told(door, table, "i = 'abc'")
        assert set(tmp_path.rglob("*")) == before
        assert open_table(tmp_path / form).scan().to_arrow().num_rows == 1


def test_stored_rules_fail_for_the_rows_that_need_them_alone(tmp_path: Path) -> None:
    """Other engines may have recorded them, and took rows since."""
    table: Any = create_table(tmp_path / "t", _COLUMNS)
    table.alter().add_constraint("c", "id > 0 OR i > 7").commit()
    log = tmp_path / "t" / "_delta_log" / f"{1:020d}.json"
    log.write_text(log.read_text().replace("i > 7", "i = 'abc'"))
    log.with_suffix(".crc").unlink(missing_ok=True)
    table = open_table(tmp_path / "t")
    assert table.append(_ROWS).committed
    with pytest.raises(EvaluationError, match="is not a value of the type"):
        table.append(_ROWS.set_column(1, "id", pa.array([-1], pa.int64())))
