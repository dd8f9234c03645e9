"""Errors of conditions, which name the table whatever verb the condition is for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table
from deltaberg.choices import Format
from deltaberg.errors import ColumnNotFoundError

pytestmark = pytest.mark.one_backend

_ROW = pa.table({"id": [1]})
_VERBS: dict[str, Callable[[Any], object]] = {
    "scan": lambda table: table.scan("nope = 1"),
    "compact": lambda table: table.compact("nope = 1"),
    "delete": lambda table: table.delete("nope = 1"),
    "update": lambda table: table.update({"id": "1"}, "nope = 1"),
    "overwrite": lambda table: table.overwrite(_ROW, where="nope = 1"),
    "merge": lambda table: table.merge(_ROW, "target.nope = source.id").when_matched_delete().execute(),
}


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_errors_of_conditions_name_the_table(tmp_path: Path, format: Format) -> None:
    table: Any = create_table(tmp_path / "t", _ROW.schema, format=format)
    table.append(_ROW)
    for name, verb in _VERBS.items():
        with pytest.raises(ColumnNotFoundError) as caught:
            verb(table)
        assert (name, str(caught.value.context.get("table"))) == (name, table.location)
