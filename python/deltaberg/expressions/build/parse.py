"""Reading values from SQL text in Spark's dialect."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from deltaberg.errors import ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.build.literals import decimal_literal, number_literal
from deltaberg.expressions.build.plain_text import read_plain
from deltaberg.expressions.build.sql_text import decimal_digits, is_nan_word, literal_text, name_parts, parse_text
from deltaberg.expressions.time.intervals import interval_of
from deltaberg.expressions.tree.tree import Call, Cast, ColumnValue, GetField, Literal, Value
from deltaberg.kernels.decimals import parse_decimal
from deltaberg.schema.types import DataType, Decimal, Field, List, Map, Primitive, Struct
from deltaberg.whole_numbers import whole_number

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["parse_value"]

_TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "TEXT": "string",
    "VARCHAR": "string",
    "CHAR": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
}
_COMPARISONS = {"EQ": "=", "GT": ">", "GTE": ">=", "LT": "<", "LTE": "<=", "NullSafeEQ": "<=>"}
_NEGATED = frozenset({"NEQ", "NullSafeNEQ"})
_PREDICATES = frozenset({"Is", "In", "Between", "Like", "ILike", "RegexpLike", "Not"}) | _NEGATED | _COMPARISONS.keys()
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "IntDiv": "div", "DPipe": "||"}
_BITWISE = {"BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^"}


def parse_value(text: str, kind: str = "expression", *, is_stored: bool = False) -> Value:
    """Return the value that SQL text in Spark's dialect describes.

    Parameters
    ----------
    kind
        How errors call it: an "expression", or a "filter".
    is_stored
        Whether a table has the text, which another engine may have written: texts in double quotes are then texts,
        even if a column has the same name.

    Raises
    ------
    ExpressionError
        If the text is not an expression.
    UnsupportedExpressionError
        If it uses a syntax that this library cannot evaluate.
    MissingDependencyError
        If it is not a plain condition, and sqlglot is not installed.

    Examples
    --------
    >>> print(parse_value("if(x > 5, upper(name), 'a')"))
    CASE WHEN x > 5 THEN upper(name) ELSE 'a' END
    """
    try:
        plain = read_plain(text)
        return _value(parse_text(text, kind, is_stored=is_stored)) if plain is None else plain
    except RecursionError:
        raise ExpressionError(f"the {kind} is nested too deeply") from None
    except ExpressionError as error:
        raise error.with_context(**{kind: text}) from None


def _value(node: exp.Expr) -> Value:
    from sqlglot import exp

    if isinstance(node, exp.Paren):
        return _value(node.this)
    if isinstance(node, (exp.And, exp.Or)):
        return _joined(node)
    known = _handlers().get(type(node).__name__)
    if known is None:
        raise _unsupported(node)
    names, handler = known
    # An unknown argument could change the meaning of a node. Newer versions of sqlglot, for instance, express NOT LIKE
    # by the argument negate.
    given = {name for name, value in node.args.items() if value not in (None, False, [])}
    if not given <= {*names, "negate", "_type"}:
        raise _unsupported(node)
    return Call("not", (handler(node),)) if "negate" in given else handler(node)


def _joined(node: exp.Expr) -> Value:
    """Join a chain of ANDs or ORs without recursion."""
    return Call(type(node).__name__.lower(), tuple(_value(part) for part in node.flatten()))


@cache
def _handlers() -> dict[str, tuple[tuple[str, ...], Callable[[Any], Value]]]:
    """Return, for each kind of node, the arguments that its handler knows, and the handler."""
    two = ("this", "expression")
    handlers: dict[str, tuple[tuple[str, ...], Callable[[Any], Value]]] = {
        "Null": ((), lambda _: Literal(None, Primitive("void"))),
        "Boolean": (("this",), lambda node: Literal(bool(node.this), Primitive("boolean"))),
        "Literal": (("this", "is_string"), _literal),
        "RawString": (("this",), lambda node: _text(literal_text(node))),
        "HexString": (("this",), _hexadecimal),
        "Concat": (("expressions", "safe", "coalesce"), _adjacent),
        "Column": (("this", "table", "db", "catalog"), _column),
        "Dot": (two, _dot),
        "Bracket": (("this", "expressions"), _bracket),
        "NEQ": (two, lambda node: Call("not", (_binary("=", node),))),
        "NullSafeNEQ": (two, lambda node: Call("not", (_binary("<=>", node),))),
        "Not": (("this",), lambda node: Call("not", (_value(node.this),))),
        "Neg": (("this",), _negative),
        "BitwiseNot": (("this",), lambda node: Call("~", (_value(node.this),))),
        "Is": (two, _is),
        "In": (("this", "expressions"), _in),
        "Between": (("this", "low", "high"), _between),
        "Escape": (two, _escape),
        "Case": (("this", "ifs", "default"), _case),
        "If": (("this", "true", "false"), _if),
        "Cast": (("this", "to"), _cast),
        "TryCast": (("this", "to", "safe"), _cast),
        "Interval": (("this", "unit"), interval_of),
        "Trim": (("this", "expression", "position"), _trim),
        "Substring": (("this", "start", "length"), _substring),
        "Extract": (two, lambda node: Call("date_part", (_text(node.this.name), _value(node.expression)))),
        "Anonymous": (("this", "expressions"), _call),
    }
    for kind, name in {**_COMPARISONS, **_ARITHMETIC, **_BITWISE}.items():
        handlers[kind] = ((*two, "safe", "typed"), partial(_binary, name))
    for kind, name in {"Like": "like", "ILike": "ilike", "RegexpLike": "rlike"}.items():
        handlers[kind] = (two, partial(_binary, name))
    return handlers


def _text(text: str) -> Literal:
    return Literal(text, Primitive("string"))


def _binary(name: str, node: exp.Binary) -> Value:
    """Convert an operator, unless Spark could read the text in another order.

    In Spark, ``||`` binds as tightly as ``+``, each bitwise operator binds differently, and a predicate such as IS NULL
    takes the whole comparison before it as its operand.
    """
    left, right = type(node.this).__name__, type(node.expression).__name__
    kind = type(node).__name__
    unclear = bool(
        (kind == "DPipe" and {left, right} & {"Add", "Sub"})
        or (kind in _BITWISE and {left, right} & (_BITWISE.keys() - {kind}))
        or ((kind in _COMPARISONS or kind in _NEGATED) and right in _PREDICATES)
    )
    if unclear:
        raise UnsupportedExpressionError(
            f"the order of the operators in {_shown(node)!r} is not clear", hint="put parentheses around operands"
        )
    return Call(name, (_value(node.this), _value(node.expression)))


def _literal(node: exp.Literal) -> Value:
    return _text(literal_text(node)) if node.is_string else number_literal(node.name)


def _hexadecimal(node: exp.HexString) -> Value:
    digits = node.name
    return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}"), Primitive("binary"))


def _adjacent(node: exp.Concat) -> Value:
    """Join literals that stand side by side. Functions named concat are calls, not this node."""
    parts = [_value(part) for part in node.expressions]
    if not all(isinstance(part, Literal) and isinstance(part.value, str) for part in parts):
        raise _unsupported(node)
    return _text("".join(part.value for part in parts if isinstance(part, Literal)))


def _column(node: exp.Column) -> Value:
    path = name_parts(node)
    if path is None:
        raise _unsupported(node)
    return ColumnValue(path)


def _dot(node: exp.Dot) -> Value:
    from sqlglot import exp

    path = name_parts(node)
    if path is not None:
        return ColumnValue(path)
    if not isinstance(node.expression, exp.Identifier):
        raise _unsupported(node)
    return GetField(_value(node.this), node.expression.name)


def _bracket(node: exp.Bracket) -> Value:
    if len(node.expressions) != 1:
        raise _unsupported(node)
    return Call("[]", (_value(node.this), _value(node.expressions[0])))


def _negative(node: exp.Neg) -> Value:
    from sqlglot import exp

    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return number_literal(f"-{inner.name}")
    if isinstance(inner, (exp.TryCast, exp.Cast)) and isinstance(inner.this, exp.Literal) and not inner.this.is_string:
        if _is_decimal_of_suffix(inner):
            return decimal_literal(parse_decimal(f"-{inner.this.name}"))
        return _typed_number(f"-{inner.this.name}", _type(inner.to))
    return Call("negative", (_value(inner),))


def _is(node: exp.Is) -> Value:
    from sqlglot import exp

    value = node.expression
    if isinstance(value, exp.Null):
        return Call("isnull", (_value(node.this),))
    if isinstance(value, exp.Boolean):
        return Call("<=>", (_value(node.this), Literal(bool(value.this), Primitive("boolean"))))
    if is_nan_word(value):
        return Call("=", (_value(node.this), Literal(math.nan, Primitive("double"))))
    raise _unsupported(node)


def _in(node: exp.In) -> Value:
    if not node.expressions:
        raise _unsupported(node)
    return Call("in", (_value(node.this), *map(_value, node.expressions)))


def _between(node: exp.Between) -> Value:
    value, low, high = (_value(node.args[name]) for name in ("this", "low", "high"))
    return Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))


def _escape(node: exp.Escape) -> Value:
    inner = node.this
    if type(inner).__name__ not in ("Like", "ILike"):
        raise _unsupported(node)
    call = _value(inner)
    negated = isinstance(call, Call) and call.name == "not"
    plain = call.arguments[0] if negated and isinstance(call, Call) else call
    if not isinstance(plain, Call):
        raise _unsupported(node)
    escaped = Call(plain.name, (*plain.arguments, _value(node.expression)))
    return Call("not", (escaped,)) if negated else escaped


def _case(node: exp.Case) -> Value:
    arguments: list[Value] = []
    subject = None if node.this is None else _value(node.this)
    for branch in node.args["ifs"]:
        condition = _value(branch.this)
        arguments += [condition if subject is None else Call("=", (subject, condition)), _value(branch.args["true"])]
    if node.args.get("default") is not None:
        arguments.append(_value(node.args["default"]))
    return Call("case", tuple(arguments))


def _if(node: exp.If) -> Value:
    if node.args.get("false") is None:
        raise ExpressionError(f"if() takes three arguments: {_shown(node)!r}")
    return Call("case", (_value(node.this), _value(node.args["true"]), _value(node.args["false"])))


def _cast(node: exp.Cast) -> Value:
    from sqlglot import exp

    inner = node.this
    if _is_decimal_of_suffix(node):
        return decimal_literal(parse_decimal(inner.name))
    kind = _type(node.to)
    if node.args.get("safe"):
        return Cast(_value(inner), kind, forgiving=True)
    if isinstance(inner, exp.Literal) and not inner.is_string and _is_suffixed(node):
        return _typed_number(inner.name, kind)
    return Cast(_value(inner), kind)


def _is_decimal_of_suffix(node: exp.Cast) -> bool:
    """Return whether sqlglot made the cast of ``1.5BD`` by the type that our dialect has for that."""
    from sqlglot import exp

    is_number = isinstance(node.this, exp.Literal) and not node.this.is_string
    return is_number and node.to.this == exp.DataType.Type.BIGDECIMAL


def _is_suffixed(node: exp.Cast) -> bool:
    """Return whether sqlglot made the cast of a suffix (``1L``): its value is checked when it is read."""
    return _type(node.to) in {Primitive(name) for name in ("byte", "short", "long", "float", "double")}


def _typed_number(text: str, kind: DataType) -> Value:
    """Return a number of a type, or a cast if the type does not hold the number."""
    if kind in (Primitive("float"), Primitive("double")):
        return Cast(_text(text), kind)
    whole, bits = whole_number(text), {"byte": 7, "short": 15, "integer": 31, "long": 63}.get(str(kind))
    if whole is not None and bits is not None and -(1 << bits) <= whole < 1 << bits:
        return Literal(whole, kind)
    number = number_literal(text.lstrip("-"))
    return Cast(Call("negative", (number,)) if text.startswith("-") else number, kind)


def _type(node: exp.DataType) -> DataType:
    """Return the type that a cast names."""
    name = getattr(node.this, "name", "")
    if name in _TYPES:
        return Primitive(_TYPES[name])
    parts = node.expressions
    if name == "DECIMAL":
        return Decimal(*decimal_digits(node))
    if name in ("ARRAY", "LIST") and len(parts) == 1:
        return List(Field("element", _type(parts[0])))
    if name == "MAP" and len(parts) == 2:
        return Map(Field("key", _type(parts[0]), nullable=False), Field("value", _type(parts[1])))
    if name == "STRUCT":
        return Struct(tuple(Field(part.this.name, _type(part.args["kind"])) for part in parts))
    # Spark's dialect would show a string for what Spark lacks.
    raise UnsupportedExpressionError(f"the type {node.sql()} cannot be evaluated")


def _trim(node: exp.Trim) -> Value:
    names = {"LEADING": "ltrim", "TRAILING": "rtrim"}
    name = names.get(str(node.args.get("position") or ""), "trim")
    characters = node.args.get("expression")
    value = _value(node.this)
    if characters is None:
        return Call(name, (value,))
    return Call("btrim", (value, _value(characters))) if name == "trim" else Call(name, (_value(characters), value))


def _substring(node: exp.Substring) -> Value:
    parts = [node.this, node.args.get("start"), node.args.get("length")]
    if parts[1] is None:
        raise ExpressionError(f"substring takes two or three arguments: {_shown(node)!r}")
    return Call("substring", tuple(_value(part) for part in parts if part is not None))


def _call(node: exp.Anonymous) -> Value:
    return Call(str(node.this).lower(), tuple(_value(argument) for argument in node.expressions))


def _shown(node: exp.Expr) -> str:
    return str(node.sql(dialect="spark"))


def _unsupported(node: exp.Expr) -> ExpressionError:
    from sqlglot import exp

    if node.find(exp.Select) is not None:
        return UnsupportedExpressionError(
            f"{_shown(node)!r} asks another query, which is not evaluated",
            hint="merge the rows of the query into the table, or pass their values, as in id IN (1, 2)",
        )
    if isinstance(node, exp.Alias):
        return UnsupportedExpressionError(
            f"{_shown(node)!r} is the expression of a column with a name", hint="quote a text: 'a text'"
        )
    return UnsupportedExpressionError(
        f"{_shown(node)!r} cannot be evaluated", hint="docs/expressions.md lists what can be evaluated"
    )
