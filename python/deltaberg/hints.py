"""Texts that name arguments and calls of this library, which each of its faces shows in its own words."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

__all__ = ["Hint", "Mark", "at_fault", "shown_value", "verbatim"]

_MARK, _CLAUSE = re.compile("⟪([^⟪⟫]*)⟫"), re.compile("⟦([^⟦⟧]*)⟧")
#: What stands for the marks, and for itself, in what is no mark: a code point that Unicode keeps for such uses.
_ESCAPED = {"⟪": "\ufdd0[", "⟫": "\ufdd0]", "⟦": "\ufdd0(", "⟧": "\ufdd0)", "\ufdd0": "\ufdd0."}
_OF_DATA, _TO_ESCAPE = re.compile(r"\ufdd0[][().]"), re.compile("[⟪⟫⟦⟧\ufdd0]")
#: The modules of types whose values are brief.
_PLAIN = frozenset({"builtins", "datetime", "decimal", "pathlib", "uuid"})
#: What lists stand in.
_ENDS: dict[type, str] = {list: "[]", tuple: "()", dict: "{}"}
#: How many values of a list are looked at, and how many lists inside one another.
_MOST, _DEEPEST = 200, 4
#: Python writes no number that is longer.
_MOST_BITS = 14_000
_SHOWN = {escaped: character for character, escaped in _ESCAPED.items()}


class Mark(NamedTuple):
    """What a mark says, as data: an argument, an argument with a value, or a call.

    Parameters
    ----------
    name
        The argument or the verb.
    value
        The value of the argument as Python writes it; "" for any value, and None if only the argument is named.
    given
        The arguments of the call, as Python writes them; None if nothing is called. What is left out by … is not there.
    of
        What the verb is called of, such as ``alter()``; "" for a table.
    """

    name: str
    value: str | None = None
    given: tuple[str, ...] | None = None
    of: str = ""

    @classmethod
    def read(cls, text: str) -> Mark:
        """Return what stands between marks. What is neither an argument nor a call is a name as a whole.

        Examples
        --------
        >>> Mark.read('mode="append"')
        Mark(name='mode', value='"append"', given=None, of='')
        >>> Mark.read('alter().rename("a", …).commit()')
        Mark(name='rename', value=None, given=("'a'",), of='alter()')
        """
        import ast

        name, equals, value = text.partition("=")
        if equals and name.isidentifier():
            return cls(name, value)
        # Names of columns in a call can hold anything, quotes too.
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            call = ast.parse(text.replace("…", "").removesuffix(".commit()"), mode="eval").body
            if isinstance(call, ast.Call):
                of, _, verb = ast.unparse(call.func).rpartition(".")
                return cls(verb, None, tuple(map(ast.unparse, call.args)), of)
        return cls(text)


def verbatim(text: str) -> str:
    """Return what a hint holds for a text of others, in which ⟪, ⟫, ⟦ and ⟧ are no marks.

    Examples
    --------
    >>> Hint(f"pass ⟪columns⟫ without {verbatim('⟪id⟫')}").said({"columns": "--columns"}.get)
    'pass --columns without ⟪id⟫'
    """
    return _TO_ESCAPE.sub(lambda found: _ESCAPED[found[0]], text)


class Hint(str):  # noqa: SLOT000 - the text with marks stands beside that without them
    """A text for who calls this library, in which ⟪ and ⟫ stand around its arguments and calls.

    The text itself is that for Python, without the marks. Whoever is not in Python gets it by `in_words`. A clause
    between ⟦ and ⟧ is left out by a face that has no word for a mark in it. What others wrote goes into a hint by
    `verbatim`.

    Examples
    --------
    >>> Hint('append with ⟪schema_mode="merge"⟫⟦, or pass ⟪check=False⟫⟧')
    'append with schema_mode="merge", or pass check=False'
    """

    marked: str

    def __new__(cls, marked: str) -> Hint:  # noqa: PYI034 - nobody derives from it
        """Make a text of one with marks, or of another `Hint`."""
        marked = getattr(marked, "marked", marked)
        plain = _MARK.sub(r"\1", _CLAUSE.sub(r"\1", marked))
        text = super().__new__(cls, _OF_DATA.sub(lambda found: _SHOWN[found[0]], plain))
        text.marked = marked
        return text

    def __reduce__(self) -> tuple[type[Hint], tuple[str]]:
        return Hint, (self.marked,)

    def said(self, word: Callable[[str], str | None], where: str | None = None) -> Hint:
        """Return the text with another word for each mark.

        Parameters
        ----------
        word
            What returns the word for what stands between marks; None if there is none.
        where
            Where that belongs for which there is no word, such as "in Python", which is said behind it. None to keep
            such marks, and all clauses, for another caller.

        Examples
        --------
        >>> Hint("pass ⟪columns⟫ or ⟪threads⟫⟦, or call ⟪count()⟫⟧").said({"columns": "--columns"}.get, "in Python")
        'pass --columns or threads in Python'
        """

        def shown(mark: re.Match[str]) -> str:
            said = word(mark[1])
            return said if said is not None else mark[0] if where is None else f"{mark[1]} {where}"

        def kept(clause: re.Match[str]) -> str:
            return "" if any(word(mark) is None for mark in _MARK.findall(clause[1])) else clause[1]

        return Hint(_MARK.sub(shown, self.marked if where is None else _CLAUSE.sub(kept, self.marked)))


def shown_value(value: object) -> str:
    """Return a value as an error shows it: briefly, and of objects that hold others no more than the type.

    Examples
    --------
    >>> shown_value("fast"), shown_value([1, None]), shown_value([object()])
    ("'fast'", '[1, None]', '[an object of the type object]')
    """
    return f"{_brief(value):.200}"


def _brief(value: Any, depth: int = 0) -> str:
    kind = type(value)
    ends = _ENDS.get(kind)
    if ends is not None:
        inside = ["..."] if depth == _DEEPEST else [_brief(part, depth + 1) for part in islice(value, _MOST)]
        if kind is dict and depth < _DEEPEST:
            inside = [f"{key}: {_brief(part, depth + 1)}" for key, part in zip(inside, value.values(), strict=False)]
        return f"{ends[0]}{', '.join(inside)}{',' if kind is tuple and len(value) == 1 else ''}{ends[1]}"
    if kind is int and value.bit_length() > _MOST_BITS:
        return "a number of thousands of digits"
    if kind is object or kind.__module__ not in _PLAIN:
        return f"an object of the type {kind.__name__}"
    return repr(value).replace("\n", " ")


def at_fault(name: str, fault: str) -> Hint:
    """Return what is wrong with an argument, in whose place each face names what it has.

    Parameters
    ----------
    name
        The argument, or words that name it between marks.
    fault
        What is said of it, with texts of others as they are.

    Examples
    --------
    >>> at_fault("mode", "must not be '⟪all⟫'").said({"mode": "--mode"}.get)
    "--mode must not be '⟪all⟫'"
    """
    return Hint((f"⟪{name}⟫ " if name.isidentifier() else f"{name} ") + verbatim(fault))
