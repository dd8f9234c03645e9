"""The rows of REQUIREMENTS.md: what must hold, who must see to it, and how a test proves it."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from tests.support.shared import shared_directory

__all__ = ["Requirement", "load_requirements", "read_requirements"]

_ROW = re.compile(r"\| ((?:DL|ICE)-[A-Z]+-\d+|BEY-\d+) \| (.*) \| (reader|writer|both) \| (.*) \|$")


class Requirement(NamedTuple):
    """A row; ``who`` is "reader", "writer" or "both"."""

    id: str
    text: str
    who: str
    proof: str

    @property
    def area(self) -> str:
        """The area, as ``DL-DV``."""
        return self.id.rpartition("-")[0]

    @property
    def halves(self) -> tuple[str, ...]:
        """Who must obey the row: each is proven by tests of its own."""
        return ("reader", "writer") if self.who == "both" else (self.who,)


def read_requirements(text: str) -> dict[str, Requirement]:
    """Return the rows of a document by id."""
    rows = (_ROW.fullmatch(line.strip()) for line in text.splitlines())
    return {row[1]: Requirement(*row.groups()) for row in rows if row is not None}


@cache
def load_requirements() -> dict[str, Requirement]:
    """Return the rows by id; an empty dictionary where the document is missing."""
    folder = shared_directory()
    document = None if folder is None else folder / "REQUIREMENTS.md"
    return read_requirements(document.read_text(encoding="utf-8")) if document and document.exists() else {}
