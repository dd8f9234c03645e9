"""What `write_table` refuses of a table that is there, it refuses of a new one; what is done already is left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg import open_table
from deltaberg.errors import InvalidArgumentError, TableExistsError

pytestmark = pytest.mark.one_backend

_ROWS = pa.table({"id": [1, 2], "p": ["a", "b"]})
_WIDE = _ROWS.append_column("n", pa.array([1, 2]))
#: Loosely typed: some calls are for tables of the other format.
_PUBLIC: Any = deltaberg


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_an_overwrite_means_the_same_of_a_new_table(tmp_path: Path, form: str, is_there: bool) -> None:
    place = tmp_path / "t"
    if is_there:
        _PUBLIC.write_table(place, _ROWS, format=form)
    with pytest.raises(InvalidArgumentError, match="some rows of the table stay"):
        _PUBLIC.write_table(place, _ROWS, format=form, mode="overwrite", schema_mode="overwrite", dynamic=True)
    if form == "delta":
        with pytest.raises(InvalidArgumentError, match="the table has no deletion vectors"):
            _PUBLIC.write_table(place, _ROWS, mode="overwrite", strategy="merge-on-read")
    assert place.exists() == is_there
    _PUBLIC.write_table(place, _ROWS, format=form, mode="overwrite", strategy="copy-on-write")
    assert open_table(place).count() == 2


@pytest.mark.parametrize(("form", "argument"), [("delta", "cluster_by"), ("iceberg", "sort_by")])
@pytest.mark.parametrize("schema_mode", ["merge", "overwrite"])
def test_new_columns_order_no_table_that_is_there(tmp_path: Path, form: str, argument: str, schema_mode: str) -> None:
    _PUBLIC.write_table(tmp_path / "t", _ROWS, format=form)
    with pytest.raises(InvalidArgumentError, match="no column 'n' in the table so far") as caught:
        _PUBLIC.write_table(tmp_path / "t", _WIDE, mode="overwrite", schema_mode=schema_mode, **{argument: "n"})
    assert "write the rows first" in str(caught.value)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_what_is_done_is_not_compared(tmp_path: Path, form: str) -> None:
    _PUBLIC.write_table(tmp_path / "t", _ROWS, format=form, txn=("app", 3))
    asked: dict[str, Any] = {"mode": "append", "properties": {"owner": "ada"}, "description": "orders"}
    assert not _PUBLIC.write_table(tmp_path / "t", _WIDE, txn=("app", 3), **asked).committed
    with pytest.raises(InvalidArgumentError, match="writing rows does not change it"):
        _PUBLIC.write_table(tmp_path / "t", _ROWS, txn=("app", 4), **asked)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_creation_that_is_done_can_be_repeated(tmp_path: Path, form: str) -> None:
    for mode in ("error", "append", "overwrite", "ignore"):
        first, *later = [
            _PUBLIC.write_table(tmp_path / mode, _ROWS, format=form, mode=mode, txn=("app", 3)) for _ in range(3)
        ]
        assert [first.committed, *(one.committed for one in later)] == [True, False, False], mode
        assert open_table(tmp_path / mode).count() == 2, mode
    for txn in (("app", 4), ("other", 3), None):
        with pytest.raises(TableExistsError, match="there is a table already"):
            _PUBLIC.write_table(tmp_path / "error", _ROWS, format=form, txn=txn)
    for _ in range(2):
        assert _PUBLIC.create_table(tmp_path / "made", _ROWS.schema, format=form, txn=("app", 1)).count() == 0
    with pytest.raises(TableExistsError, match="there is a table already"):
        _PUBLIC.create_table(tmp_path / "made", _ROWS.schema, format=form, txn=("app", 2))
