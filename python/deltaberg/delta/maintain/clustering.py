"""Liquid clustering: which files of a clustered table are put along Hilbert's curve, and how they are marked.

Delta protocol, "Clustered Table". Files that were clustered together are a *cube*. Cubes grow with each run until they
are large enough, and stay as they are from then on. Their marks are those of delta-spark, so that either goes on with
what the other has clustered.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltaberg.delta.schema.column_mapping import clustering_names
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint, verbatim
from deltaberg.table.maintain.compact import Compaction
from deltaberg.table.maintain.packing import PackedFile, Packing, size_of
from deltaberg.table.maintain.row_order import RowOrder

__all__ = ["Clustering"]

#: The name by which delta-spark knows its implementation, and so ours.
_PROVIDER = "liquid"
_CUBE, _COLUMNS = "ZCUBE_ID", "ZCUBE_ZORDER_BY"
#: A cube of at least so many bytes stays as it is, and one is filled up to so many.
_LEAST_CUBE = 100 << 30
_MOST_CUBE = 150 << 30
#: A cube that grows gradually is written anew for files that have at least so large a share of its bytes together.
_WORTHWHILE = 0.5


@dataclass(frozen=True)
class Clustering:
    """How a table is clustered.

    Parameters
    ----------
    columns
        The names of the columns.
    is_full
        Whether files are clustered anew that were clustered by other columns.
    is_gradual
        Whether a cube stays that new files would add little to.
    """

    columns: tuple[str, ...]
    is_full: bool
    is_gradual: bool = False

    @classmethod
    def of(cls, snapshot: Snapshot, compaction: Compaction) -> Clustering | None:
        """Return how a compaction clusters a table; None if it does not.

        Raises
        ------
        InvalidArgumentError
            Another order is asked for as well, or clustering is, of a table that is not clustered.
        """
        columns = tuple(clustering_names(snapshot.schema, snapshot.domains))
        if compaction.cluster is False or not columns:
            if compaction.cluster:
                raise InvalidArgumentError(
                    "the table has no clustering columns",
                    hint="name some by ⟪alter().cluster_by()⟫, or leave out ⟪cluster⟫",
                )
            return None
        named = verbatim(", ".join(columns))
        if compaction.order is not None:
            raise InvalidArgumentError(
                Hint(f"the table is clustered by {named}, and {compaction.order.argument} orders it otherwise"),
                hint="leave it out to cluster the table, or pass ⟪cluster=False⟫",
            )
        return cls(columns, compaction.cluster == "full", compaction.is_gradual)

    @property
    def order(self) -> RowOrder:
        """The order of the rows of a cube."""
        return RowOrder("hilbert", self.columns)

    def choose(self, files: pa.Table, packed: Sequence[PackedFile], packing: Packing) -> list[PackedFile]:
        """Return the files that are clustered; those of one new cube have one partition.

        Files of other implementations stay, and so do large cubes, and files that were clustered by other columns
        unless all are asked for. If nothing is left but one cube, it has nothing to gain.
        A gradual choice also leaves the cubes that are large beside what would join them.

        Parameters
        ----------
        files
            The live files that ``packed`` numbers.
        packing
            All files that may be clustered are written anew if it takes all; else in any case those with too large a
            share of deleted rows.
        """
        tags = [dict(one or ()) for one in files.column("tags").to_pylist()]
        providers = files.column("clusteringProvider").to_pylist()
        chosen: list[PackedFile] = []
        cubes: dict[str, list[PackedFile]] = {}
        for file in packed:
            if providers[file.row] not in (None, _PROVIDER):
                continue
            cube = tags[file.row].get(_CUBE)
            is_marked = providers[file.row] is not None and cube is not None
            if not is_marked or packing.takes_all or file.deleted > packing.max_deleted:
                chosen.append(file)
            elif _columns_of(tags[file.row]) == self.columns:
                cubes.setdefault(str(cube), []).append(file)
            elif self.is_full:
                chosen.append(file)
        small = [one for one in cubes.values() if size_of(one) < _LEAST_CUBE]
        if self.is_gradual:
            small = _growing(small, size_of(chosen))
        if len(small) < 2 and not chosen:
            return []
        taken = {file.row for file in (*chosen, *(file for one in small for file in one))}
        size, filled = 0, []
        for file in packed:
            if file.row in taken:
                filled.append(file._replace(partition=size // _MOST_CUBE))
                size += file.size
        return filled

    def marks(self) -> Mapping[str, Any]:
        """Return the members of the ``add`` actions of the files of a new cube."""
        tags = {_CUBE: str(uuid.uuid4()), _COLUMNS: _text(self.columns)}
        return {"tags": tags, "clusteringProvider": _PROVIDER}

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the operation in the history, in the words of delta-spark."""
        return {"clusterBy": _text(self.columns), "isFull": json.dumps(self.is_full)}


def _growing(cubes: Sequence[list[PackedFile]], size: int) -> list[list[PackedFile]]:
    """Return the cubes that are clustered anew with so many bytes of other files: the smallest ones.

    Each cube that stays is more than twice as large as what is smaller. So there are few of them, and a row moves again
    only when its cube grows by half.
    """
    ordered = sorted(cubes, key=size_of)
    kept = 0
    for number, cube in enumerate(ordered, 1):
        own = size_of(cube)
        if size >= _WORTHWHILE * own:
            kept = number
        size += own
    return ordered[:kept]


def _text(columns: Sequence[str]) -> str:
    return json.dumps(list(columns), ensure_ascii=False, separators=(",", ":"))


def _columns_of(tags: Mapping[str, str | None]) -> tuple[str, ...] | None:
    """Return the columns that a file was clustered by; None if its tags do not tell."""
    try:
        found = json.loads(tags.get(_COLUMNS) or "")
    except (ValueError, RecursionError):
        return None
    return tuple(found) if isinstance(found, list) and all(isinstance(one, str) for one in found) else None
