"""Columns of Spark Connect, by the messages of its protocol (``spark.connect.Expression``)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal as PyDecimal
from typing import Any

from deltaberg.expressions.tree.tree import Value
from deltaberg.spark.columns.build import OfFrame, SqlText, TypedCast, call, column, constant, extracted, refused

__all__ = ["connect_value"]

_EPOCH = dt.datetime(1970, 1, 1)
_TRY = 3
#: Kinds of literals whose value is that of Python as it is.
_PLAIN = frozenset({"boolean", "integer", "string", "binary", "double"})
_CASTS = {"byte": "tinyint", "short": "smallint", "float": "float", "long": "bigint"}


def connect_value(message: Any, of_frame: OfFrame) -> Value:
    """Return the value that an expression of the protocol describes.

    Raises
    ------
    UnsupportedExpressionError
        A part of it has no exact SQL text.
    """
    kind = message.WhichOneof("expr_type")
    handler = _HANDLERS.get(kind)
    if handler is None:
        raise refused(str(kind).replace("_", " "))
    return handler(getattr(message, kind), of_frame)


def _literal(literal: Any, _of_frame: OfFrame) -> Value:
    kind = literal.WhichOneof("literal_type")
    if kind == "null":
        return constant(None)
    value = getattr(literal, kind)
    if kind in _PLAIN:
        return constant(value)
    if kind in _CASTS:
        return TypedCast(constant(value), _CASTS[kind])
    if kind == "decimal":
        # The type that the client names may have fewer digits than the value.
        number = PyDecimal(value.value)
        _, digits, exponent = number.as_tuple()
        scale = max(-int(exponent), value.scale)
        precision = max(len(digits), scale, value.precision)
        return TypedCast(constant(number), f"decimal({precision}, {scale})")
    try:
        if kind == "date":
            return constant((_EPOCH + dt.timedelta(days=value)).date())
        if kind == "timestamp":
            return constant(_EPOCH.replace(tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=value))
        if kind == "timestamp_ntz":
            return constant(_EPOCH + dt.timedelta(microseconds=value))
    except OverflowError:
        pass
    raise refused(f"a literal of the kind {kind}")


def _attribute(attribute: Any, of_frame: OfFrame) -> Value:
    if attribute.HasField("plan_id"):
        from pyspark.sql.connect.column import Column
        from pyspark.sql.connect.expressions import ColumnReference

        return of_frame(Column(ColumnReference(attribute.unparsed_identifier, attribute.plan_id)))
    return column(attribute.unparsed_identifier)


def _function(function: Any, of_frame: OfFrame) -> Value:
    arguments = [connect_value(argument, of_frame) for argument in function.arguments]
    return call(function.function_name, arguments, is_distinct=function.is_distinct)


def _cast(cast: Any, of_frame: OfFrame) -> Value:
    kind = cast.type_str or _type_text(cast.type)
    return TypedCast(connect_value(cast.expr, of_frame), kind, cast.eval_mode == _TRY)


def _type_text(kind: Any) -> str:
    from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type

    return proto_schema_to_pyspark_data_type(kind).simpleString()


def _extract(extract: Any, of_frame: OfFrame) -> Value:
    return extracted(connect_value(extract.child, of_frame), connect_value(extract.extraction, of_frame))


_HANDLERS: dict[str, Callable[[Any, OfFrame], Value]] = {
    "literal": _literal,
    "unresolved_attribute": _attribute,
    "unresolved_function": _function,
    "expression_string": lambda text, _: SqlText(text.expression),
    # The name of a value has no meaning where it is assigned or tested.
    "alias": lambda alias, of_frame: connect_value(alias.expr, of_frame),
    "cast": _cast,
    "unresolved_extract_value": _extract,
}
