"""Texts that name arguments and calls of this library, which each of its faces shows in its own words."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["Hint"]

_MARK = re.compile("⟪([^⟪⟫]*)⟫")


class Hint(str):  # noqa: SLOT000 - the text with marks stands beside that without them
    """A text for who calls this library, in which ⟪ and ⟫ stand around its arguments and calls.

    The text itself is that for Python, without the marks. Whoever is not in Python gets it by `in_words`.

    Examples
    --------
    >>> Hint('append with ⟪schema_mode="merge"⟫, or overwrite the table')
    'append with schema_mode="merge", or overwrite the table'
    """

    marked: str

    def __new__(cls, marked: str) -> Hint:  # noqa: PYI034 - nobody derives from it
        """Make a text of one with marks, or of another `Hint`."""
        marked = getattr(marked, "marked", marked)
        text = super().__new__(cls, _MARK.sub(r"\1", marked))
        text.marked = marked
        return text

    def said(self, word: Callable[[str], str | None]) -> Hint:
        """Return the text with another word for each mark; marks for which there is none are kept."""
        return Hint(_MARK.sub(lambda mark: mark[0] if (said := word(mark[1])) is None else said, self.marked))
