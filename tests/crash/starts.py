"""The tables that the operations of the harness start from, built byte by byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.delta_builder import DeltaBuilder

__all__ = ["COLUMNS", "PART_COLUMNS", "STARTS"]

COLUMNS = pa.schema([("id", pa.int64()), ("value", pa.int64())])
PART_COLUMNS = COLUMNS.append(pa.field("part", pa.string()))


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "value": [10 * one for one in ids]}, COLUMNS)


def _plain(root: Path, configuration: Mapping[str, str] | None = None, *features: str) -> None:
    """Make a table of three versions, a checkpoint and a file that was removed; the ids 1 to 6 are left."""
    builder = DeltaBuilder(root)
    groups = [(0,), (1, 2), (3, 4), (5, 6)]
    adds = [
        builder.add(_rows(*group), stats="full", path=f"old-{number}.parquet") for number, group in enumerate(groups)
    ]
    protocol = builder.features(*features) if features else None
    properties = {"delta.checkpointInterval": "4", **(configuration or {})}
    builder.create(COLUMNS, *adds[:3], protocol=protocol, configuration=properties)
    builder.commit(adds[3])
    builder.checkpoint()
    builder.commit(builder.remove(adds[0]))


def _vectors(root: Path) -> None:
    """Make the same table, which allows deletion vectors."""
    _plain(root, {"delta.enableDeletionVectors": "true"}, "deletionVectors")


def _tracked(root: Path) -> None:
    """Make a table by the product itself with a change data feed, row ids and deletion vectors."""
    import deltaberg

    properties = {
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
        "delta.enableDeletionVectors": "true",
    }
    table = deltaberg.create_table(str(root), COLUMNS, properties=properties)
    table.append(_rows(1, 2, 3))
    table.append(_rows(4, 5, 6))


def _mapped(root: Path) -> None:
    """Make a table by the product itself whose columns are mapped by name."""
    import deltaberg

    table = deltaberg.create_table(str(root), COLUMNS, properties={"delta.columnMapping.mode": "name"})
    table.append(_rows(1, 2))
    table.append(_rows(3, 4, 5, 6))


def _parts(root: Path) -> None:
    """Make a table of the same ids in the partitions ``a`` (odd) and ``b`` (even), two files in each."""
    builder = DeltaBuilder(root)
    adds = [
        builder.add(_rows(*group), stats="full", path=f"part={part}/old-{group[0]}.parquet", partition={"part": part})
        for part, group in (("a", (1, 3)), ("a", (5,)), ("b", (2, 4)), ("b", (6,)))
    ]
    builder.create(PART_COLUMNS, *adds[:2], partition_by=["part"])
    builder.commit(*adds[2:])


def _folder(root: Path) -> None:
    """Make a directory of Parquet files of the same ids, partitioned as Hive does, that is no table."""
    for part, ids in (("a", (1, 3, 5)), ("b", (2, 4, 6))):
        directory = root / f"part={part}"
        directory.mkdir(parents=True)
        pq.write_table(_rows(*ids), directory / "old-1.parquet")


def _nothing(root: Path) -> None:
    """Leave the folder empty."""
    root.mkdir(parents=True)


#: What makes each start in a folder, by its name.
STARTS: dict[str, Callable[[Path], None]] = {
    "plain": _plain,
    "vectors": _vectors,
    "tracked": _tracked,
    "mapped": _mapped,
    "parts": _parts,
    "folder": _folder,
    "nothing": _nothing,
}
