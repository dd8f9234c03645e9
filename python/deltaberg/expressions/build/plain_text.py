"""Plain conditions, as most filters are, read without the parser of SQL: to load it takes longer than a small scan.

A plain condition compares names and literals, and joins that by AND and OR. Whatever else a text holds, a comment, an
escape or a function, is left to the parser, and so is every text that is wrong: its messages say where.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from deltaberg.errors import ExpressionError
from deltaberg.expressions.build.literals import number_literal
from deltaberg.expressions.tree.tree import Call, Cast, ColumnValue, Literal, Value
from deltaberg.schema.types import Primitive

__all__ = ["read_plain"]

#: Parentheses inside of each other that are read here; the parser says which are too many.
_DEEPEST = 20
_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
        '(?P<text>[^'"\\\x00-\x1f\ud800-\udfff]*)'(?!')
      | (?P<number>-?[0-9]+(?:\.[0-9]+)?)(?![\w.])
      | (?P<type>date|timestamp)(?=[ ]*')
      | (?P<name>[a-z_][a-z_0-9]*(?:\.[a-z_][a-z_0-9]*){0,3})(?![\w.$"'`])
      | (?P<mark><=>|<=|>=|<>|!=|==|=|<|>|\(|\)|,)
      | (?P<end>\Z)
    )""",
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
_COMPARISONS = {"=": "=", "==": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
_TYPES = {"date": Primitive("date"), "timestamp": Primitive("timestamp")}
_BOOLEANS = {"true": True, "false": False}
#: Words that the parser reads as something else than names, at the beginning of a text or anywhere.
_RESERVED = frozenset(
    re.findall(
        "[a-z_]+",
        """
    all alter analyze and any array as asc at begin between binary both by cache call case cast collate comment
    commit copy create cross current_date current_time current_timestamp current_user declare delete desc describe
    distinct div drop else end escape except execute exists explain extract false fetch filter for from full glob
    grant group having if ilike in inner insert intersect interval into is isnull join kill lateral leading left
    like limit load map merge minus mod nan natural not notnull null offset on optimize or order outer over overlaps
    partitioned_by pivot pragma prepare qualify refresh regexp rename returning revoke right rlike rollback select
    serdeproperties set show some struct substr substring table tablesample then to trailing trim true truncate
    try_cast uncache union unique unknown unpivot update use using vacuum values when where window with xor
        """,
    )
)


class _NotPlainError(Exception):
    """The text is left to the parser."""


def read_plain(text: str) -> Value | None:
    """Return the value of a plain condition, exactly as the parser would read it; None for any other text.

    Examples
    --------
    >>> print(read_plain("id > 3 AND name IN ('a', 'b')"))
    (id > 3 AND name IN ('a', 'b'))
    >>> print(read_plain("upper(name) = 'A'"))
    None
    """
    try:
        return _Reader(text).whole()
    except (_NotPlainError, ExpressionError):
        return None


class _Reader:
    """Reads a text token by token, of which it looks at the next one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._kind = self._token = ""
        self._go_on()

    def whole(self) -> Value:
        """Return the value of the whole text."""
        found = self._any()
        self._expect(self._kind == "end")
        return found

    def _go_on(self) -> str:
        """Return the token, and look at the one after it."""
        before, found = self._token, _TOKEN.match(self._text, self._at)
        if found is None:
            raise _NotPlainError
        self._kind = found.lastgroup or ""
        self._token, self._at = found[self._kind], found.end()
        return before

    def _expect(self, is_plain: bool) -> None:
        if not is_plain:
            raise _NotPlainError

    def _skips(self, token: str) -> bool:
        """Return whether this mark or word comes next, which is then passed."""
        found = self._kind in ("mark", "name") and self._token.lower() == token
        if found:
            self._go_on()
        return found

    def _any(self) -> Value:
        return self._joined("or", lambda: self._joined("and", self._condition))

    def _joined(self, word: str, part: Callable[[], Value]) -> Value:
        parts = [part()]
        while self._skips(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Call(word, tuple(parts))

    def _condition(self) -> Value:
        if self._skips("("):
            self._depth += 1
            self._expect(self._depth <= _DEEPEST)
            found = self._any()
            self._expect(self._skips(")"))
            self._depth -= 1
            return found
        value = self._operand()
        if self._kind == "mark" and self._token in ("<>", "!="):
            self._go_on()
            return Call("not", (Call("=", (value, self._operand())),))
        if self._kind == "mark" and self._token in _COMPARISONS:
            return Call(_COMPARISONS[self._go_on()], (value, self._operand()))
        if self._skips("is"):
            return self._negated(self._skips("not"), self._null(value))
        is_not = self._skips("not")
        if self._skips("between"):
            low = self._operand()
            self._expect(self._skips("and"))
            return self._negated(is_not, Call("and", (Call(">=", (value, low)), Call("<=", (value, self._operand())))))
        if self._skips("in"):
            return self._negated(is_not, Call("in", (value, *self._list())))
        # Conditions are values, too: a column of truth values is one. A literal alone is a rare filter.
        self._expect(not is_not and isinstance(value, ColumnValue))
        return value

    def _null(self, value: Value) -> Value:
        self._expect(self._skips("null"))
        return Call("isnull", (value,))

    def _negated(self, is_not: bool, value: Value) -> Value:
        return Call("not", (value,)) if is_not else value

    def _list(self) -> list[Value]:
        self._expect(self._skips("("))
        found = [self._operand()]
        while self._skips(","):
            found.append(self._operand())
        self._expect(self._skips(")"))
        return found

    def _operand(self) -> Value:
        kind, token = self._kind, self._token
        self._expect(kind in ("text", "number", "name", "type"))
        self._go_on()
        if kind == "text":
            return Literal(token, Primitive("string"))
        if kind == "number":
            return number_literal(token)
        if kind == "type":
            self._expect(self._kind == "text")
            return Cast(Literal(self._go_on(), Primitive("string")), _TYPES[token.lower()])
        if token.lower() in _BOOLEANS:
            return Literal(_BOOLEANS[token.lower()], Primitive("boolean"))
        path = tuple(token.split("."))
        self._expect(not _RESERVED.intersection(part.lower() for part in path))
        return ColumnValue(path)
