"""What the page says other libraries read, they read, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.read_elsewhere import PAGE, page


@pytest.mark.one_backend
def test_the_page_is_true(tmp_path: Path) -> None:
    made = page(tmp_path)
    assert PAGE.read_text("utf-8") == made, "run python -m tests.interop.read_elsewhere --write"
