"""Expressions with extreme sizes, numbers and patterns: Spark's result or an error of this library, and soon."""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal as PyDecimal
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import col, open_table, write_table
from deltaberg.choices import Format
from deltaberg.errors import (
    DeltabergError,
    EvaluationError,
    ExpressionError,
    InvalidArgumentError,
    TooLargeError,
    UnsupportedExpressionError,
)
from deltaberg.expressions.bind.bind import bind_condition, bind_value
from deltaberg.expressions.build.filters import as_filter
from deltaberg.expressions.compute import by_row
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.expressions.derive.derive import bind
from deltaberg.expressions.functions import patterns
from deltaberg.expressions.functions import text as functions_of_text
from deltaberg.expressions.functions.function_table import FUNCTIONS
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Decimal, Field, List, Map, Primitive, Struct
from deltaberg.spark.native.to_spark_filters import why_not_in_spark

pytestmark = pytest.mark.one_backend

_MOST = (1 << 31) - 1
_DECIMALS = ("9999999999999999999999999999.9999999999", "-9999999999999999999999999999.9999999999", "0", "1e-10", "1")
_COLUMNS: dict[str, tuple[DataType, list[Any]]] = {
    "i": (Primitive("integer"), [0, 1, -1, _MOST, -_MOST - 1, None]),
    "l": (Primitive("long"), [0, 1, -1, (1 << 63) - 1, -(1 << 63), None]),
    "f": (Primitive("double"), [0.0, -0.0, 1e308, float("nan"), float("-inf"), None]),
    "m": (Decimal(38, 10), [None, *map(PyDecimal, _DECIMALS)]),
    "t": (Primitive("string"), ["", "a" * 1000, "é€😀" * 100, "9" * 400, "2147483647", None]),
    "b": (Primitive("binary"), [b"", b"\xff" * 1000, b"a", b"\0", b"z" * 500, None]),
    "d": (Primitive("date"), [0, -719162, 2932896, _MOST, -_MOST - 1, None]),
    "s": (Primitive("timestamp"), [0, 1, -1, (1 << 63) - 1, -(1 << 63), None]),
    "ar": (List(Field("element", Primitive("long"))), [[], [1, None], None, [(1 << 63) - 1] * 3, [0], [1]]),
    "mp": (
        Map(Field("key", Primitive("string"), nullable=False), Field("value", Primitive("long"))),
        [[], [("a", 1)], None, [("a", None)], [("", 0)], []],
    ),
    "st": (Struct((Field("x", Primitive("long")),)), [{"x": 1}, None, {"x": None}] * 2),
}
_LITERALS = (
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "0",
    "-1",
    "NULL",
    "''",
    "'a'",
    "repeat('ab', 100000)",
    "1e308",
    "'(a+)+b'",
    "'%_%'",
    "'yyyy-MM-dd'",
    "'year'",
    "true",
    "DATE '9999-12-31'",
    "TIMESTAMP '9999-12-31 23:59:59'",
    "X'FF'",
    "CAST(9999999999999999999999999999.9999999999 AS DECIMAL(38,10))",
    "INTERVAL 100000 MONTHS",
    "INTERVAL 2147483647 DAYS",
)
_SCHEMA = Struct(tuple(Field(name, kind) for name, (kind, _) in _COLUMNS.items()))
_INFIX = ("+", "-", "*", "/", "%", "div", "||", "=", "<", "<=>", "&", "|", "^", "like", "rlike")


def _array(kind: DataType, values: list[Any]) -> pa.Array:
    target = arrow_type(kind)
    bits = {pa.date32(): pa.int32(), pa.timestamp("us", "UTC"): pa.int64()}.get(target)
    return pa.array(values, target) if bits is None else pa.array(values, bits).view(target)


_BATCH = pa.RecordBatch.from_arrays([_array(*column) for column in _COLUMNS.values()], names=list(_COLUMNS))


def _calls(name: str, rng: random.Random, count: int) -> Iterator[str]:
    operands = [*_COLUMNS, *_LITERALS]
    least, most = FUNCTIONS[name].counts
    for _ in range(count):
        if name in _INFIX:
            yield f"{rng.choice(operands)} {name} {rng.choice(operands)}"
        else:
            some = rng.randint(least, least + 2 if most is None else most)
            yield f"{name}({', '.join(rng.choice(operands) for _ in range(some))})"


@pytest.mark.parametrize("part", range(4))
def test_functions_return_or_refuse(part: int) -> None:
    """Whatever the arguments: no error but those of this library, and no more memory than Arrow's arrays may have."""
    for name in sorted(FUNCTIONS)[part::4]:
        for text in _calls(name, random.Random(name), 6):
            try:
                found = bind_value(text, _SCHEMA).evaluate(_BATCH)
            except DeltabergError:
                continue
            assert len(found) == _BATCH.num_rows, text
            found.validate(full=True)


def _evaluated(text: str, batch: pa.RecordBatch = _BATCH) -> list[Any]:
    columns = Struct(tuple(one for one in _SCHEMA if one.name in batch.schema.names))
    found: list[Any] = bind_value(text, columns).evaluate(batch).to_pylist()
    return found


_TEXTS = pa.record_batch({"t": ["ab", None, ""]})


@pytest.mark.parametrize(
    "text",
    [
        "repeat(t, 2147483647)",
        "repeat('a', 2147483647)",
        "repeat(t, length(t) * 1000000000)",
        "lpad(t, 2147483647, 'x')",
        "rpad(t, 2147483647)",
        "replace(repeat(t, 100000), 'a', repeat('x', 100000))",
        "regexp_replace(repeat(t, 100000), 'a', '" + "x" * 10_000 + "')",
        "replace(repeat(t, 100000), left(t, 1), repeat('x', 100000))",
    ],
)
def test_rows_fail_whose_text_would_be_too_long(text: str) -> None:
    with pytest.raises(EvaluationError, match="a text is longer than 256 MiB") as caught:
        _evaluated(text, _TEXTS)
    # What is the same for every row fails before any is looked at.
    assert ("row" in caught.value.context) is ("t" in text.replace("repeat", ""))
    # Only rows that count fail.
    assert _evaluated(f"CASE WHEN t = 'b' THEN {text} END", _TEXTS) == [None, None, None]


@pytest.mark.parametrize(
    "text",
    ["hex(t)", "base64(t)", "upper(t)", "translate(t, 'b', 'é')", "concat(t, t)", "t || t", "concat_ws('-', t, t)"],
)
def test_every_function_that_makes_longer_texts_has_that_limit(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is a character less than what a text becomes."""
    batch = pa.record_batch({"t": ["ŉb" * (30 if "base64" not in text else 21), None, "a"] * 2})
    whole = _evaluated(text, batch)
    assert len(whole[0]) >= 60
    for module in (by_row, functions_of_text):
        monkeypatch.setattr(module, "MOST_OF_ONE", 50 if "translate" in text else len(whole[0]) - 1)
    with pytest.raises(EvaluationError, match="a text is longer than 256 MiB") as caught:
        _evaluated(text, batch)
    assert "row" in caught.value.context
    assert _evaluated(f"CASE WHEN t = 'a' THEN {text} END", batch) == [None, None, whole[2]] * 2


def test_results_are_refused_that_no_array_holds() -> None:
    batch = pa.record_batch({"t": ["ab"] * 100})
    for text in ("repeat(t, 100000000)", "concat(repeat('a', 50000000), t)"):
        with pytest.raises(TooLargeError, match="more than 2 GiB") as caught:
            _evaluated(text, batch)
        assert "batch_size" in str(caught.value)


def test_what_is_not_too_long_stays_as_it_is() -> None:
    assert _evaluated("repeat(t, 3)", _TEXTS) == ["ababab", None, ""]
    assert _evaluated("repeat(t, -2147483648)", _TEXTS) == ["", None, ""]
    assert _evaluated("lpad(t, 2147483647, '')", _TEXTS) == ["ab", None, ""]
    assert _evaluated("rpad(t, -2147483648, 'x')", _TEXTS) == ["", None, ""]
    assert _evaluated("replace(t, 'a', 'xyz')", _TEXTS) == ["xyzb", None, ""]
    assert _evaluated("regexp_replace(t, '[ab]', '--')", _TEXTS) == ["----", None, ""]


_DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "text",
    [
        "l = {}",
        "l = -{}",
        "l = {}L",
        "l IN (1, {})",
        "l BETWEEN 1 AND {}",
        "f = {}",
        "m = {}.5",
        "l = 1e{}",
        "l = '{}'",
        "l = CAST({} AS BIGINT)",
        "l = CAST('{}' AS INT)",
        "l + {} = 1",
        "m = CAST(t AS DECIMAL({},2))",
        "m = CAST('1' AS DECIMAL({},0))",
        "d + INTERVAL {} DAYS = d",
        "d + INTERVAL '{}' MONTH = d",
        "d + INTERVAL '1-{}' YEAR TO MONTH = d",
        "round(f, {}) = 1",
        "ar[{}] = 1",
        "d = DATE '{}-01-01'",
        "variant_get(parse_json(t), '$[{}]', 'int') = 1",
        "t RLIKE 'a{{{}}}'",
    ],
)
def test_numbers_of_thousands_of_digits(text: str) -> None:
    """Python itself refuses to read and to write them. A comparison with one that no column holds is false."""
    written = text.format(_DIGITS)
    for use in (
        lambda: bind(as_filter(written), _SCHEMA),
        lambda: bind_condition(written, _SCHEMA).evaluate(_BATCH),
    ):
        with suppress(ExpressionError, EvaluationError):
            use()
    assert str(bind(as_filter(f"l = {'0' * 5000}7"), _SCHEMA)) == "l = 7"


@pytest.mark.parametrize("column", ["l", "m", "f", "t", "d"])
def test_numbers_of_python_of_thousands_of_digits(column: str) -> None:
    for make in (
        lambda value: col(column) == value,
        lambda value: col(column).is_in([1, value]),
        lambda value: col(column).between(0, value),
        lambda value: as_filter([(column, "=", [value])]),
    ):
        with pytest.raises((ExpressionError, InvalidArgumentError), match="greater than any"):
            make(10**5000)
    with pytest.raises(ExpressionError, match="more than 38 digits"):
        bind_value(-(10**5000), _SCHEMA)


def test_patterns_take_no_longer_than_texts() -> None:
    """A matcher that goes back and forth would take until the end of the world."""
    batch = pa.record_batch({"t": ["a" * 5000 + "c", "xaab", None, ""]})
    assert _evaluated("regexp_extract(t, '(a+)+b', 1)", batch) == ["", "aa", None, ""]
    assert _evaluated("regexp_extract(t, '(a+)+b', 0)", batch) == ["", "aab", None, ""]
    assert _evaluated("regexp_extract(t, '(x)|(b)', 2)", batch) == ["", "", None, ""]
    assert _evaluated("t RLIKE '(a+)+b'", batch) == [False, True, None, False]
    assert _evaluated("regexp_replace(t, '(a+)+b', 'z')", batch)[1:] == ["xz", None, ""]
    assert _evaluated("size(split(t, '(a+)+b'))", batch) == [1, 2, None, 1]
    assert _evaluated("t LIKE '%a%a%a%a%a%a%a%a%a%a%b'", batch) == [False, False, None, False]


@pytest.mark.parametrize("pattern", ["((a)", "(a*)*", "(a|b*)+c", "(((a{999}){999}){999})", "[z-a]", "a{2,1}", "("])
def test_patterns_that_differ_or_are_too_large_are_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedExpressionError, match="regular expression"):
        bind_value(f"regexp_extract(t, '{pattern}', 1)", _SCHEMA)


def _is_like(pattern: str, text: str) -> bool:
    ways = [True] + [False] * len(text)
    for mark in pattern:
        ahead = [way and mark in ("_", one) for way, one in zip(ways, text, strict=False)]
        ways = list(accumulate(ways, operator.or_)) if mark == "%" else [False, *ahead]
    return ways[-1]


def test_patterns_of_like_take_no_longer_than_texts(rng: random.Random) -> None:
    """Arrow's matcher takes minutes for the first ones, and Spark's for all that have many gaps."""
    batch = pa.record_batch({"t": ["a" * 20_000, "ab" * 20_000, "a" * 20_000 + "c", None, ""]})
    for pattern, expected in {
        "%a" * 10_000: [True, False, False, None, False],
        "%a" * 5000 + "%c": [False, False, True, None, False],
        "a%_" * 5000: [True, True, True, None, False],
        "%" * 10_000: [True, True, True, None, True],
        "_" * 10_000 + "%b": [False, True, False, None, False],
    }.items():
        found = bind(as_filter(col("t").like(pattern)), _SCHEMA)
        assert evaluate(found, lambda _: batch.column("t"), 5).to_pylist() == expected, pattern[:10]
        assert _evaluated(f"t ILIKE '{pattern}'", batch) == expected, pattern[:10]
        assert (why_not_in_spark(found) is None) == (pattern.count("%") < 5), pattern[:10]
    for _ in range(60):
        pattern = "".join(rng.choices("ab%_é", k=rng.randint(0, 10))) + "%b_" * rng.choice((0, 40))
        texts = ["".join(rng.choices("abé\n", k=rng.randint(0, 20) * rng.choice((1, 15)))) for _ in range(20)]
        expected = [_is_like(pattern, text) for text in texts]
        assert _evaluated(f"t LIKE '{pattern}'", pa.record_batch({"t": texts})) == expected, (pattern, texts)


def test_patterns_of_like_may_be_too_long() -> None:
    pattern = "_%" * 100_000
    for use in (
        lambda: bind(col("t").like(pattern), _SCHEMA),
        lambda: bind_value(f"upper(t) LIKE '{pattern}'", _SCHEMA),
    ):
        with pytest.raises(ExpressionError, match="is too long"):
            use()


def test_maps_without_keys_are_refused() -> None:
    """Arrow would end the process."""
    with pytest.raises(ExpressionError, match="keys of a map"):
        bind_value("map(NULL, 1)", _SCHEMA)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_condition_that_fails_is_named_and_no_file(
    tmp_path: Path, form: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path / "t", pa.table({"id": [0, 1], "t": ["a", "b"]}), format=form)
    table: Any = open_table(tmp_path / "t")
    for text, message in (("1 / id > 0", "division"), ("repeat(t, 2147483647) = 'a'", "256 MiB")):
        with pytest.raises(EvaluationError, match=message) as caught:
            table.scan(text).to_arrow()
        assert "expression" in caught.value.context

    def fails(*_: object, **__: object) -> None:
        raise pa.ArrowInvalid("no such thing")

    monkeypatch.setattr("pyarrow.compute.ends_with", fails)
    monkeypatch.setattr("pyarrow.compute.extract_regex", fails)
    with pytest.raises(EvaluationError, match="the condition cannot be evaluated: no such thing") as caught:
        table.scan(col("t").like("%a")).to_arrow()
    assert caught.value.context["expression"] == "t LIKE '%a'"
    with pytest.raises(EvaluationError, match="the expression cannot be evaluated: no such thing"):
        table.scan("regexp_extract(t, 'a', 0) = 'a'").to_arrow()


def test_digits_that_no_number_has() -> None:
    """Rounding to more digits changes nothing, and rounding so many away leaves zero, or what no decimal holds."""
    batch = pa.record_batch(
        {
            "i": pa.array([7, -7, None], pa.int32()),
            "l": [7, -(1 << 63), None],
            "f": [1.5, -1e308, float("inf")],
            "m": pa.array([PyDecimal(_DECIMALS[0]), PyDecimal("-1.5"), None], pa.decimal128(38, 10)),
        }
    )
    rounded = {"i": [7, -7, None], "l": [7, -(1 << 63), None], "f": [1.5, -1e308, float("inf")]}
    for digits in (400, 401, _MOST):
        for name, (column, expected) in product(("round", "bround"), rounded.items()):
            assert _evaluated(f"{name}({column}, {digits})", batch) == expected
            assert _evaluated(f"{name}({column}, -{digits})", batch) == [0, 0, expected[2]]
        assert _evaluated(f"round(m, {digits})", batch)[1] == PyDecimal("-1.5")
        assert _evaluated(f"round(m, -{digits})", batch) == [0, 0, None]
        for name, column in product(("ceil", "floor"), ("i", "l", "m")):
            with pytest.raises(EvaluationError, match=r"does not fit into decimal\(38,0\)"):
                _evaluated(f"{name}({column}, -{digits})", batch)


@pytest.mark.parametrize("part", range(4))
def test_any_number_of_arguments(part: int) -> None:
    """Every version of sqlglot parses some functions by rules of its own, and errors show what it made of them."""
    for name in sorted(FUNCTIONS)[part::4]:
        if name not in _INFIX:
            for count in range(5):
                with suppress(DeltabergError):
                    bind_value(f"{name}({', '.join(['t', 'i', 'd', 'l'][:count])})", _SCHEMA)


@pytest.mark.parametrize("call", ["split(t, 'a')", "split(t, '[ab]')", "split(t, 'a', 1000)"])
def test_parts_of_texts_have_that_limit_before_they_are_made(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_FEW_BYTES", 0)
    monkeypatch.setattr(functions_of_text, "MOST_OF_ONE", 300)
    batch = pa.record_batch({"t": ["xax", "a" * 50, "a" * 100, None]})
    assert _evaluated(f"size(CASE WHEN length(t) < 100 THEN {call} END)", batch) == [2, 51, None, None]
    with pytest.raises(EvaluationError, match="the parts of a text take more than 256 MiB"):
        _evaluated(call, batch)
    assert _evaluated("size(split(t, 'a', 3))", batch) == [2, 3, 3, None]
    monkeypatch.setattr(functions_of_text, "MOST_BYTES", 300)
    with pytest.raises(TooLargeError, match="take more than 2 GiB"):
        _evaluated(call, pa.record_batch({"t": ["a" * 50] * 4}))
