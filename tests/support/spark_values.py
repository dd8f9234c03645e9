"""Spark as the judge of values: the same expressions on the same rows, in its ANSI mode."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltaberg.errors import EvaluationError, ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.bind.bind import BoundValue, bind_value
from deltaberg.expressions.tree.nodes import spread
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import Struct

__all__ = ["ZONE", "Compared", "compare_with_spark", "settings_of_values", "shown"]

ZONE = "America/New_York"
#: Spark evaluates what it is told to, in the order in which it is written, and compiles nothing.
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{name}"
        for name in (
            *("BooleanSimplification", "SimplifyConditionals", "PushFoldableIntoBranches", "SimplifyBinaryComparison"),
            *("NullPropagation", "ConstantFolding", "OptimizeIn", "SimplifyCasts", "LikeSimplification"),
            *("ReplaceNullWithFalseInPredicate", "UnwrapCastInBinaryComparison", "ReorderAssociativeOperator"),
            *("ConstantPropagation", "CombineConcats", "RemoveDispensableExpressions", "FoldablePropagation"),
            *("SimplifyExtractValueOps", "SimplifyCaseConversionExpressions", "OptimizeCsvJsonExprs"),
        )
    ),
}


@dataclass
class Compared:
    """What a comparison found. Each difference names the expression."""

    differences: list[str]
    equal: int = 0
    unsupported: int = 0
    failures: int = 0


@contextmanager
def settings_of_values(spark: Any, zone: str = ZONE) -> Iterator[None]:
    """Let Spark evaluate what it is told to, in its ANSI mode, and in a zone."""
    settings = {**_SETTINGS, "spark.sql.session.timeZone": zone}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def shown(values: pa.Array | pa.ChunkedArray) -> list[str]:
    """Return values as text that tells -0.0 from 0.0, and is the same for all NaN and for all years."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    return [repr(value) for value in values.to_pylist()]


def compare_with_spark(
    spark: Any, rows: pa.RecordBatch, schema: Struct, texts: Sequence[str], zone: str = ZONE
) -> Compared:
    """Evaluate expressions here and in Spark, both in a zone. Where one raises for a row, the other must, too."""
    compared = Compared([])
    numbered = pa.Table.from_batches([rows]).append_column("row", pa.array(range(rows.num_rows), pa.int32()))
    with settings_of_values(spark, zone), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
        frame = spark.createDataFrame(numbered)
        spark.conf.unset("spark.sql.timestampType")
        ready: list[_Own] = []
        for text in texts:
            try:
                bound = bind_value(text, schema, timezone=zone)
            except UnsupportedExpressionError:
                compared.unsupported += 1
            except (EvaluationError, ExpressionError) as error:
                # A constant that cannot be computed is refused before there are rows, and Spark refuses it later.
                is_constant = isinstance(error, EvaluationError) or "cannot be compared with a column" in error.message
                if (_has_results if is_constant else _analyses)(frame, text):
                    compared.differences.append(f"{text}: Spark has a result, we have {error.statement}")
            else:
                ready.append(_evaluated(text, bound, rows))
        for first in range(0, len(ready), 100):
            _compare(frame, ready[first : first + 100], compared)
        failing = [own for own in ready if own.failed]
        for own in failing[:: max(len(failing) // max(len(texts) // 20, 5), 1)]:
            _compare_failure(frame, own, compared)
    return compared


@dataclass
class _Own:
    text: str
    bound: BoundValue
    values: pa.Array
    failed: list[int]
    message: str = ""


def _evaluated(text: str, bound: BoundValue, rows: pa.RecordBatch) -> _Own:
    try:
        outcome = bound.outcome(rows)
    except Exception as error:
        raise AssertionError(f"{text} raises {type(error).__name__}: {error}") from error
    failed = {row for failure in outcome.failures for row, bad in enumerate(failure.rows.to_pylist()) if bad}
    values = spread(outcome.values, rows.num_rows)
    assert values.type == arrow_type(bound.type), f"{text}: {values.type} is not {bound.type}"
    message = outcome.failures[0].message if outcome.failures else ""
    return _Own(text, bound, values, sorted(failed), message)


def _has_results(frame: Any, text: str) -> bool:
    try:
        frame.selectExpr(text).collect()
    except Exception:  # noqa: BLE001 - Spark raises errors of many classes, and that it fails is the answer
        return False
    return True


def _analyses(frame: Any, text: str) -> bool:
    try:
        frame.selectExpr(text).schema  # noqa: B018
    except Exception:  # noqa: BLE001
        return False
    return True


def _column(own: _Own, number: int) -> str:
    text = own.text
    if own.failed:
        text = f"CASE WHEN row NOT IN ({', '.join(map(str, own.failed))}) THEN {text} END"
    return f"{text} AS c{number}"


def _compare(frame: Any, batch: Sequence[_Own], compared: Compared) -> None:
    """Compare many expressions by one query, or, if it raises, by ever smaller ones."""
    try:
        table = frame.selectExpr(*(_column(own, number) for number, own in enumerate(batch))).toArrow()
    except Exception as error:  # noqa: BLE001
        if len(batch) == 1:
            compared.differences.append(f"{batch[0].text}: Spark raises {str(error)[:300]!r}, we do not")
            return
        half = len(batch) // 2
        _compare(frame, batch[:half], compared)
        _compare(frame, batch[half:], compared)
        return
    for number, own in enumerate(batch):
        theirs = table.column(number).combine_chunks()
        if isinstance(theirs, pa.ChunkedArray):
            theirs = theirs.chunk(0)
        _judge(own, theirs, compared)


def _judge(own: _Own, theirs: pa.Array, compared: Compared) -> None:
    kinds = (_kind(own.values.type), _kind(theirs.type))
    if kinds[0] != kinds[1]:
        compared.differences.append(f"{own.text}: Spark's type is {theirs.type}, ours {own.values.type}")
        return
    for row, (ours, other) in enumerate(zip(shown(own.values), shown(theirs), strict=True)):
        if row not in own.failed and ours != other:
            compared.differences.append(f"{own.text}: row {row} is {other} in Spark, and {ours} here")
            return
    compared.equal += 1


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return f"timestamp {kind.tz is not None}"
    if pa.types.is_list(kind):
        return f"list {kind.value_type}"
    if pa.types.is_struct(kind):
        return f"struct {[(child.name, _kind(child.type)) for child in kind]}"
    return str(kind)


def _compare_failure(frame: Any, own: _Own, compared: Compared) -> None:
    """Check that Spark raises for a row that fails here."""
    row = own.failed[len(own.failed) // 2]
    try:
        value = frame.where(f"row = {row}").selectExpr(own.text).toArrow()
    except Exception:  # noqa: BLE001
        compared.failures += 1
    else:
        compared.differences.append(
            f"{own.text}: row {row} is {shown(value.column(0))} in Spark, and fails here: {own.message}"
        )
