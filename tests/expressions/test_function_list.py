"""docs/expressions.md lists exactly the functions that there are. Run as a module, this file prints the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltaberg.expressions.functions.function_table import SECTIONS

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "expressions.md"


def _tables() -> dict[str, str]:
    tables = {}
    for title, functions in SECTIONS.items():
        by_text: dict[tuple[str, str], list[str]] = {}
        for function in functions.values():
            by_text.setdefault((function.arguments, function.summary), []).append(function.name)
        rows = [
            f"| {', '.join(f'`{name}`' for name in names)} | {arguments} | {summary} |".replace("`|`", "`\\|`").replace(
                "`||`", "`\\|\\|`"
            )
            for (arguments, summary), names in by_text.items()
        ]
        tables[title] = "\n".join(["| name | arguments | result |", "|---|---|---|", *rows])
    return tables


@pytest.mark.one_backend
@pytest.mark.parametrize("title", list(SECTIONS))
def test_the_page_lists_the_functions(title: str) -> None:
    section = _PAGE.read_text("utf-8").partition(f"\n### {title}\n")[2].partition("\n##")[0]
    assert section.strip() == _tables()[title]


if __name__ == "__main__":
    for name, table in _tables().items():
        print(f"### {name}\n\n{table}\n")
