"""The examples of docs/catalogs.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from deltaberg.iceberg.catalogs.config import catalog_properties
from tests.iceberg.catalogs.written import ids, peer_sql, write_orders

pytestmark = pytest.mark.one_backend

_TEXT = (Path(__file__).resolve().parents[3] / "docs" / "catalogs.md").read_text("utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", _TEXT, re.MULTILINE | re.DOTALL)


def test_the_examples_run(no_configuration: Path, tmp_path: Path) -> None:
    """They run one after another where a catalog lies; the last is of a table that was moved.

    The one about several tables runs in ``test_rest_transactions.py``, on a server.
    """
    peer = peer_sql("shop", "sqlite:///catalog.db", tmp_path / "warehouse")
    write_orders(peer)
    peer.engine.dispose()
    names: dict[str, Any] = {}
    first, writing, _, last = _blocks("python")
    exec(first, names)
    assert ids(names["table"]) == [1, 2, 3, 4, 5]
    exec(writing, names)
    assert [level[0] for level in names["catalog"].list_namespaces()] == ["sales"]
    (tmp_path / "warehouse").rename(tmp_path / "copy")
    moved = last.replace("s3://old-bucket/warehouse", f"{tmp_path}/warehouse").replace("/mnt/copy", f"{tmp_path}/copy")
    assert ids(eval(moved, names)) == [1, 2, 3, 4, 5]


def test_the_configuration_is_read(no_configuration: Path) -> None:
    (text,) = _blocks("yaml")
    (no_configuration / ".pyiceberg.yaml").write_text(text)
    name, properties = catalog_properties(None, {})
    assert name == "lake"
    assert properties["s3.region"] == "eu-west-1"
    assert len(properties) == 4
