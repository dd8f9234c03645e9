"""Long chains of AND or OR in values, whose equalities with literals are look-ups in sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from deltaberg.expressions.values.tree import Call, Literal, Value
from deltaberg.schema import DataType

__all__ = ["chain_of", "with_sets"]


def chain_of(call: Call) -> list[Value]:
    """Return the parts of a chain of calls of one operator."""
    parts: list[Value] = []
    waiting: list[Value] = [call]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Call) and found.name == call.name and len(found.arguments) == 2:
            waiting += reversed(found.arguments)
        else:
            parts.append(found)
    return parts


def with_sets(parts: Sequence[Value], operator: str) -> Iterator[Value]:
    """Return parts, in which equalities of one value that follow each other are one IN, or one NOT IN for AND.

    The order stays, since a part decides whether the parts behind it are evaluated.

    Examples
    --------
    >>> from deltaberg.expressions import parse_value
    >>> print(*with_sets(chain_of(parse_value("x + 1 = 5 OR x + 1 = 6 OR y = 7")), "or"), sep=" OR ")
    ((x + 1) IN (5, 6)) OR (y = 7)
    """
    for key, found in groupby(parts, lambda part: _subject(part, operator)):
        run = list(found)
        if key is None or len(run) == 1:
            yield from run
            continue
        member = Call("in", (key[0], *(_equality(part, operator).arguments[1] for part in run)))
        yield member if operator == "or" else Call("not", (member,))


def _equality(part: Value, operator: str) -> Call:
    """Return the equality in a part, which for AND is negated; a call of another function if there is none."""
    inner = part.arguments[0] if operator == "and" and isinstance(part, Call) and part.name == "not" else part
    is_plain = operator == "or" or inner is not part
    return inner if is_plain and isinstance(inner, Call) else Call("")


def _subject(part: Value, operator: str) -> tuple[Value, DataType] | None:
    """Return what a part compares with a literal, and the type of the literal; None for other parts."""
    equal = _equality(part, operator)
    if equal.name != "=" or not isinstance(equal.arguments[1], Literal) or equal.arguments[1].value is None:
        return None
    return equal.arguments[0], equal.arguments[1].type
