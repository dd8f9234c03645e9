"""Paths of columns that are not there, also inside of lists, maps and structs: no step of an alteration takes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table
from deltaberg.delta.schema.schema_json import SchemaDocument
from deltaberg.errors import ColumnNotFoundError

pytestmark = pytest.mark.one_backend

_SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.struct([("x", pa.int32())]))),
        ("s", pa.struct([("y", pa.int32()), ("w", pa.int32())])),
    ]
)
_PATHS = (
    "z",
    "l.item",
    "l.elements",
    "l.element.x",
    "m.keys",
    "m.values",
    "m.value.z",
    "m.key.x",
    "a.x",
    "s.z",
    "s.y.q",
)
_STEPS: dict[str, Callable[[Any, str], Any]] = {
    "add": lambda change, path: change.add(f"{path}.new", pa.int64()),
    "add after": lambda change, path: change.add("new", pa.int64(), after=path),
    "comment": lambda change, path: change.comment(path, "c"),
    "drop": lambda change, path: change.drop(path),
    "drop not null": lambda change, path: change.drop_not_null(path),
    "move": lambda change, path: change.move(path, first=True),
    "rename": lambda change, path: change.rename(path, "n"),
    "set default": lambda change, path: change.set_default(path, "1"),
    "widen": lambda change, path: change.widen(path, pa.int64()),
}


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("step", _STEPS)
def test_a_step_names_the_path_that_is_not_there(tmp_path: Path, format: Any, step: str) -> None:
    features = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    properties = features if format == "delta" else None
    table = create_table(tmp_path / "t", _SCHEMA, format=format, properties=properties)
    files = sorted(tmp_path.rglob("*"))
    for path in _PATHS:
        with pytest.raises(ColumnNotFoundError, match=r"no column|and no fields|have names"):
            _STEPS[step](table.alter(), path).commit()
    assert sorted(tmp_path.rglob("*")) == files


@pytest.mark.parametrize("path", _PATHS)
def test_a_document_has_no_type_at_a_path_to_nothing(tmp_path: Path, path: str) -> None:
    table = create_table(tmp_path / "t", _SCHEMA)
    document = SchemaDocument(table.metadata.schema_string or "")
    before = document.to_json()
    with pytest.raises(ColumnNotFoundError, match=f"the schema has no column {path}"):
        document.set_type("long", *path.split("."))
    assert document.to_json() == before
