"""The table changes, or its store refuses, while rows are written: a clear error, and no files are left behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import (
    AuthenticationError,
    CommitConflictError,
    MetadataChangedError,
    ProtocolChangedError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tests.storage.conftest import Bucket, behind, s3, s3_endpoint, s3_gateway, s3_proxy
from tests.support.delta_builder import DeltaBuilder
from tests.support.faulty_proxy import Fault, FaultyProxy, Seen
from tests.support.rows import ID, ids, ids_of

__all__ = ["behind", "s3", "s3_endpoint", "s3_gateway", "s3_proxy"]

pytestmark = pytest.mark.one_backend


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table of one row."""
    create_table(tmp_path / "t", ID).append(ids(1))
    return tmp_path / "t"


def _meanwhile(change: Callable[[], object]) -> pa.RecordBatchReader:
    """Return rows; after the first batch something else happens."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from ids(2).to_batches()
        change()
        yield from ids(3).to_batches()

    return pa.RecordBatchReader.from_batches(ID, batches())


def _files(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*.parquet")}


def _upgrade(root: Path) -> None:
    DeltaTable(root).alter().set({"delta.enableDeletionVectors": "true"}).commit()


def _demand_the_unknown(root: Path) -> None:
    builder = DeltaBuilder(root)
    builder.commit(builder.features(writer_only=["appendOnly", "fromTheFuture"]), version=2)


def _replace(root: Path) -> None:
    create_table(root, pa.schema([("id", pa.string())]), if_exists="replace")


def _forbid(root: Path) -> None:
    DeltaTable(root).alter().set({"delta.appendOnly": "true"}).commit()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (_upgrade, ProtocolChangedError),
        (_demand_the_unknown, ProtocolChangedError),
        (_replace, MetadataChangedError),
        (_forbid, MetadataChangedError),
    ],
)
@pytest.mark.parametrize("verb", ["append", "overwrite"])
def test_a_table_that_changes_meanwhile(root: Path, change: Any, error: type[Exception], verb: str) -> None:
    table, before = DeltaTable(root), _files(root)
    with pytest.raises(error, match="version 2 was committed meanwhile") as caught:
        getattr(table, verb)(_meanwhile(lambda: change(root)))
    assert isinstance(caught.value, CommitConflictError)
    assert caught.value.context["winner"] == 2
    assert _files(root) == before
    assert DeltaTable(root).version == 2


def test_a_feature_that_came_meanwhile_is_named_at_the_next_try(root: Path) -> None:
    table = DeltaTable(root)
    with pytest.raises(ProtocolChangedError, match="it changed the protocol"):
        table.append(_meanwhile(lambda: _demand_the_unknown(root)))
    with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
        table.refresh().append(ids(2))
    assert ids_of(DeltaTable(root)) == [1]


@pytest.mark.parametrize("verb", ["append", "overwrite"])
def test_a_table_that_is_gone(root: Path, verb: str) -> None:
    """It does not come back as a log that begins in the middle."""
    table = DeltaTable(root)
    with pytest.raises(TableNotFoundError, match="_delta_log is missing or holds no commit"):
        getattr(table, verb)(_meanwhile(lambda: shutil.rmtree(root / "_delta_log")))
    assert not list(root.glob("_delta_log/*.json"))
    assert len(_files(root)) == 1


def test_a_younger_table_in_its_place(root: Path) -> None:
    """Its log ends before the version that was read."""

    def replace() -> None:
        shutil.rmtree(root)
        create_table(root, pa.schema([("name", pa.string())]))

    with pytest.raises(VersionNotFoundError, match="the log ends at version 0: it was replaced"):
        DeltaTable(root).append(_meanwhile(replace))
    found = DeltaTable(root)
    assert (found.version, found.schema.names, found.scan().to_arrow().num_rows) == (0, ["name"], 0)


def _puts_below(part: str) -> Callable[[Seen], bool]:
    return lambda seen: seen.method == "PUT" and part in seen.target


@pytest.mark.parametrize(
    ("part", "error", "text"),
    [
        ("part-", AuthenticationError, "denies access"),
        ("_delta_log/0", AuthenticationError, "denies access"),
    ],
)
def test_puts_that_are_denied(
    root: Path, s3: Bucket, behind: Bucket, s3_proxy: FaultyProxy, part: str, error: type[Exception], text: str
) -> None:
    """Data files, and the log alone."""
    url = s3.upload(root, "t")
    table = DeltaTable(url, storage_options=behind.options)
    table.transaction()
    s3_proxy.faults.append(Fault(_puts_below(part), times=99, forwards=0, answer=403))
    with pytest.raises(error, match=text) as caught:
        table.append(ids(2))
    assert isinstance(caught.value, StorageError)
    assert (table.version, ids_of(DeltaTable(url, storage_options=s3.options))) == (1, [1])
    objects = [meta["path"] for page in s3.store().list(prefix="t") for meta in page]
    assert len([path for path in objects if path.endswith(".parquet")]) == 1
    s3_proxy.faults.clear()
    assert table.append(ids(2)).version == 2
