"""Values inside variants: as Spark returns them, and in filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table
from deltaberg.errors import EvaluationError, ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.bind.bind import bind_value
from deltaberg.expressions.tree.nodes import spread
from deltaberg.schema.arrow import VARIANT
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.schema.variants.values import encode_array, encode_object, encode_primitive, encode_string
from tests.spark.doors import needs_variants
from tests.support.roads import Road, collect

pytestmark = pytest.mark.one_backend

_SCHEMA = Struct((Field("id", Primitive("long")), Field("v", Primitive("variant"))))
_NUMBERS = ["1", "-1", "127", "128", "40000", "3000000000", "9223372036854775807", "99999999999", "1.5", "-2.5"]
_NUMBERS += ["100.0", "1.50", "0.0", "1e3", "1e400", "0.1e-5", "123456789012345678901234567890"]
_TEXTS = ['"12"', '" 7 "', '"1.25"', '"x"', '"true"', '"2020-02-29"', '"2020-01-01T10:20:30Z"', '""', '"NaN"']
_JSON = [*_NUMBERS, *_TEXTS, "true", "false", "null", "[1]", '{"b":1}']
_OTHERS = ["DATE'2020-02-29'", "TIMESTAMP'2020-01-01 10:20:30.5'", "TIMESTAMP_NTZ'2020-01-01 10:20:30.5'", "FLOAT(1.1)"]
_OTHERS += ["DOUBLE('NaN')", "1e10D", "X'616263'", "CAST(1.50 AS DECIMAL(10,2))", "CAST(100 AS DECIMAL(10,2))"]
_TYPES = ["boolean", "tinyint", "int", "bigint", "double", "decimal(10,1)", "string", "binary", "date", "timestamp"]
_TYPES += ["timestamp_ntz"]


@pytest.mark.spark
@needs_variants
def test_values_are_those_of_spark(spark: Any) -> None:
    """What is not converted here says so; everything else is equal, and fails where Spark has no value."""
    parts = [f"parse_json('{{\"a\":{text}}}')" for text in _JSON]
    parts += [f"to_variant_object(named_struct('a', {text}))" for text in _OTHERS]
    rows = spark.sql(f"SELECT posexplode(array({', '.join(parts)})) AS (id, v)")
    values = [f"try_variant_get(v, '$.a', '{kind}') AS `{kind}`" for kind in _TYPES]
    collected = collect(rows.selectExpr("id", "v", "is_variant_null(variant_get(v, '$.a')) AS none", *values)).sort_by(
        "id"
    )
    variants = collected["v"].combine_chunks().to_pylist()
    batch = pa.record_batch([collected["id"].combine_chunks(), pa.array(variants, VARIANT)], ["id", "v"])
    equal = unsupported = 0
    for kind in _TYPES:
        for name in ("try_variant_get", "variant_get"):
            outcome = bind_value(f"{name}(v, '$.a', '{kind}')", _SCHEMA, timezone="America/New_York").outcome(batch)
            failed = {
                row: failure.message
                for failure in outcome.failures
                for row, bad in enumerate(failure.rows.to_pylist())
                if bad
            }
            own = spread(outcome.values, len(batch)).to_pylist()
            for row, (value, none) in enumerate(
                zip(collected[kind].to_pylist(), collected["none"].to_pylist(), strict=True)
            ):
                if failed.get(row, "").endswith(" here"):
                    unsupported += 1
                    continue
                fails = name == "variant_get" and value is None and not none
                assert (row in failed) is fails, (name, kind, parts[row])
                assert fails or own[row] == value or repr(own[row]) == repr(value), (name, kind, parts[row])
                equal += 1
    assert equal > 5 * unsupported


def _object(value: bytes) -> dict[str, bytes]:
    """Return a variant object with the field ``a``."""
    return {"metadata": b"\x01\x01\x00\x01a", "value": encode_object({"a": value}, {"a": 0})}


def test_filters_on_values_in_variants(tmp_path: Path, road: Road) -> None:
    values = [encode_primitive("int32", 1), encode_string("1"), encode_string("x"), encode_primitive("double", 2.5)]
    values.append(encode_array([encode_primitive("int8", 7), encode_object({"a": encode_string("in")}, {"a": 0})]))
    rows = pa.array([*map(_object, values), None, {"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"}], VARIANT)
    table = create_table(tmp_path / "t", _SCHEMA, format="iceberg", properties={"format-version": "3"})
    table.append(pa.table({"id": list(range(len(rows))), "v": rows}))
    for condition, ids in (
        ("try_variant_get(v, '$.a', 'int') = 1", [0, 1]),
        ("try_variant_get(v, '$.a', 'double') >= 1 AND id > 0", [1, 3]),
        ("id < 3 AND try_variant_get(v, '$[\"a\"]', 'string') = 'x'", [2]),
        ("try_variant_get(v, '$.a[0]', 'bigint') = 7", [4]),
        ("variant_get(v, '$.a[1].a', 'string') = 'in'", [4]),
        ("variant_get(v, '$', 'int') = 5", None),
        ("id > 4 AND variant_get(v, '$', 'int') = 5", [6]),
    ):
        if road.name == "local" or ids == [0, 1]:
            scan = table.scan(condition, ["id"])
            if ids is None:
                with pytest.raises(EvaluationError, match="a variant of the type object does not fit int"):
                    scan.to_arrow()
            else:
                assert road.column(scan, "id") == ids, condition


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("variant_get(v, '$.a')", "does not take 2 arguments"),
        ("variant_get(id, '$.a', 'int')", "variant_get"),
        ("variant_get(v, 'a', 'int')", "the path 'a' cannot be evaluated"),
        ("variant_get(v, '$.a.', 'int')", r"the path '\$.a.' cannot be evaluated"),
        ("variant_get(v, '$.a', 'struct<x:int>')", "cannot be evaluated"),
        ("variant_get(v, '$.a', 'int) + (1')", "is not a type"),
        ("variant_get(v, '$.a', string(id))", "the type of a variant's value is a literal text"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises((ExpressionError, UnsupportedExpressionError), match=message):
        bind_value(text, _SCHEMA)
