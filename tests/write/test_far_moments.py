"""Dates and timestamps that Python does not have: before the year 1, and after the year 9999."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import col, create_table
from deltaberg.errors import ConstraintViolationError, ExpressionError, TooLargeError

pytestmark = pytest.mark.one_backend

_DAYS = [-800_000, 0, 4_381_814]
_TEXTS = ["-0221-09-04", "1970-01-01", "13967-01-01"]
_MICROS = [days * 86_400_000_000 + 1 for days in _DAYS]
_ZONED, _NTZ = pa.timestamp("us", "UTC"), pa.timestamp("us")


def _made(root: Path, kind: Any) -> Any:
    dates = pa.array(_DAYS, pa.int32()).cast(pa.date32())
    micros = pa.array(_MICROS, pa.int64())
    rows = {"id": pa.array(range(3)), "d": dates, "z": micros.cast(_ZONED), "n": micros.cast(_NTZ)}
    rows["s"] = pa.StructArray.from_arrays([dates], ["d"])
    table = create_table(root, pa.table(rows).schema, format=kind)
    table.append(pa.table(rows))
    return table


_SCALARS = {
    "d": [pa.scalar(days, pa.date32()) for days in _DAYS],
    "s.d": [pa.scalar(days * 86_400_000, pa.int64()).cast(pa.date64()) for days in _DAYS],
    "z": [pa.scalar(micros, _ZONED) for micros in _MICROS],
    "n": [pa.scalar(micros, _NTZ) for micros in _MICROS],
}


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("name", list(_SCALARS))
def test_scalars_of_arrow_are_compared(tmp_path: Path, name: str, kind: str) -> None:
    table, values = _made(tmp_path / "t", kind), _SCALARS[name]
    for place, value in enumerate(values):
        chosen = [(name, "=", value), (name, "<", value), (name, ">", value), (name, "in", [value])]
        found = [table.scan([one]).to_arrow()["id"].to_pylist() for one in chosen]
        assert found == [[place], list(range(place)), list(range(place + 1, 3)), [place]]
    assert table.scan(col(name).between(values[0], values[1])).count() == 2
    table.delete([(name, ">", values[1])])
    assert table.scan().to_arrow()["id"].to_pylist() == [0, 1]


def test_timestamps_of_other_units_and_those_beyond() -> None:
    seconds = _MICROS[2] // 1_000_000
    assert str(col("z") > pa.scalar(seconds, pa.timestamp("s", "UTC"))) == (
        "z > CAST('+13967-01-01 00:00:00.000000Z' AS timestamp)"
    )
    with pytest.raises(ExpressionError, match="is beyond the timestamps"):
        _ = col("z") > pa.scalar(1 << 62, pa.timestamp("s"))
    with pytest.raises(ExpressionError, match=r"a scalar of the type duration\[s\] has a value that Python"):
        _ = col("z") > pa.scalar(1 << 62, pa.duration("s"))


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("name", ["d", "z", "n", "s"])
def test_rows_that_violate_a_rule_are_shown(tmp_path: Path, name: str, place: int) -> None:
    table = _made(tmp_path / "t", "delta")
    near = f"{name}{'.d' if name == 's' else ''} BETWEEN date'1000-01-01' AND date'9999-01-01'"
    rows = table.scan().to_arrow().slice(place, 1)
    table.delete("id <> 1")
    table.alter().add_constraint("near", near).commit()
    with pytest.raises(ConstraintViolationError, match=rf"a row violates the CHECK constraint near: {name}=") as caught:
        table.append(rows)
    shown = caught.value.message.partition("=")[2]
    assert shown.startswith(f"{{'d': {_TEXTS[place]}}}" if name == "s" else _TEXTS[place])
    with pytest.raises(ConstraintViolationError, match="violates the CHECK constraint near"):
        table.update({name if name != "s" else "s.d": _SCALARS["s.d" if name == "s" else name][place]}, "id = 1")


@pytest.mark.parametrize("name", ["d", "s"])
def test_rows_that_do_not_match_what_they_replace_are_shown(tmp_path: Path, name: str) -> None:
    table = _made(tmp_path / "t", "iceberg")
    rows = table.scan("id = 2").to_arrow()
    where = f"{name}{'.d' if name == 's' else ''} < date'9999-01-01'"
    with pytest.raises(ConstraintViolationError, match="13967-01-01"):
        table.overwrite(rows, where=where)


def test_pandas(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", "delta")
    with pytest.raises(TooLargeError, match="Python has no such date or time") as caught:
        table.scan(columns=["d"]).to_pandas()
    assert "date_as_object=False" in str(caught.value.hint)
    assert len(table.scan(columns=["d", "z"]).to_pandas(date_as_object=False)) == 3
