"""Changelogs of Iceberg tables: recorded changes without those of equal rows that cancel each other.

A snapshot that writes files anew records every row of them as deleted, and the rows that stay as inserted again: they
were *carried over*. As in the changelog views of iceberg-spark, such pairs are no changes. On request, changes that
later snapshots undo are left out as well, and a delete and an insert of rows with the same identifier become the two
images of an update.

If a snapshot has both kinds of changes, planning reads its rows to compare them. What remains is said by the positions
of rows, so that a scan of it reads files like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.read.task import constant_column
from deltaberg.hints import Hint
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.scan.changes import DELETE, INSERT, ORDINAL, TYPE, ChangedFiles, ChangesSource
from deltaberg.iceberg.scan.equal_rows import not_carried_over, not_undone, numbers_in_runs
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import arrow_schema, as_array, with_columns
from deltaberg.schema.columns import find_path
from deltaberg.schema.rows.equal_rows import equal_rows
from deltaberg.schema.types import Struct
from deltaberg.table.arguments import checked_flag, checked_texts
from deltaberg.table.change.positions import RowPositions
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.scan_options import scan_options
from deltaberg.table.read.source import FILE_NUMBER

__all__ = ["Changelog", "ChangelogSource", "changes_of"]

_UPDATE_BEFORE, _UPDATE_AFTER = "UPDATE_BEFORE", "UPDATE_AFTER"
_TYPE = constant_column(TYPE.name)
_ORDINAL = constant_column(ORDINAL.name)


@dataclass(frozen=True)
class Changelog:
    """How recorded changes become a changelog.

    Parameters
    ----------
    net
        Whether changes that a later snapshot of the range undoes are left out.
    identifiers
        The names of the columns that identify rows, by which deletes and inserts become updates; without any, they do
        not.
    """

    net: bool = False
    identifiers: tuple[str, ...] = ()


def changes_of(
    source: IcebergSource,
    snapshots: Sequence[Snapshot],
    carry_over: bool,
    net: bool,
    updates: bool | None,
    identifiers: str | Iterable[str] | None,
) -> ChangesSource:
    """Return the changes of some snapshots, as the arguments of ``changes`` ask for them.

    Raises
    ------
    InvalidArgumentError
        They contradict each other, or no column identifies rows.
    ColumnNotFoundError
        The table has no such column.
    """
    if checked_flag("carry_over", carry_over):
        _refuse_options(net, updates, identifiers)
        return ChangesSource(source, snapshots)
    ids = source.metadata.current_schema.identifier_field_ids
    return ChangelogSource(source, snapshots, _chosen_changelog(source.schema, ids, net, updates, identifiers))


def _refuse_options(net: bool, updates: bool | None, identifiers: str | Iterable[str] | None) -> None:
    """Refuse what is asked of a changelog, where rows that were carried over are to be kept."""
    if net or updates or identifiers is not None:
        raise InvalidArgumentError(
            Hint("⟪carry_over⟫ cannot be combined with ⟪net_changes⟫, ⟪compute_updates⟫ or ⟪identifier_columns⟫"),
            hint="leave ⟪carry_over⟫ out",
        )


def _chosen_changelog(
    schema: Struct, ids: Sequence[int], net: bool, updates: bool | None, identifiers: str | Iterable[str] | None
) -> Changelog:
    """Return the changelog that arguments ask for.

    Parameters
    ----------
    schema, ids
        The columns of the table, and the ids of its identifier fields.
    net, updates, identifiers
        The arguments ``net_changes``, ``compute_updates`` and ``identifier_columns``.

    Raises
    ------
    InvalidArgumentError
        If they contradict each other, or no column identifies rows.
    ColumnNotFoundError
        If the table has no such column.
    """
    for name, value in (("net_changes", net), ("compute_updates", updates)):
        if value is not None:
            checked_flag(name, value)
    if updates is False or (updates is None and identifiers is None):
        return Changelog(net)
    if net:
        asked = "⟪compute_updates⟫" if updates else "⟪identifier_columns⟫, which ask for the images of updates"
        raise InvalidArgumentError(Hint(f"⟪net_changes⟫ cannot be combined with {asked}"), hint="leave one of them out")
    known = {child.id: child.name for child in schema}
    if identifiers is None:
        named = [known.get(number, "") for number in ids]
    else:
        named = checked_texts("identifier_columns", identifiers, "names of columns", "pass a list of names")
    if not named or "" in named:
        raise InvalidArgumentError("the table has no identifier fields", hint="pass ⟪identifier_columns⟫")
    return Changelog(identifiers=tuple(find_path(schema, (name,))[-1].name for name in named))


class ChangelogSource(ChangesSource):
    """The changes of some snapshots without rows that were carried over.

    Parameters
    ----------
    source, snapshots
        As for `ChangesSource`.
    changelog
        Which further changes are left out or combined.
    """

    def __init__(self, source: IcebergSource, snapshots: Sequence[Snapshot], changelog: Changelog) -> None:
        super().__init__(source, snapshots)
        self._changelog = changelog

    @cached_property
    def _planned(self) -> ChangedFiles:
        recorded = ChangesSource(self._source, self._snapshots)
        bound = BoundScan(recorded, TRUE, recorded.schema, None, scan_options(None, {}, "UTC")).with_addresses()
        files = bound.plan.files
        is_insert = pc.equal(as_array(files.column(_TYPE)), INSERT)
        apart = pa.repeat(True, len(files))
        parts: list[pa.Table] = []
        for mask in self._groups(as_array(files.column(_ORDINAL))):
            if _has(pc.and_(mask, is_insert)) and _has(pc.and_not(mask, is_insert)):
                apart = pc.and_not(apart, mask)
                parts += self._compared(bound.of_files(mask))
        whole = pa.concat_tables([files.filter(apart).select(self.file_columns), *parts])
        whole = whole.take(pc.sort_indices(whole, [(_ORDINAL, "ascending"), (FILE_NUMBER, "ascending")]))
        return ChangedFiles.of(whole, recorded.layout.keys)

    def _groups(self, ordinals: pa.Int32Array) -> Iterator[pa.BooleanArray]:
        """Return masks of the files whose rows are compared with each other."""
        if self._changelog.net:
            yield pa.repeat(True, len(ordinals))
            return
        for ordinal in ordinals.unique():
            yield pc.equal(ordinals, ordinal)

    def _compared(self, bound: BoundScan) -> Iterator[pa.Table]:
        """Return files, once for each kind of change that remains of them, with the rows that it concerns."""
        rows = self._rows(bound)
        rows = rows.filter((not_undone if self._changelog.net else not_carried_over)(rows))
        is_insert = as_array(rows.column("is_insert"))
        kinds = pc.if_else(is_insert, INSERT, DELETE)
        if self._changelog.identifiers:
            images = pc.if_else(is_insert, _UPDATE_AFTER, _UPDATE_BEFORE)
            kinds = pc.if_else(self._is_update(rows), images, kinds)
        files = bound.plan.files.select(self.file_columns)
        for kind in kinds.unique().to_pylist():
            mine = rows.filter(pc.equal(kinds, kind))
            found = RowPositions()
            found.add(as_array(mine.column("number")), as_array(mine.column("position")))
            chosen = pc.is_in(files.column(FILE_NUMBER), value_set=pa.array(found.numbers, pa.int64()))
            yield _with_rows(files.filter(chosen), found, kind)

    def _rows(self, bound: BoundScan) -> pa.Table:
        """Read rows: their addresses, the change, and numbers that are the same for equal rows and identifiers."""
        batches = list(bound.batches())
        address = bound.address
        if address is None:
            raise AssertionError("rows are compared by a scan with addresses")
        whole = pa.Table.from_batches(batches, arrow_schema(bound.output))
        row = equal_rows(whole.select(self._source.schema.names))
        named = self._changelog.identifiers
        return pa.table(
            {
                "row": row,
                "identifier": equal_rows(whole.select(named)) if named else row,
                "number": whole.column(address.file_number.name),
                "position": whole.column(address.position.name),
                "ordinal": whole.column(ORDINAL.name),
                "is_insert": pc.equal(whole.column(TYPE.name), INSERT),
            }
        )

    def _is_update(self, rows: pa.Table) -> pa.BooleanArray:
        """Return a mask of the rows of one snapshot that a change of the row with the same identifier stands beside."""
        is_insert = as_array(rows.column("is_insert"))
        identifier = as_array(rows.column("identifier"))
        both = [identifier.filter(is_insert), identifier.filter(pc.invert(is_insert))]
        updated = pc.and_(*(pc.is_in(identifier, value_set=found) for found in both))
        again = pc.greater(numbers_in_runs(rows, "identifier"), 0)
        if _has(pc.and_(updated, again)):
            raise InvalidArgumentError(
                f"one snapshot changed several rows with the same {', '.join(self._changelog.identifiers)}",
                hint="updates need columns that identify rows; leave out ⟪compute_updates⟫ and ⟪identifier_columns⟫",
                table=self.table,
            )
        return updated


def _has(mask: pa.BooleanArray) -> bool:
    return bool(pc.any(mask, min_count=0).as_py())


def _with_rows(files: pa.Table, rows: RowPositions, kind: str) -> pa.Table:
    """Return files of which only some rows count, as changes of a kind."""
    found = rows.references(files.column(FILE_NUMBER).to_pylist())
    return with_columns(files, **{"only_in_vector": found, "only_in_delete_files": None, _TYPE: kind})
