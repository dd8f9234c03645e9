"""What an append would do is told without doing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table
from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.table.write.sources import LOCAL_ROAD

pytestmark = [pytest.mark.one_backend, pytest.mark.parametrize("format", ["delta", "iceberg"])]

_ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def table(tmp_path: Path, format: Any) -> Any:
    """Return a table of two rows."""
    table = create_table(tmp_path / "t", _ROWS.schema, format=format)
    table.append(_ROWS)
    return table


def _files(table: Any) -> list[Path]:
    return sorted(Path(table.location).rglob("*"))


def test_nothing_is_written(table: Any) -> None:
    before, version = _files(table), table.history()[0]
    reader = _ROWS.to_reader()
    assert table.explain_append(reader) == LOCAL_ROAD
    wider = _ROWS.append_column("x", pa.array([1, 2]))
    assert table.explain_append(wider, schema_mode="merge", compression="zstd") == LOCAL_ROAD
    assert (_files(table), table.refresh().history()[0], table.schema.names) == (before, version, ["id"])
    # The rows are still there to be appended.
    assert table.append(reader).added_rows == 2


def test_what_would_be_refused_is_refused(table: Any) -> None:
    before = _files(table)
    with pytest.raises(SchemaError, match="does not have: x"):
        table.explain_append(_ROWS.append_column("x", pa.array([1, 2])))
    with pytest.raises(SchemaError, match="cannot be written"):
        table.explain_append(pa.table({"id": ["a"]}))
    with pytest.raises(InvalidArgumentError, match="data of type int cannot be written"):
        table.explain_append(5)
    with pytest.raises(InvalidArgumentError, match='schema_mode="overwrite" would leave the rows of the'):
        table.explain_append(_ROWS, schema_mode="overwrite")
    assert _files(table) == before
