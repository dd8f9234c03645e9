"""How notebooks show tables and scans."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["as_html"]


def as_html(facts: Iterable[str], columns: Iterable[tuple[str, str]]) -> str:
    """Return facts on one line, and columns with their types below it.

    Examples
    --------
    >>> as_html(["Delta table /t", "version 3"], [])
    '<p>Delta table /t, version 3</p><table><tr><th>column</th><th>type</th></tr></table>'
    """
    rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(kind)}</td></tr>" for name, kind in columns)
    return f"<p>{escape(', '.join(facts))}</p><table><tr><th>column</th><th>type</th></tr>{rows}</table>"
