"""Missing conformance tables must never look like passing tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.requirements import load_requirements
from tests.support.shared import require_shared, shared_directory

pytestmark = pytest.mark.one_backend


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DELTABERG_SHARED", str(tmp_path / "nowhere"))


@pytest.mark.usefixtures("nowhere")
def test_missing_tables_fail_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="DELTABERG_SHARED"):
        require_shared()


@pytest.mark.usefixtures("nowhere")
def test_missing_tables_skip_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="DELTABERG_SHARED"):
        require_shared()


def test_the_folder_can_be_named_by_its_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "conformance").mkdir()
    monkeypatch.delenv("DELTABERG_SHARED", raising=False)
    monkeypatch.setenv("DELTABERG_CONFORMANCE", str(tmp_path / "conformance"))
    assert shared_directory() == tmp_path


def test_the_requirements_are_read(conformance: Path) -> None:
    rows = load_requirements()
    assert rows["DL-DV-10"].area == "DL-DV"
    assert {row.who for row in rows.values()} == {"reader", "writer", "both"}
