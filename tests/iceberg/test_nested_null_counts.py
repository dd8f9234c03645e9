"""Null counts of lists, maps and structs rule out files, as those of other columns do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from tests.support.iceberg_builder import IcebergBuilder

_TYPES: dict[str, Any] = {
    "list": {"type": "list", "element-id": 3, "element-required": False, "element": "long"},
    "map": {"type": "map", "key-id": 3, "key": "string", "value-id": 4, "value-required": False, "value": "long"},
    "struct": {"type": "struct", "fields": [{"id": 3, "name": "n", "required": False, "type": "long"}]},
}
_VALUES: dict[str, Any] = {"list": [1], "map": [("a", 1)], "struct": {"n": 1}}


@pytest.mark.parametrize("kind", _TYPES)
@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_files_are_ruled_out(kind: str, format: str, tmp_path: Path) -> None:
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "x", "required": False, "type": _TYPES[kind]},
    ]
    builder = IcebergBuilder(tmp_path / "t", fields)
    full, none = {"id": 1, "x": _VALUES[kind]}, {"id": 2, "x": None}
    for rows, nulls in (([full, full], 0), ([full, none], 1), ([none, none], 2), ([none, full], None)):
        metrics = {} if nulls is None else {"null_value_counts": {2: nulls}}
        builder.commit(builder.data(rows, format=format, metrics=metrics))
    table = open_table(builder.root)
    planned = {text: table.scan(filter=text).files().num_rows for text in ("x IS NULL", "x IS NOT NULL")}
    assert planned == {"x IS NULL": 3, "x IS NOT NULL": 3}
    assert table.scan(filter="x IS NULL").to_arrow().num_rows == 4
    assert table.scan(filter="x IS NOT NULL").to_arrow().num_rows == 4
