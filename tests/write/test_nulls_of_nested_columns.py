"""The nulls of lists, maps and structs are counted as rows are written, so that filters pass over files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table

_LIST = pa.list_(pa.struct([("x", pa.int64())]))
_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("l", _LIST),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("s", pa.struct([("n", pa.int64()), ("l", _LIST)])),
        ("last", pa.int64()),
    ]
)
_ROWS: list[dict[str, Any]] = [
    {"id": 1, "l": [{"x": 1}], "m": [("a", 1)], "s": {"n": 1, "l": None}, "last": 1},
    {"id": 2, "l": None, "m": None, "s": None, "last": None},
    {"id": 3, "l": [], "m": [], "s": {"n": None, "l": [None]}, "last": 3},
]
#: The files of the rows above that can have such a row, beside the one that has them all.
_FILES = {
    "l IS NULL": 1,
    "l IS NOT NULL": 2,
    "m IS NULL": 1,
    "m IS NOT NULL": 2,
    "s IS NULL": 1,
    "s IS NOT NULL": 2,
    "s.n IS NULL": 2,
    "s.l IS NULL": 2,
    "s.l IS NOT NULL": 1,
    "last IS NULL": 1,
    "last = 3": 1,
}


@pytest.mark.req("DL-STAT-07", half="writer")
@pytest.mark.parametrize("form", ["delta", "parquet", "orc", "avro"])
def test_files_are_passed_over_by_the_nulls_of_nested_columns(tmp_path: Path, form: str) -> None:
    location = str(tmp_path / "t")
    if form == "delta":
        create_table(location, _SCHEMA)
    else:
        create_table(location, _SCHEMA, format="iceberg", properties={"write.format.default": form})
    table = open_table(location)
    for rows in (*([row] for row in _ROWS), _ROWS):
        table.append(pa.Table.from_pylist(rows, _SCHEMA))
    for condition, files in _FILES.items():
        scan = table.scan(condition)
        # Delta's statistics have no place for the nulls of structs.
        is_known = form != "delta" or not condition.startswith("s IS")
        assert len(scan.files()) == (files if is_known else len(_ROWS)) + 1, condition
        assert scan.count() == 2 * sum(_matches(row, condition) for row in _ROWS), condition


def _matches(row: dict[str, Any], condition: str) -> bool:
    name, _, rest = condition.partition(" ")
    value: Any = row
    for part in name.split("."):
        value = None if value is None else value[part]
    return value == 3 if rest == "= 3" else (value is None) == (rest == "IS NULL")
