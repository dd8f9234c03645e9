"""Rules of rows are obeyed alike by delta-spark and by us, and each goes on where the other stops."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import ConstraintViolationError
from deltaberg.schema.types import Field, Primitive, Struct
from tests.interop.judged import same
from tests.support.judge import Judge, JudgeError
from tests.support.rows import ID, ids, ids_of

_JUDGED = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(600)]
judged = pytest.mark.parametrize("engine", [pytest.param("delta-spark", marks=_JUDGED)])
#: Mapped columns have all that plain ones have, and names of their own.
_MODES = pytest.mark.parametrize("mode", ["name", pytest.param("none", marks=pytest.mark.full)])

_LONG = Primitive("long")
_MAP = pa.map_(pa.string(), pa.string())
#: A table with every rule, as delta-spark makes it.
_MADE = """
from delta.tables import DeltaTable, IdentityGenerator
(
    DeltaTable.create(spark).location(path)
    .addColumn("id", "BIGINT", generatedAlwaysAs=IdentityGenerator(start=10, step=5))
    .addColumn("x", "BIGINT", nullable=False)
    .addColumn("twice", "BIGINT", generatedAlwaysAs="x * 2")
    .addColumn("c", "INT")
    .property("delta.feature.allowColumnDefaults", "supported")
    .property("delta.columnMapping.mode", mode)
    .execute()
)
spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN c SET DEFAULT 42")
spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (x < 100)")
spark.sql(f"INSERT INTO delta.`{path}` (x) VALUES (1), (2)")
"""


def _refused(table: DeltaTable, rows: pa.Table, message: str) -> None:
    version = table.version
    with pytest.raises(ConstraintViolationError, match=message):
        table.append(rows)
    assert table.refresh().version == version


@judged
@_MODES
def test_a_table_of_delta_spark(tmp_path: Path, judge: Judge, engine: str, mode: str) -> None:
    path = tmp_path / "t"
    judge.run(_MADE, path=str(path), mode=mode)
    table = DeltaTable(path)
    assert (table.check_constraints, table.generated_columns) == ({"small": "x < 100"}, {"twice": "x * 2"})
    table.append(pa.table({"x": [3, 4]}))
    table.append(pa.table({"x": [5], "twice": [10], "c": pa.array([None], pa.int32())}))
    _refused(table, pa.table({"x": [100]}), "the CHECK constraint small: x=100")
    _refused(table, pa.table({"x": [5], "twice": [11]}), "the generated column twice: twice=11, x=5")
    _refused(table, pa.table({"x": [5], "id": [1]}), "cannot be given")
    judge.sql(f"INSERT INTO delta.`{path}` (x, c) VALUES (6, 7)")
    table.refresh().update({"x": "x + 10"}, "x = 6")
    found = judge.sql(f"SELECT * FROM delta.`{path}`")
    same(table.scan().to_arrow(), found)
    rows = {row["x"]: row for row in found.to_pylist()}
    assert sorted(rows) == [1, 2, 3, 4, 5, 16]
    assert all(row["twice"] == 2 * row["x"] for row in rows.values())
    assert {x: row["c"] for x, row in rows.items()} == {1: 42, 2: 42, 3: 42, 4: 42, 5: None, 16: 7}
    values = [rows[x]["id"] for x in (1, 2, 3, 4, 5, 16)]
    assert len(set(values)) == 6
    assert all(value >= 10 and value % 5 == 0 for value in values)
    assert max(values[:2]) < min(values[2:4]) < values[4] < values[5]


@judged
def test_a_table_of_ours(tmp_path: Path, judge: Judge, engine: str) -> None:
    path = tmp_path / "t"
    identity = {"delta.identity.start": -1, "delta.identity.step": -1, "delta.identity.allowExplicitInsert": True}
    schema = Struct(
        (
            Field("id", _LONG, metadata=identity),
            Field("x", _LONG, metadata={"delta.invariants": '{"expression":{"expression":"x > 3"}}'}),
            Field("y", _LONG, metadata={"delta.generationExpression": "x + 1"}),
            Field("c", Primitive("string"), metadata={"CURRENT_DEFAULT": "'none'"}),
        )
    )
    table = create_table(path, schema, properties={"delta.constraints.even": "x % 2 = 0"})
    table.append(pa.table({"x": [4, 6]}))
    judge.sql(f"INSERT INTO delta.`{path}` (x) VALUES (8), (10)")
    judge.sql(f"INSERT INTO delta.`{path}` (id, x, c) VALUES (77, 12, NULL)")
    for wrong in ("(x) VALUES (2)", "(x) VALUES (5)", "(x, y) VALUES (6, 6)"):
        with pytest.raises(JudgeError, match=r"(?i)constraint|invariant|violat"):
            judge.sql(f"INSERT INTO delta.`{path}` {wrong}")
    table.refresh().append(pa.table({"x": [14]}))
    rows = {row["x"]: row for row in judge.sql(f"SELECT * FROM delta.`{path}`").to_pylist()}
    same(table.scan().to_arrow(), judge.sql(f"SELECT * FROM delta.`{path}`"))
    assert {x: row["y"] - x for x, row in rows.items()} == dict.fromkeys((4, 6, 8, 10, 12, 14), 1)
    assert (rows[4]["id"], rows[6]["id"], rows[12]["id"]) == (-1, -2, 77)
    assert max(rows[8]["id"], rows[10]["id"]) < -2
    assert rows[14]["id"] < min(rows[8]["id"], rows[10]["id"])
    assert (rows[8]["c"], rows[12]["c"], rows[14]["c"]) == ("none", None, "none")
    judge.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT even")
    table.refresh().append(pa.table({"x": [5]}))


@judged
@_MODES
def test_texts_with_lengths(tmp_path: Path, judge: Judge, engine: str, mode: str) -> None:
    path = tmp_path / "t"
    columns = "id BIGINT, c CHAR(5), v VARCHAR(4), d CHAR(4) DEFAULT 'x', p CHAR(2), "
    columns += "s STRUCT<a: CHAR(3), l: ARRAY<VARCHAR(2)>, m: MAP<CHAR(2), VARCHAR(2)>>"
    properties = f"'delta.columnMapping.mode' = '{mode}', 'delta.feature.allowColumnDefaults' = 'supported'"
    judge.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta PARTITIONED BY (p) TBLPROPERTIES ({properties})")
    judge.sql(f"INSERT INTO delta.`{path}` (id, c, v, p) VALUES (1, 'ab', 'ab', 'x'), (2, 'ab   ', 'ü', 'x ')")
    table = DeltaTable(path)
    inner = pa.array([("x", ["y"], [("k", "v")])], pa.struct({"a": "string", "l": pa.list_(pa.string()), "m": _MAP}))
    table.append(pa.table({"id": [3], "c": ["ab       "], "v": ["äöüß  "], "s": inner, "p": ["x"]}))
    with pytest.raises(ConstraintViolationError, match="too long"):
        table.append(pa.table({"id": [4], "v": ["abcde"]}))
    table.update({"v": "'u'"}, "id = 2")

    def compared(where: str = "true") -> None:
        same(table.refresh().scan(filter=where).to_arrow(), judge.sql(f"SELECT * FROM delta.`{path}` WHERE {where}"))

    for where in ("true", "c = 'ab'", "p = 'x'", "d = 'x  '", "c <> 'ab' OR s.a = 'x'", "s.a = 'x  '"):
        compared(where)
    judge.sql(f"UPDATE delta.`{path}` SET v = 'w' WHERE id < 3")
    judge.run("spark.sql(query).count()", query=f"OPTIMIZE delta.`{path}`")
    compared()
    assert ids_of(table, filter="v = 'w' AND c = 'ab'") == [1, 2]
    with pytest.raises(JudgeError, match="LIMIT"):
        judge.sql(f"INSERT INTO delta.`{path}` (id, v) VALUES (5, 'abcde')")


def test_constraints_in_deltalake(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, properties={"delta.constraints.positive": "id > 0"})
    table.append(ids(1))
    deltalake.write_deltalake(tmp_path / "t", ids(2), mode="append")
    with pytest.raises(deltalake.exceptions.DeltaError, match="failed validation"):
        deltalake.write_deltalake(tmp_path / "t", ids(-1), mode="append")
    table.refresh().append(ids(3))
    assert ids_of(table) == [1, 2, 3]
    theirs = create_table(tmp_path / "u", ID)
    theirs.append(ids(1))
    deltalake.DeltaTable(tmp_path / "u").alter.add_constraint({"positive": "id > 0"})
    _refused(theirs.refresh(), ids(-1), "positive: id=-1")
