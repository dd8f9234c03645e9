"""What the page says other libraries read, they read, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltaberg.delta.features import READ_ELSEWHERE
from tests.interop.read_elsewhere import PAGE, page


@pytest.mark.one_backend
def test_the_page_is_true(tmp_path: Path) -> None:
    made = page(tmp_path)
    assert PAGE.read_text("utf-8") == made, "run python -m tests.interop.read_elsewhere --write"


@pytest.mark.one_backend
@pytest.mark.parametrize(("feature", "row"), [("columnMapping", "column mapping"), ("typeWidening", "type widening")])
def test_hints_say_what_a_feature_costs(feature: str, row: str) -> None:
    """The libraries that do not read it, and no others, and whether one of them gives wrong rows."""
    lines = PAGE.read_text("utf-8").splitlines()
    names = next(line for line in lines if line.startswith("| feature | deltalake")).split("|")[2:-1]
    said = next(line for line in lines if line.startswith(f"| {row}")).split("|")[2:-1]
    answers = {(name.split(",")[0].strip(), answer.strip()) for name, answer in zip(names, said, strict=True)}
    hint = READ_ELSEWHERE[feature]
    for library in ("deltalake", "polars"):
        assert (library in hint) == bool(answers & {(library, "no"), (library, "wrong rows")})
    assert ("wrong rows" in hint) == any(answer == "wrong rows" for _, answer in answers)
