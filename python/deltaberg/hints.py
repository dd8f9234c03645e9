"""Texts that name arguments and calls of this library, which each of its faces shows in its own words."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["Hint", "verbatim"]

_MARK = re.compile("⟪([^⟪⟫]*)⟫")
#: What stands for the marks, and for itself, in what is no mark: a code point that Unicode keeps for such uses.
_ESCAPED = {"⟪": "\ufdd0[", "⟫": "\ufdd0]", "\ufdd0": "\ufdd0."}
_OF_DATA, _TO_ESCAPE = re.compile(r"\ufdd0[][.]"), re.compile("[⟪⟫\ufdd0]")
_SHOWN = {escaped: character for character, escaped in _ESCAPED.items()}


def verbatim(text: str) -> str:
    """Return what a hint holds for a text of others, in which ⟪ and ⟫ are no marks.

    Examples
    --------
    >>> Hint(f"pass ⟪columns⟫ without {verbatim('⟪id⟫')}").said({"columns": "--columns"}.get)
    'pass --columns without ⟪id⟫'
    """
    return _TO_ESCAPE.sub(lambda found: _ESCAPED[found[0]], text)


class Hint(str):  # noqa: SLOT000 - the text with marks stands beside that without them
    """A text for who calls this library, in which ⟪ and ⟫ stand around its arguments and calls.

    The text itself is that for Python, without the marks. Whoever is not in Python gets it by `in_words`. What others
    wrote goes into it by `verbatim`.

    Examples
    --------
    >>> Hint('append with ⟪schema_mode="merge"⟫, or overwrite the table')
    'append with schema_mode="merge", or overwrite the table'
    """

    marked: str

    def __new__(cls, marked: str) -> Hint:  # noqa: PYI034 - nobody derives from it
        """Make a text of one with marks, or of another `Hint`."""
        marked = getattr(marked, "marked", marked)
        text = super().__new__(cls, _OF_DATA.sub(lambda found: _SHOWN[found[0]], _MARK.sub(r"\1", marked)))
        text.marked = marked
        return text

    def __reduce__(self) -> tuple[type[Hint], tuple[str]]:
        return Hint, (self.marked,)

    def said(self, word: Callable[[str], str | None]) -> Hint:
        """Return the text with another word for each mark; marks for which there is none are kept."""
        return Hint(_MARK.sub(lambda mark: mark[0] if (said := word(mark[1])) is None else said, self.marked))
