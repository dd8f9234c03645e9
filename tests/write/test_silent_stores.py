"""What `verify` and `repair` say where the store does not answer: whatever call fails, nothing is taken for lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import AuthenticationError, StorageError
from deltaberg.storage.local import LocalStorage
from tests.support.rows import ID, ids

pytestmark = pytest.mark.one_backend

_FORMATS = [
    pytest.param("delta", marks=[pytest.mark.req("DL-OPS-11"), pytest.mark.req("DL-OPS-12")]),
    "iceberg",
]
_ERRORS = [AuthenticationError("403: no"), StorageError("503: slow down"), StorageError("timed out")]


@pytest.mark.parametrize("format", _FORMATS)
@pytest.mark.parametrize("error", _ERRORS)
@pytest.mark.parametrize("call", ["head", "walk", "list_from"])
def test_no_answer_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Any, error: StorageError, call: str
) -> None:
    """With and without findings from before; nothing is committed."""
    table: Any = create_table(tmp_path / "t", ID, format=format)
    table.append(ids(1))
    table.append(ids(2))
    lost = min((tmp_path / "t").rglob("*.parquet"))
    lost.unlink()
    findings = table.verify()
    assert [(one.kind, one.what) for one in findings.findings] == [("missing", "data file")]
    before = sorted((tmp_path / "t").rglob("*"))
    original: Callable[..., Any] = getattr(LocalStorage, call)

    def fail(store: LocalStorage, path: str, *rest: Any, **named: Any) -> Any:
        if "_delta_log" in path or "/metadata" in path:
            return original(store, path, *rest, **named)
        raise error

    monkeypatch.setattr(LocalStorage, call, fail)
    opened: Any = open_table(tmp_path / "t")
    if call == "walk":
        for act in (opened.verify, opened.repair):
            with pytest.raises(type(error), match=error.message):
                act()
    else:
        (found,) = opened.verify().findings
        assert (found.kind, found.what, found.found) == ("unchecked", "data file", error.message)
        assert Path(found.path).name == lost.name
        for known in (None, findings):
            with pytest.raises(type(error), match=error.message):
                opened.repair(known)
            result = opened.repair(known, dry_run=True)
            assert (result.files, result.commit) == ((), None)
            assert result.warnings == (f"1 file could not be checked, and stays: {error.message}",)
    assert sorted((tmp_path / "t").rglob("*")) == before
