"""The rows of REQUIREMENTS.md: what must hold, who must see to it, and how a test proves it."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from tests.support.shared import shared_directory

__all__ = ["Requirement", "load_requirements"]

_ROW = re.compile(r"\| ((?:DL|ICE)-[A-Z]+-\d+|BEY-\d+) \| (.*) \| (reader|writer|both) \| (.*) \|$")


class Requirement(NamedTuple):
    """A row."""

    id: str
    text: str
    who: str
    proof: str

    @property
    def area(self) -> str:
        """The area, as ``DL-DV``."""
        return self.id.rpartition("-")[0]


@cache
def load_requirements() -> dict[str, Requirement]:
    """Give the rows by id; none where the shared folder is missing."""
    folder = shared_directory()
    if folder is None:
        return {}
    lines = (folder / "REQUIREMENTS.md").read_text(encoding="utf-8").splitlines()
    rows = (_ROW.fullmatch(line.strip()) for line in lines)
    return {row[1]: Requirement(*row.groups()) for row in rows if row is not None}
