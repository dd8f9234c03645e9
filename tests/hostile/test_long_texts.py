"""What somebody wrote by the kilobyte is shown in part: an error is for reading, and its attributes keep all of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table, write_table
from deltaberg.errors import DeltabergError
from tests.support.command_line import call

pytestmark = pytest.mark.one_backend

_LONG = "x" * 100_000
_CALLS: dict[str, Callable[[Any], object]] = {
    "location": lambda _: open_table(f"/{_LONG}"),
    "column": lambda table: table.scan(columns=[_LONG]),
    "name in a filter": lambda table: table.scan(filter=f"`{_LONG}` = 1"),
    "text in a filter": lambda table: table.scan(filter=f"id = '{_LONG}'"),
    "syntax": lambda table: table.scan(filter=f"{_LONG} ==="),
    "assignment": lambda table: table.update({_LONG: "1"}, "id = 1"),
    "property": lambda table: table.delete("id = 1", strategy=_LONG),
}


@pytest.mark.parametrize("call", _CALLS.values(), ids=_CALLS)
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_long_text(tmp_path: Path, format: Any, call: Callable[[Any], object]) -> None:
    write_table(tmp_path, pa.table({"id": [1]}), format=format)
    with pytest.raises(DeltabergError) as caught:
        call(open_table(tmp_path))
    assert len(str(caught.value)) < 10_000
    assert len(repr(caught.value)) < 10_000


def test_on_the_command_line(tmp_path: Path) -> None:
    write_table(tmp_path, pa.table({"id": [1]}))
    ended = call("head", tmp_path, "--columns", _LONG)
    assert ended.exit_code == 2
    assert 0 < len(ended.stderr) < 10_000


def test_what_is_left_out() -> None:
    error = DeltabergError(f"begin{_LONG}end", hint=_LONG, file=f"/begin/{_LONG}/end.parquet", table="/t")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert one.message == f"begin{_LONG}end"
        assert one.context == {"file": f"/begin/{_LONG}/end.parquet", "table": "/t"}
        first, _, hint = str(one).partition("\nhint: ")
        assert first.startswith("beginx")
        assert "end (file: /begin/x" in first
        assert first.endswith("x/end.parquet, table: /t)")
        assert "(96,008 characters left out)" in first
        assert len(hint) < 5000
