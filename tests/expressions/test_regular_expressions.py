"""Java's regular expressions: what each construct matches, and every one that RE2 reads otherwise is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.bind.bind import bind_value
from deltaberg.expressions.tree.double_quotes import quoted
from deltaberg.schema.types import Field, Primitive, Struct

pytestmark = pytest.mark.one_backend

_COLUMNS = Struct((Field("t", Primitive("string")),))
_SPACES = " \t\n\x0b\f\r"
#: What Unicode calls spaces, digits and letters, and Java does not unless it is asked to.
_OTHERS = "\x1c\x85\xa0\u2028٣é"


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("^a.b$", ["a-b", "a-b\n", "a-b\r", "a-b\r\n", "a-b\x85", "a-b\u2028"], ["a\nb", "a\x85b", "a-b\n\n", "a-bc"]),
        (r"^.\s.", [f"a{space}b" for space in _SPACES], [f"a{other}b" for other in _OTHERS]),
        (r"^.\S.", [f"a{other}b" for other in f"{_OTHERS}x"], [f"a{space}b" for space in _SPACES]),
        (r"^\d[\d_]", ["0_", "99"], ["٣0", "0a", "_0"]),
        (r"^\D", [*_OTHERS, "a"], ["0", "9"]),
        (r"^\w\W", ["a-", "Z ", "_é", "0."], ["é-", "ab", "--"]),
        (r"^[^\s\w]", ["-", "é", "\xa0"], ["_", "a", "0", *_SPACES]),
        ("^[a-c+.*]", ["a", "c", "+", ".", "*"], ["d", "-", "A"]),
        (r"^\t\n\r\f", ["\t\n\r\f"], ["tnrf", "\t\n\r"]),
        (r"^\.\\\+\[\]", [".\\+[]"], ["a\\+[]", ".+[]"]),
        ("^a{2}b{1,2}c{2,}", ["aabcc", "aabbccc"], ["abcc", "aabc", "aabbbcc"]),
        ("^a+?b*?c??d", ["ad", "aabbcd"], ["bd", "aabccd"]),
        ("^(?:(ab)+c|(x|y)z)", ["ababc", "xz", "yz"], ["c", "z", "xyz"]),
        ("a{999}", ["a" * 999], ["a" * 998]),
    ],
)
def test_what_a_construct_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    texts = pa.record_batch({"t": [*matching, *others]})
    found = bind_value(f"t RLIKE {quoted(pattern)}", _COLUMNS).evaluate(texts).to_pylist()
    assert dict(zip(texts["t"].to_pylist(), found, strict=True)) == {
        **dict.fromkeys(matching, True),
        **dict.fromkeys(others, False),
    }


@pytest.mark.parametrize(
    ("what", "patterns"),
    [
        (r"\$ before the end", ["a$b", "a$$", "(a$)", "a|b$", "a$\n"]),
        (r"\^ behind the start", ["a^", "(^a)", "^^a"]),
        ("a group with a question mark", ["(?i)a", "(?=a)", "(?<!a)b", "(?<n>a)", "(?>a)"]),
        ("repetition of nothing", ["*a", "+", "?a", "{2}"]),
        ("this repetition", ["a{", "a{x}", "a{,2}", "a{ 1}", "a{1", "a{-1}"]),
        ("a repetition of more than 999 times", ["a{1000}", "a{1,1000}", "a{1000,}", "a{99999}"]),
        ("possessive repetition", ["a*+", "a++", "a?+", "a{2}+", "a**", "a+{2}", "a{2}{2}"]),
        ("repeated repetition", ["a*??", "a+?*", "a??+", "a{2}?{2}"]),
        (r"\\b", [r"\b"]),
        (r"\\1", [r"(a)\1"]),
        (r"\\p", [r"\p{L}", r"[\p{L}]"]),
        (r"\\S", [r"[\S]"]),
        (r"\\é", [r"\é"]),
        (r"\\ in", ["a\\"]),
        ("this class of characters", ["[", "[a", "[[a]]", "[a&&b]", "[a-]", "[-a]", "[a^]", "[]a]", "[a-\\d]"]),
    ],
)
def test_what_means_something_else_to_re2_is_refused(what: str, patterns: list[str]) -> None:
    for pattern in patterns:
        with pytest.raises(UnsupportedExpressionError, match=f"^{what}.* cannot be evaluated"):
            bind_value(f"t RLIKE {quoted(pattern)}", _COLUMNS)


@pytest.mark.parametrize("pattern", ["(a", "a)", "(*a)", "a|*", "[b-a]", "[^]", "[^]a]"])
def test_what_re2_does_not_take_is_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedExpressionError, match=r"the regular expression .* cannot be evaluated: "):
        bind_value(f"t RLIKE {quoted(pattern)}", _COLUMNS)
