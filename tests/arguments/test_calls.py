"""Calls that do not fit, and values that fit a type but mean nothing: what is said, and that nothing is written."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import deltaberg
from deltaberg import CommitPolicy
from deltaberg.errors import ArgumentNameError, ExpressionError, InvalidArgumentError

pytestmark = pytest.mark.one_backend

_FORMATS = ("delta", "iceberg")
_ROWS = pa.table({"id": [1, 2], "x": [0.5, None]})


def _table(tmp_path: Path, form: str) -> Any:
    table: Any = _PUBLIC.create_table(str(tmp_path / "t"), _ROWS.schema, format=form)
    table.append(_ROWS)
    return table


#: The package for calls that type checkers refuse.
_PUBLIC: Any = deltaberg
_UNFIT: list[tuple[Callable[[Any], Any], str, str]] = [
    (lambda to: to.upsert(_ROWS, on="id"), "upsert() has no argument on", "pass keys="),
    (lambda to: to.upsert(source=_ROWS, keys="id"), "upsert() has no argument source", "pass data="),
    (lambda to: to.scan(where="id = 1"), "scan() has no argument where", "pass filter="),
    (lambda to: to.scan(nowhere=1), "scan() has no argument nowhere", "its arguments are batch_size, columns, filter"),
    (lambda to: to.scan(case_sensitive=True), "scan() has no argument case_sensitive", "names are matched exactly"),
    (lambda to: to.scan("id = 1", row_filter="id = 1"), "row_filter and filter are the same", "pass one of them"),
    (lambda to: to.append(rows=_ROWS), "append() has no argument rows", "pass data="),
    (lambda to: to.append(_ROWS, schemamode="merge"), "append() has no argument schemamode", "pass schema_mode="),
    (lambda to: to.append(), "append() needs the argument data", "pass data="),
    (lambda to: to.overwrite(_ROWS, data=_ROWS), "overwrite() was given the argument data twice", "pass it once"),
    (lambda to: to.history(1, 2), "history() takes 1 argument without a name, but 2 were given", ""),
    (
        lambda to: to.delete("id = 1", "x"),
        "delete() takes 1 argument without a name, but 2",
        "by their names: branch, commit_properties, compression",
    ),
    (lambda to: to.refresh(5), "refresh() takes 0 arguments without a name, but 1 were given", ""),
    (lambda to: to.alter().rename("id"), "rename() needs the argument", "pass "),
    (lambda to: to.merge(_ROWS, "target.id = source.id").when_matched_update(values={}), "no argument values", "set="),
    (lambda to: to.transaction().upsert(_ROWS, on="id"), "upsert() has no argument on", "pass keys="),
    (lambda to: _PUBLIC.open_table(to.location, versionn=1), "open_table() has no argument versionn", "pass version="),
    (lambda to: _PUBLIC.DeltaTable(uri=to.location), "DeltaTable() has no argument uri", "its arguments are location"),
    (
        lambda _: _PUBLIC.ParquetOptions(codec="zstd"),
        "ParquetOptions() has no argument codec",
        "its arguments are compression",
    ),
]


@pytest.mark.parametrize("form", _FORMATS)
@pytest.mark.parametrize(("call", "message", "hint"), _UNFIT)
def test_calls_that_do_not_fit(tmp_path: Path, form: str, call: Callable[[Any], Any], message: str, hint: str) -> None:
    with pytest.raises(ArgumentNameError) as caught:
        call(_table(tmp_path, form))
    assert isinstance(caught.value, ArgumentNameError)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert "Table." not in str(caught.value)


@pytest.mark.parametrize("form", _FORMATS)
def test_words_of_pyiceberg_for_scans(tmp_path: Path, form: str) -> None:
    scan = _table(tmp_path, form).scan(row_filter="x IS NULL", selected_fields=["id"])
    assert scan.to_arrow().to_pylist() == [{"id": 2}]


@pytest.mark.parametrize("argument", ["timezone", "schema_mode", "user_metadata", "target_file_size", "txn"])
def test_values_are_shown_briefly(tmp_path: Path, argument: str) -> None:
    with pytest.raises(InvalidArgumentError, match="an object of the type Table") as caught:
        _table(tmp_path, "delta").append(_ROWS, **{argument: _ROWS})
    assert "[[" not in str(caught.value)


def test_an_error_within_a_call_stays_as_it_is(tmp_path: Path) -> None:
    """A TypeError of what the caller passes is not taken for one of the call."""

    def fail(_: object) -> None:
        raise TypeError("of the caller")

    with pytest.raises(TypeError, match="of the caller"):
        _table(tmp_path, "delta").transaction(progress=fail).append(_ROWS)


def _files(tmp_path: Path) -> list[str]:
    return sorted(str(path) for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "words",
    [
        {"retries": -1},
        {"retries": 1.5},
        {"sends": 0},
        {"pause": math.nan},
        {"pause": -0.1},
        {"longest_pause": math.inf},
        {"timeout": "1"},
    ],
)
def test_policies_that_are_none(words: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(words))) as caught:
        CommitPolicy(**words)
    assert caught.value.hint


@pytest.mark.parametrize("form", _FORMATS)
def test_sparse_columns_of_pandas(tmp_path: Path, form: str) -> None:
    table = _table(tmp_path, form)
    sparse = pd.DataFrame(
        {"id": pd.arrays.SparseArray([7, 0, 0]), "x": pd.arrays.SparseArray([math.nan, 2.5, math.nan])}
    )
    table.overwrite(sparse)
    assert table.scan().to_arrow().to_pylist() == [{"id": 7, "x": None}, {"id": 0, "x": 2.5}, {"id": 0, "x": None}]
    table.upsert(sparse.assign(x=pd.arrays.SparseArray([1.5, 1.5, 0.0])).head(1), keys="id")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 0, 7]
    for single in (pd.arrays.SparseArray([1]), sparse["id"]):
        with pytest.raises(InvalidArgumentError, match="cannot be written"):
            table.append(single)


@pytest.mark.parametrize("form", _FORMATS)
@pytest.mark.parametrize(
    "call",
    [
        lambda to: to.append(_ROWS, target_file_size=0),
        lambda to: to.append([]),
        lambda to: to.overwrite(_ROWS, where="id = 1", dynamic=True),
        lambda to: to.delete("id = 1", memory=-1),
        lambda to: to.upsert(_ROWS, "id", when_matched="UPDATE"),
        lambda to: to.merge(_ROWS, ["id"]),
        lambda to: to.merge(_ROWS, "target.id = source.id", source_alias=1),
        lambda to: to.merge(_ROWS, "target.id = source.id").execute(),
        lambda to: to.merge(_ROWS, "target.id = source.id").when_matched_delete().when_matched_delete(),
        lambda to: to.alter().add("y", pa.int64(), first=True, after="id"),
    ],
)
def test_tables_and_transactions_name_the_table(tmp_path: Path, form: str, call: Callable[[Any], Any]) -> None:
    table = _table(tmp_path, form)
    shown = []
    for owner in (table, table.transaction()):
        with pytest.raises(InvalidArgumentError) as caught:
            call(owner)
        shown.append((str(caught.value), caught.value.context["table"]))
    assert shown[0] == shown[1] == (shown[0][0], table.location)


@pytest.mark.parametrize("form", _FORMATS)
def test_what_is_no_condition(tmp_path: Path, form: str) -> None:
    table = _table(tmp_path, form)
    in_a_list = "pass one text, or tuples in a list: [(column, operator, value)]"
    cases: list[tuple[Any, str, str]] = [
        (("id", "=", 1), "'id' is not a filter", in_a_list),
        (["id = 1", "x > 0"], "'id = 1' is not a filter", in_a_list),
        (b"id = 1", "is not a filter", "pass SQL text, an expression of col(), or tuples"),
        # A deletion for which None is passed deletes all rows, and keeps none.
        ([], "an empty list is not a filter", "pass None for all rows"),
    ]
    for owner in (table, table.transaction()):
        for condition, message, hint in cases:
            with pytest.raises(ExpressionError, match=message) as caught:
                owner.delete(condition)
            assert str(caught.value.hint) == hint
        merge = owner.merge(_ROWS, "target.id = source.id")
        for add in (merge.when_matched_delete, merge.when_not_matched_by_source_delete):
            for condition in ([("id", "=", 1)], ("id", "=", 1), []):
                with pytest.raises(InvalidArgumentError, match="is no condition of a clause") as refused:
                    add(condition)
                assert "write it as SQL text" in str(refused.value.hint)
    assert table.refresh().scan().count() == 2
