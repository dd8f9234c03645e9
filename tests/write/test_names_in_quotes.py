"""Names in double quotes, which Spark's SQL takes for texts, and other conditions that are the same for every row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, open_table, write_table
from deltaberg.errors import ConstraintViolationError, ExpressionError
from deltaberg.expressions.build.filters import as_filter
from deltaberg.expressions.build.parse import parse_value
from deltaberg.expressions.derive.derive import bind
from deltaberg.expressions.tree.tree import FALSE, TRUE
from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.command_line import call
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field

pytestmark = pytest.mark.one_backend

_ROWS = pa.table({"id": [1, 2, 3], "region": ["north", "south", "west"], "s": [{"a": 1}, {"a": 2}, {"a": 3}]})
_OTHERS = _ROWS.rename_columns(["key", "name", "t"])
_COLUMNS = Struct(
    (
        Field("id", Primitive("long")),
        Field("Region", Primitive("string")),
        Field("s", Struct((Field("a", Primitive("long")),))),
    )
)
#: Conditions whose writer takes a text for a column.
_NAMES = (
    "\"region\" <> 'north'",
    '"id" = 1',
    '"REGION" IS NOT NULL',
    '"s.a" = 1',
    '"s"."a" = 1',
    's."a" = 1',
    "s.'a' = 1",
    "upper(\"region\") = 'NORTH'",
    'region = "id"',
    'region IN ("north", "id")',
    'region LIKE "id"',
    'region = r"id"',
    "id = 1 OR \"region\" <> 'north'",
    'CAST("id" AS INT) = 1',
)
#: Conditions that are the same for every row, without saying so.
_OF_NO_COLUMN = ("1=1", "NOT false", "NULL", "true AND true", "current_date() > DATE '2020-01-01'", "\"regon\" <> 'x'")


_VERBS: dict[str, Callable[[Any, Any], object]] = {
    "delete": lambda table, where: table.delete(where),
    "update": lambda table, where: table.update({"id": "id + 1"}, where),
    "overwrite": lambda table, where: table.overwrite(_ROWS, where=where),
    "write_table": lambda table, where: write_table(table, _ROWS, mode="overwrite", predicate=where),
    "merge": lambda table, where: table.merge(_OTHERS, where).when_matched_delete().execute(),
    "clause": lambda table, where: (
        table.merge(_OTHERS, "id = key").when_not_matched_by_source_delete(where).when_matched_delete(where).execute()
    ),
    "compact": lambda table, where: table.compact(where),
    "delete in a transaction": lambda table, where: table.transaction().delete(where),
    "update in a transaction": lambda table, where: table.transaction().update({"id": "id + 1"}, where),
}


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    write_table(tmp_path / "t", _ROWS, format=request.param, partition_by=["region"])
    return open_table(tmp_path / "t")


def _refused(run: Callable[[], object], message: str, hint: str = "names stand in backticks, and texts in") -> None:
    with pytest.raises(ExpressionError, match=message) as caught:
        run()
    assert hint in str(caught.value)


def _bound(text: str) -> object:
    return bind(as_filter(text), _COLUMNS)


def _executed(clause: Callable[[], Any]) -> object:
    return clause().execute()


@pytest.mark.parametrize("verb", _VERBS)
def test_no_verb_takes_a_text_for_a_column(table: Any, verb: str) -> None:
    run = _VERBS[verb]
    for condition in _NAMES:
        _refused(partial(run, table, condition), "is a text, and not the column")
    others: list[Any] = [*_OF_NO_COLUMN, *([] if verb == "merge" else [~TRUE, TRUE & TRUE])]
    for condition in others:
        _refused(partial(run, table, condition), "names no column", "write true for all rows")
    # Of lists, one of which must hold, an empty one would hold for every row.
    empty: list[Any] = [] if verb in ("merge", "clause") else [[], [[]], [[("id", "=", 1)], []]]
    for lists in empty:
        _refused(partial(run, table, lists), "an empty list is not a filter", "pass None")
    assert table.refresh().scan().to_arrow().sort_by("id").equals(_ROWS)


def test_all_rows_and_none_are_named_by_a_word(table: Any) -> None:
    for where in ("false", FALSE, "FALSE"):
        table.delete(where)
    assert table.scan().count() == 3
    table.update({"id": "id + 1"}, "true")
    table.merge(_ROWS, "false").when_not_matched_insert_all().execute()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 2, 3, 3, 4]
    table.overwrite(_ROWS, where="(true)")
    assert table.scan().count() == 3
    table.delete(TRUE)
    assert table.scan().count() == 0


@pytest.mark.parametrize(
    ("form", "verb"),
    [
        ("delta", "compute_statistics"),
        ("iceberg", "convert_equality_deletes"),
        ("iceberg", "rewrite_position_delete_files"),
    ],
)
def test_files_are_chosen_by_columns(tmp_path: Path, form: Any, verb: str) -> None:
    write_table(tmp_path / "t", _ROWS, format=form)
    table = open_table(tmp_path / "t")
    for condition in _OF_NO_COLUMN:
        _refused(partial(getattr(table, verb), condition), "names no column", "write true for all rows")
    getattr(table, verb)("true")
    assert table.compact("_file IS NULL" if form == "iceberg" else "id = 1").removed_files == 0


@pytest.mark.parametrize("condition", _NAMES)
def test_scans_take_no_text_for_a_column(condition: str) -> None:
    for one in (condition, f"NOT ({condition})"):
        _refused(partial(_bound, one), "is a text, and not the column")


def test_a_field_in_quotes_is_named_with_its_column() -> None:
    for condition in ('"s"."a" = 1', 's."a" = 1'):
        _refused(partial(_bound, condition), "not the column `s`.`a`")


def test_texts_may_stand_in_double_quotes(table: Any) -> None:
    assert table.scan('region = "north"').count() == 1
    assert table.scan('region IN ("north", "east") OR s.a = 3').count() == 2
    table.update({"region": '"north"'}, 'region = "west" AND id > 2')
    assert table.scan("region = 'north'").count() == 2
    assert str(parse_value('concat(\'a\', "it\'s", r"x")')) == 'concat(\'a\', "it\'s", "x")'
    assert parse_value('"a" "b"') == parse_value("'ab'")


def test_clauses_and_values_take_no_text_for_a_column_of_either_side(table: Any) -> None:
    rows = pa.table({"key": [1, 9], "name": ["x", "y"]})

    def merge() -> Any:
        return table.merge(rows, "target.id = source.key")

    clauses = {
        "a condition": lambda: merge().when_matched_delete('"key" > 3'),
        "with an alias": lambda: merge().when_matched_delete('"source.key" > 3'),
        "of the other side": lambda: merge().when_not_matched_insert({"id": "key"}, '"id" <> 3'),
        "a value": lambda: merge().when_matched_update({"region": '"name"'}),
        "a value of the other side": lambda: merge().when_not_matched_insert({"id": "key", "region": '"region"'}),
        "rows without a match": lambda: merge().when_not_matched_by_source_delete('"id" = 1'),
    }
    for clause in clauses.values():
        _refused(partial(_executed, clause), "is a text, and not the column")
    _refused(lambda: table.update({"region": '"s.a"'}, "id = 1"), "is a text, and not the column `s`.`a`")
    assert table.refresh().scan().to_arrow().sort_by("id").equals(_ROWS)


def test_new_rules_take_no_text_for_a_column(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", pa.schema({"id": pa.int64(), "region": pa.string()}), format="delta")
    alterations = {
        "a constraint": lambda: table.alter().add_constraint("c", '"id" > 0').commit(),
        "a constraint as a property": lambda: table.alter().set({"delta.constraints.c": '"id" > 0'}).commit(),
        "a default value": lambda: table.alter().set_default("region", '"Region"').commit(),
        "a new table": lambda: create_table(
            tmp_path / "u", table.scan().schema, format="delta", properties={"delta.constraints.c": '"id" > 0'}
        ),
        "a generated column": lambda: create_table(
            tmp_path / "u",
            Struct(
                (
                    Field("id", Primitive("string")),
                    Field("g", Primitive("string"), metadata={"delta.generationExpression": 'upper("id")'}),
                )
            ),
            format="delta",
        ),
    }
    for alter in alterations.values():
        _refused(alter, "is a text, and not the column")
    assert table.refresh().version == 0


def test_rules_of_other_engines_keep_their_texts(builder: DeltaBuilder) -> None:
    """Spark reads them as texts, and so does every write to a table that has them."""
    columns = [
        field("id", "long"),
        field("region", "string", CURRENT_DEFAULT='"id"'),
        field("g", "string", delta__generationExpression='concat("region", region)'),
    ]
    features = ["checkConstraints", "generatedColumns", "allowColumnDefaults"]
    builder.create(
        columns,
        protocol=builder.protocol(1, 7, None, features),
        configuration={"delta.constraints.c": "\"region\" <> 'north' AND id > 0"},
    )
    table = DeltaTable(builder.root)
    table.append(pa.table({"id": [1]}))
    table.merge(pa.table({"id": [2]}), "target.id = source.id").when_not_matched_insert(
        {"id": "source.id", "region": "DEFAULT"}
    ).execute()
    table.update({"id": "id + 1"}, "region = 'id'")
    rows = table.scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": number, "region": "id", "g": "regionid"} for number in (2, 3)]
    with pytest.raises(ConstraintViolationError, match="violates the CHECK constraint c: id=0"):
        table.append(pa.table({"id": [0]}))


def test_commands_take_no_text_for_a_column(table: Any) -> None:
    place = table.location
    for arguments in (("head", place, "--filter", '"id" = 1'), ("delete", place, "\"region\" <> 'north'")):
        ended = call(*arguments)
        assert ended.exit_code
        assert "is a text, and not the column" in ended.stderr
    ended = call("delete", place, "1=1")
    assert ended.exit_code
    assert "write true for all rows" in ended.stderr
