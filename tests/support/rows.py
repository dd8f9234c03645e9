"""The simplest rows that show what a table holds, a column of numbers, and the simplest tables of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from tests.support.delta_builder import DeltaBuilder

__all__ = [
    "CHECKPOINT_KINDS",
    "ID",
    "every_checkpoint",
    "ids",
    "ids_of",
    "live_files",
    "numbered_commits",
    "tombstones",
]

#: The schema of the rows.
ID = pa.schema([("id", pa.int64())])
#: The forms of a checkpoint, as options of `DeltaBuilder.checkpoint`.
CHECKPOINT_KINDS: list[dict[str, Any]] = [
    {"kind": "classic"},
    {"kind": "classic", "sidecars": 2},
    {"kind": "multipart", "parts": 3},
    {"kind": "uuid-parquet"},
    {"kind": "uuid-parquet", "sidecars": 2},
    {"kind": "uuid-json"},
    {"kind": "uuid-json", "sidecars": 2},
]
#: Runs a test with each of them as its argument ``kind``.
every_checkpoint = pytest.mark.parametrize(
    "kind",
    CHECKPOINT_KINDS,
    ids=[kind["kind"] + ("-sidecars" if "sidecars" in kind else "") for kind in CHECKPOINT_KINDS],
)


def numbered_commits(builder: DeltaBuilder, last: int, *checkpoints: int) -> None:
    """Build a table whose version ``n`` has the rows 0 to n, each in its own file."""
    builder.create(ID, builder.add(ids(0)), protocol=builder.features("v2Checkpoint", "deletionVectors"))
    for version in range(1, last + 1):
        builder.commit(builder.add(ids(version)))
        if version in checkpoints:
            builder.checkpoint()


def ids(*values: int) -> pa.Table:
    """Return rows with these ids."""
    return pa.table({"id": pa.array(values, pa.int64())})


def ids_of(table: Any, **scan: Any) -> list[int]:
    """Return the ids that a scan of a table finds, sorted."""
    found: list[int] = sorted(table.scan(**scan).to_arrow().column("id").to_pylist())
    return found


def live_files(table: Any) -> list[tuple[str, int]]:
    """Return the live files of a table by name, with how many of their rows are deleted."""
    files = table.scan().files()
    names = [str(path).rsplit("/", 1)[-1] for path in files["file_path"].to_pylist()]
    return sorted(zip(names, files["deleted_record_count"].to_pylist(), strict=True))


def tombstones(table: Any) -> list[tuple[str, str | None]]:
    """Return the tombstones of a table as (path, place of the deletion vector)."""
    found = table.tombstones
    vectors: Iterable[Any] = found["deletionVector"].to_pylist()
    places = [None if vector is None else vector["pathOrInlineDv"] for vector in vectors]
    return sorted(zip(found["path"].to_pylist(), places, strict=True), key=repr)
