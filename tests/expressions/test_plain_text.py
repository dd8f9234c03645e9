"""Conditions that are read without the parser of SQL are what the parser reads."""

from __future__ import annotations

import random

import pytest
from sqlglot.dialects.spark import Spark

from deltaberg.errors import ExpressionError
from deltaberg.expressions.build import parse
from deltaberg.expressions.build.parse import parse_value
from deltaberg.expressions.build.plain_text import read_plain

pytestmark = pytest.mark.one_backend

_PIECES = [
    *("a", "b.c", "A.b.c.D", "date", "timestamp", "Nan", "true", "FALSE", "null", "interval", "_x1", "upper", "r"),
    *("1", "-1", "0", "007", "2147483648", "-9223372036854775808", "1.50", "-0.0", "9" * 39, "1e3", "1L", "1.", ".5"),
    *("'x'", "''", "'it''s'", "'\\\\'", '"x"', "'a'", "' '", "DATE '2024-01-01'", "timestamp '2024-01-01 1:2:3'"),
    *("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "is null", "IS NOT NULL", "is true", "LIKE 'a%'"),
    *("in (1, 2)", "NOT IN ('a', b)", "IN ()", "between 1 and 2", "not BETWEEN a AND 'z'", "in", "between"),
    *("AND", "or", "not", "(", ")", "( (", "))", ",", "+", "-", "--", "/*", ";", "`a`", "\t", "\n", "\x00", "é", "²"),
]
_OPERANDS = ["a", "b.c", "date", "1", "-2.5", "'x'", "DATE '2024-01-01'", "true", "timestamp'2024-01-01'"]
_ENDS = [
    *("= 1", "<> 'x'", ">= a", "< -3.5", "is null", "IS NOT NULL", "in (1, -2)", "not in ('x', a)", "between 1 and 2"),
    *("NOT between 'a' AND b", "<=> true", "== date '2024-01-01'", ""),
]


def _by_the_parser(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as patched:
        patched.setattr(parse, "read_plain", lambda _: None)
        return _outcome(text)


def _outcome(text: str) -> str:
    try:
        return repr(parse_value(text, "filter"))
    except ExpressionError as error:
        return str(error)


def _condition(draw: random.Random, depth: int = 0) -> str:
    if depth < 3 and draw.random() < 0.5:
        word = draw.choice([" AND ", " or "])
        joined = word.join(_condition(draw, depth + 1) for _ in range(draw.randint(2, 3)))
        return f"({joined})" if draw.random() < 0.5 else joined
    return f"{draw.choice(_OPERANDS)} {draw.choice(_ENDS)}"


def test_plain_conditions_are_read_as_the_parser_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)
    texts = [_condition(draw) for _ in range(400)]
    texts += [" ".join(draw.choices(_PIECES, k=draw.randint(1, 6))) for _ in range(3000)]
    taken = 0
    for text in texts:
        if read_plain(text) is not None:
            taken += 1
            assert _outcome(text) == _by_the_parser(text, monkeypatch), text
    assert 200 < taken < len(texts)


def test_words_of_sql_are_no_names_where_the_parser_knows_better(monkeypatch: pytest.MonkeyPatch) -> None:
    words = sorted(word.lower() for word in Spark.Tokenizer.KEYWORDS if word.isidentifier())
    for word in words:
        for text in (f"{word} = 1", f"a IN (1, {word})", f"x.{word} IS NULL OR {word}"):
            if read_plain(text) is not None:
                assert _outcome(text) == _by_the_parser(text, monkeypatch), text


@pytest.mark.parametrize("text", ["id = 1", "day >= DATE '2024-01-03' AND name = 'n1'", "(a > 1.5 OR b IN ('x', 'y'))"])
def test_common_filters_are_plain(text: str) -> None:
    assert read_plain(text) is not None


def test_a_long_list_is_read_in_one_pass() -> None:
    assert read_plain(f"id IN ({', '.join(map(str, range(100_000)))})") is not None


@pytest.mark.parametrize(
    "text", ["(" * 100_000, "(" * 30 + "a = 1" + ")" * 30, "a = 'x" + "y" * 100_000, "1" * 100_000]
)
def test_what_is_too_deep_or_unfinished_is_left_to_the_parser(text: str) -> None:
    assert read_plain(text) is None
