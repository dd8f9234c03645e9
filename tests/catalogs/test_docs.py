"""The examples of docs/catalogs.md do what the page says. The one about several tables is in another file."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltaberg.catalogs.config import catalog_properties
from tests.catalogs.written import ids, peer_sql, write_orders
from tests.support.pages import blocks, run_blocks

pytestmark = pytest.mark.one_backend


def test_the_examples_run(no_configuration: Path, tmp_path: Path) -> None:
    """They run one after another where a catalog lies; the last is of a table that was moved."""
    peer = peer_sql("shop", "sqlite:///catalog.db", tmp_path / "warehouse")
    write_orders(peer)
    peer.engine.dispose()
    names = run_blocks("docs/catalogs.md", heading="# Catalogs")
    assert ids(names["table"]) == [1, 2, 3, 4, 5]
    dropped = run_blocks("docs/catalogs.md", names, heading="## Dropping a table with its files")
    assert dropped["result"].deleted_files == 1
    assert [level[0] for level in names["catalog"].list_namespaces()] == ["sales"]
    (tmp_path / "warehouse").rename(tmp_path / "copy")
    places = {"s3://old-bucket": tmp_path, "/mnt": tmp_path}
    run_blocks("docs/catalogs.md", names, heading="## Moved tables", places=places)
    assert ids(names["moved"]) == [1, 2, 3, 4, 5]


def test_the_configuration_is_read(no_configuration: Path) -> None:
    (block,) = blocks("docs/catalogs.md", "yaml")
    (no_configuration / ".pyiceberg.yaml").write_text(block.text)
    name, properties = catalog_properties(None, {})
    assert name == "lake"
    assert properties["s3.region"] == "eu-west-1"
    assert len(properties) == 4
