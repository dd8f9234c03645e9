"""The code blocks of the pages for users, which tests run as they are pasted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "Block", "blocks", "pages", "run_blocks"]

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^ *```(\S*)$")
_HEADING = re.compile(r"#+ ")


@dataclass(frozen=True)
class Block:
    """A block of code of a page: its language, the heading above it, the number of its first line, and its text."""

    page: str
    language: str
    heading: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Return the pages that users read, as paths below the root."""
    return [
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        *(f"docs/{one.name}" for one in sorted((ROOT / "docs").glob("*.md"))),
    ]


def blocks(page: str, language: str | None = None, heading: str | None = None) -> list[Block]:
    """Return the blocks of a page, or those of a language, or those between a heading and the next one."""
    read: list[Block] = []
    lines: list[str] = []
    above, opened = "", None
    for number, line in enumerate((ROOT / page).read_text("utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence:
                opened, lines = (fence[1], number + 1), []
            elif _HEADING.match(line):
                above = line
        elif fence:
            read.append(Block(page, opened[0], above, opened[1], "\n".join(lines) + "\n"))
            opened = None
        else:
            lines.append(line)
    assert opened is None, f"{page}: a block has no end"
    return [one for one in read if language in (None, one.language) and heading in (None, one.heading)]


def run_blocks(
    page: str,
    names: dict[str, Any] | None = None,
    *,
    heading: str | None = None,
    places: Mapping[str, str | Path] | None = None,
) -> dict[str, Any]:
    """Run the Python blocks of a page, or those below one of its headings, one after another.

    No block can be left out: the guard of the pages finds the calls of this function in the sources of the tests, and
    takes what they name as run. Page and heading are therefore literals.

    Parameters
    ----------
    page
        Its path below the root.
    names
        What the blocks find, and what they leave behind. The same names may be passed to the next call.
    heading
        The line of a heading.
    places
        What takes the place of the beginnings of locations, such as ``"s3://bucket"``.

    Returns
    -------
    dict
        The names.
    """
    names = {} if names is None else names
    found = blocks(page, "python", heading)
    assert found, f"{page} has no Python block below {heading}"
    for block in found:
        code = block.text
        for written, place in (places or {}).items():
            code = code.replace(f'"{written}', f'"{place}').replace(f"'{written}", f"'{place}")
        # Lines of tracebacks are those of the page.
        exec(compile("\n" * (block.line - 1) + code, block.page, "exec"), names)
    return names
