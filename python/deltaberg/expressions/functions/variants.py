"""Functions of variants: the value at a path, converted as Spark converts it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.build.parse import parse_value
from deltaberg.expressions.cast.casts import forgiving_cast
from deltaberg.expressions.functions.function import Context, Function, wrong_types
from deltaberg.expressions.tree.nodes import (
    CallNode,
    ColumnNode,
    Datum,
    Failure,
    Frame,
    LiteralNode,
    Node,
    Outcome,
    spread,
)
from deltaberg.expressions.tree.tree import Cast, ColumnValue, type_text
from deltaberg.expressions.tree.types import BINARY, BOOLEAN, DATE, DOUBLE, FLOAT, LONG, NTZ, STRING, TIMESTAMP, VOID
from deltaberg.hints import shown_value
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Decimal, Primitive
from deltaberg.schema.variants.values import variant_at, variant_scalar

__all__ = ["VARIANTS"]

_VARIANT = Primitive("variant")
_STEP = re.compile(r"""\.([^.\[\s]+)|\['([^'?\s]+)'\]|\["([^"?\s]+)"\]|\[([0-9]{1,9})\]""")
#: The types of variants that have values here, by their names.
_TYPES: dict[str, DataType] = {
    "boolean": BOOLEAN,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "uuid": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamp_ntz": NTZ,
}
_MOST_DIGITS = 38


def _get(name: str) -> Function:
    forgives = name.startswith("try")

    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        value, path, kind = nodes
        if value.type not in (_VARIANT, VOID):
            raise wrong_types(name, nodes)
        value = context.cast(value, _VARIANT)
        steps, to = _steps(_literal(path, "path")), _type(_literal(kind, "type"))
        if not isinstance(to, (Primitive, Decimal)):
            raise UnsupportedExpressionError(
                f"{name} of the type {type_text(to)} cannot be evaluated", hint="name the path of a single value"
            )
        return CallNode(to, name, (value,), _Kernel(context, steps, to, forgives))

    otherwise = "null if it does not fit" if forgives else "one that does not fit fails"
    summary = f"the value at a path such as `'$.a[0]'`, converted to a type such as `'int'`; {otherwise}"
    return Function(name, "v, path, type", summary, (3, 3), bind)


def _literal(node: Node, what: str) -> str:
    if not isinstance(node, LiteralNode) or node.type != STRING or not node.scalar.is_valid:
        raise UnsupportedExpressionError(f"the {what} of a variant's value is a literal text")
    return str(node.scalar.as_py())


def _type(text: str) -> DataType:
    found = parse_value(f"CAST(x AS {text})")
    if not isinstance(found, Cast) or not isinstance(found.value, ColumnValue):
        raise ExpressionError(f"{shown_value(text)} is not a type")
    return found.type


def _steps(path: str) -> tuple[str | int, ...]:
    """Return the names and places in a path such as ``$.a[0]['b']``."""
    steps: list[str | int] = []
    at = 1
    while found := _STEP.match(path, at):
        steps.append(int(found[4]) if found[4] else found[1] or found[2] or found[3])
        at = found.end()
    if not path.startswith("$") or at != len(path):
        raise UnsupportedExpressionError(
            f"the path {shown_value(path)} cannot be evaluated", hint="write it as '$.name[0]'"
        )
    return tuple(steps)


@dataclass(frozen=True)
class _Kernel:
    """Finds the values at a path, and casts those of each type."""

    context: Context
    steps: tuple[str | int, ...]
    to: DataType
    forgives: bool

    def __call__(self, variants: Datum) -> Outcome:
        groups: dict[tuple[str, int], tuple[list[int], list[Any]]] = {}
        for row, variant in enumerate(variants.to_pylist()):
            part = None if variant is None else variant_at(variant["metadata"], variant["value"], self.steps)
            name, value = ("null", None) if part is None else variant_scalar(part)
            scale = 0
            if name == "decimal":
                # Spark leaves out zeros at the end.
                value, scale = _without_zeros(value)
            rows, values = groups.setdefault((name, scale), ([], []))
            rows.append(row)
            values.append(value)
        order: list[int] = []
        results = [pa.nulls(0, arrow_type(self.to))]
        failures = []
        for (name, scale), (rows, values) in groups.items():
            found, wrong, message = self._cast(name, scale, values)
            order += rows
            results.append(found)
            if any(wrong):
                mask = [False] * len(variants)
                for row, bad in zip(rows, wrong, strict=True):
                    mask[row] = bad
                failures.append(Failure(pa.array(mask), message))
        places = pc.sort_indices(pa.array(order, pa.int64()))
        return Outcome(pa.concat_arrays(results).take(places), tuple(failures))

    def _cast(self, name: str, scale: int, values: list[Any]) -> tuple[pa.Array, list[bool], str]:
        """Return values of one type as those that are wanted, which of them fail, and why."""
        nulls = pa.nulls(len(values), arrow_type(self.to))
        source = Decimal(_MOST_DIGITS, scale) if name == "decimal" else _TYPES.get(name)
        if name == "null":
            return nulls, [False] * len(values), ""
        fails = [not self.forgives] * len(values)
        unknown = f"a variant of the type {name} cannot be converted to {type_text(self.to)} here"
        message = f"a variant of the type {name} does not fit {type_text(self.to)}"
        if source is None:
            # Spark would make text of objects and arrays, in a spelling of its own.
            is_refused = name not in ("object", "array") or self.to == STRING
            return nulls, [is_refused or fail for fail in fails], unknown if is_refused else message
        column = ColumnNode(source, 0, (), (0,))
        try:
            cast = self.context.cast(column, self.to)
        except UnsupportedExpressionError:
            return nulls, [True] * len(values), unknown
        except ExpressionError:
            return nulls, fails, message
        if self.forgives:
            cast = forgiving_cast(cast, column, "try_cast")
        batch = pa.RecordBatch.from_arrays([_array(values, arrow_type(source))], ["value"])
        outcome = cast.evaluate(Frame(batch))
        converted = spread(outcome.values, len(values))
        # A cast to null, as of NaN to a decimal, is none that fits.
        wrong = converted.is_null().to_pylist() if not self.forgives else [False] * len(values)
        for failure in outcome.failures:
            wrong = [one or bad for one, bad in zip(wrong, failure.rows.to_pylist(), strict=True)]
            message = failure.message
        return converted, wrong, message


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    return pa.array(values, pa.int64()).view(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)


def _without_zeros(value: Any) -> tuple[Any, int]:
    sign, digits, exponent = value.as_tuple()
    least = min(exponent, 0)
    while least < 0 and digits[-1] == 0 and len(digits) > 1:
        digits, least = digits[:-1], least + 1
    if not any(digits):
        digits, least = (0,), 0
    return type(value)((sign, digits, least)), -least


VARIANTS = {name: _get(name) for name in ("variant_get", "try_variant_get")}
