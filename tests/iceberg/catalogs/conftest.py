"""What the tests of catalogs share: an environment without configuration, and tables that pyiceberg writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.iceberg.catalogs.written import peer_sql


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide the configuration of whoever runs the tests, and give the directory that stands for their home."""
    import os

    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.chdir(home)
    for name in list(os.environ):
        if name.lower().startswith("pyiceberg"):
            monkeypatch.delenv(name)
    return home


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """The address of a database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'catalog.db'}"


@pytest.fixture
def peer(sqlite: str, tmp_path: Path) -> Iterator[Any]:
    """pyiceberg's SQL catalog in that database, under the name ``shop``."""
    catalog = peer_sql("shop", sqlite, tmp_path / "warehouse")
    yield catalog
    catalog.engine.dispose()
