"""Rules of a table for its rows, applied where Spark's tasks write them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.delta.rows.row_rules import rules_of
from deltaberg.errors import ConstraintViolationError, UnsupportedFeatureError
from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.below_verbs import begin

pytestmark = pytest.mark.spark


def _table(root: Path) -> DeltaTable:
    """Create a table with a default, a generated column and a CHECK constraint."""
    generated = {"delta.generationExpression": "id * 2"}
    columns = Struct(
        (
            Field("id", Primitive("long")),
            Field("twice", Primitive("long"), metadata=generated),
            Field("kind", Primitive("string")),
        )
    )
    properties = {"delta.feature.allowColumnDefaults": "supported"}
    table = create_table(root, columns, properties=properties)
    table.alter().set_default("kind", "'new'").add_constraint("low", "twice < 100 AND kind <> ''").commit()
    return table


def test_columns_are_filled_and_rows_checked(spark: Any, tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    assert table.append(spark.range(3).repartition(2)).road == "arrow"
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": number, "twice": 2 * number, "kind": "new"} for number in range(3)
    ]
    with pytest.raises(ConstraintViolationError, match="CHECK constraint low: twice=1"):
        table.append(spark.range(59, 62))
    with pytest.raises(ConstraintViolationError, match="the generated column twice"):
        table.append(spark.range(1).selectExpr("id", "id + 1 AS twice"))
    assert table.refresh().scan().count() == 3


def test_rules_pickle_small_and_say_the_same(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    rules = rules_of(begin(table).snapshot, "UTC").rows
    packed = pickle.dumps(rules)
    assert len(packed) < 2_000
    rows = pa.record_batch({"id": [4], "twice": pa.array([None], pa.int64()), "kind": ["x"]})
    assert pickle.loads(packed).apply(rows, {"id", "kind"}).to_pylist() == [{"id": 4, "twice": 8, "kind": "x"}]


def test_identity_values_are_not_counted_by_tasks(spark: Any, tmp_path: Path) -> None:
    identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": True}
    columns = Struct((Field("id", Primitive("long"), metadata=identity), Field("x", Primitive("long"))))
    table = create_table(tmp_path / "t", columns)
    with pytest.raises(UnsupportedFeatureError, match="identity column id"):
        table.append(spark.range(3).withColumnRenamed("id", "x"))
    assert table.append(spark.range(3).selectExpr("id", "id AS x")).added_rows == 3
