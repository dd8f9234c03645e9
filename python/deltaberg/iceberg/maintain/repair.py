"""Repair of an Iceberg table: what the store has lost leaves it, and names of what is not there, by one commit.

A lost data file leaves with its rows. So does a data file whose deletion vector is lost: without the vector its deleted
rows would come back, and nothing else says which ones they are. Other delete files may be about many data files, so
that nothing is done about lost ones but to say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import UnsafePathError
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.iceberg.maintain.verify_metadata import METADATA_FILE, NamedFile, dangling_refs, named_files
from deltaberg.iceberg.manifests.fields import POSITION_DELETES
from deltaberg.iceberg.metadata.statistics_files import statistics_files
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.iceberg.updates.updates import (
    RemovePartitionStatistics,
    RemoveSnapshotRef,
    RemoveStatistics,
    Update,
)
from deltaberg.schema.arrow import as_array
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.maintain.file_tasks import FileTasks
from deltaberg.table.maintain.verifying.findings import DANGLING, DATA_FILE, MISSING, VECTOR, Finding, first_paths
from deltaberg.table.maintain.verifying.looks import check_still_lost, failure_among, unchecked_warnings
from deltaberg.table.maintain.verifying.presence import Presence, find_files, look_up
from deltaberg.table.maintain.verifying.repairs import LostFile, RepairResult, rows_of
from deltaberg.table.rows.progress import Told

__all__ = ["repair_table"]


def repair_table(
    findings: Iterable[Finding] | None,
    begin: Callable[[], Transaction],
    tasks: FileTasks | None = None,
    *,
    dry_run: bool,
) -> RepairResult:
    """Remove what the store has lost from a table.

    Parameters
    ----------
    findings
        What was found; None looks for it. Whatever it says, the store decides.
    begin
        What begins a transaction on the newest snapshot of a branch.
    tasks
        What lists a large table in place of this process.
    dry_run
        Only find what would be removed.

    Raises
    ------
    CommitConflictError
        One of the files is there again, or another commit removed it.
    StorageError
        The store fails, so that it is not known whether files are lost. If some certainly are, the others stay.
    """
    listed = None if findings is None else list(findings)
    with begin() as transaction:
        loss = _Loss(transaction.source, listed, tasks, transaction.tell)
        if dry_run or not loss:
            transaction.abort()
            if loss.failure is not None and not dry_run:
                raise loss.failure
            return loss.result(is_dry=dry_run)
        with transaction.operation("repair", writes_files=False) as operation:
            if loss.updates:
                transaction.change_metadata(*loss.updates)
            if loss.files:
                transaction.remove_files([file.path for file in loss.files], transaction.source.data_manifests)
            transaction.require(lambda _: loss.check_again())
            operation.rows.deleted = rows_of(loss.files)
        return loss.result(transaction.commit(), is_dry=False)


class _Loss:
    """The lost files of a snapshot and of its metadata.

    Parameters
    ----------
    files
        The data files that have to go.
    updates
        What takes names of what is not there out of the metadata.
    failure
        Why the store gave no answer about a file; None if it did about all.
    """

    def __init__(
        self, source: IcebergSource, findings: Sequence[Finding] | None, tasks: FileTasks | None, told: Told
    ) -> None:
        self._source = source
        self._told = told
        self._root = source.resolver.root
        files = source.select_files(TRUE).files
        located = source.locate(files)
        vectors = as_array(pc.struct_field(as_array(located.column("deletion_vector")), "location"))
        statistics = {place: file for file in named_files(source.metadata) if (place := self._statistics(file))}
        deletes = self._delete_files()
        sought = [as_array(located.column("location")), vectors.drop_null(), pa.array(list(statistics), pa.string())]
        answers = self._answers([*sought, deletes], findings, tasks)
        self._lost = [location for location, answer in answers.items() if answer is None]
        self.failure = failure_among(list(answers.values()))
        self.warnings = unchecked_warnings(list(answers.values()))
        lost = pa.array(self._lost, pa.string())
        self.files = _described(files, located, vectors, lost)
        self.statistics = tuple(place for place in statistics if answers.get(place, 0) is None)
        wants_names = findings is None or any((one.kind, one.what) == (DANGLING, METADATA_FILE) for one in findings)
        self.refs = tuple(dangling_refs(source.metadata)) if wants_names else ()
        self.updates: list[Update] = [RemoveSnapshotRef(name) for name in self.refs]
        self.updates += self._without_statistics({statistics[place].recorded for place in self.statistics}, wants_names)
        without = deletes.filter(pc.is_in(deletes, value_set=lost)).to_pylist()
        if without:
            count = "1 delete file is" if len(without) == 1 else f"{len(without)} delete files are"
            self.warnings.append(
                f"{count} lost, so that nobody knows which rows are deleted, and no snapshot that needs one can be "
                f"read; put it back from a copy: {first_paths(without)}"
            )
        gone = {file.lost for file in self.files} | set(self.statistics)
        self._lost = [location for location in self._lost if location in gone]

    def __bool__(self) -> bool:
        return bool(self.files or self.updates)

    def _statistics(self, file: NamedFile) -> str | None:
        if "statistics" not in file.what:
            return None
        try:
            return str(self._source.resolver.resolve(file.recorded))
        except UnsafePathError:
            return None

    def _delete_files(self) -> pa.StringArray:
        """Return where delete files are that are no vectors."""
        if not len(self._source.deletes):
            return pa.array([], pa.string())
        table = self._source.deletes.table
        is_vector = pc.and_(pc.equal(table["content"], POSITION_DELETES), pc.equal(table["file_format"], "puffin"))
        recorded = table.filter(pc.invert(is_vector)).column("file_path")
        return as_array(self._source.resolver.locate(recorded, f"{self._source.metadata.location.rstrip('/')}/"))

    def _answers(
        self, sought: Sequence[pa.StringArray], findings: Sequence[Finding] | None, tasks: FileTasks | None
    ) -> dict[str, Presence]:
        """Return what the store says of the files that a listing lacks, or that were found missing."""
        sets = [kernels.PathSet([locations]) for locations in sought]
        if findings is not None:
            given = pa.array(sorted({one.path for one in findings if one.kind == MISSING}), pa.string())
            known = given.filter(reduce(pc.or_, (one.contains(given) for one in sets))).to_pylist()
            return dict(zip(known, look_up(self._source.store, self._root, known, self._told), strict=True))
        answers: dict[str, Presence] = {}
        there = find_files(self._source.store, self._root, sets, tasks, self._told)
        for paths, found in zip(sets, there, strict=True):
            numbers = pa.array(found.asked, pa.int64())
            answers.update(zip(paths.texts(numbers).to_pylist(), found.asked.values(), strict=True))
        return answers

    def _without_statistics(self, lost: set[str], wants_names: bool) -> list[Update]:
        """Return the changes that forget statistics which are lost, or of snapshots that are not there."""
        metadata = self._source.metadata
        kinds = (RemoveStatistics, RemovePartitionStatistics)
        updates: dict[Update, None] = {}
        for kind, files in zip(kinds, statistics_files(metadata).values(), strict=True):
            for one in files:
                number = one.snapshot_id
                dangles = wants_names and number not in metadata.snapshots
                if number is not None and (dangles or one.path in lost):
                    updates[kind(number)] = None
        return list(updates)

    def check_again(self) -> None:
        """Ask the store again, immediately before the commit."""
        check_still_lost(self._source.store, self._root, self._lost)

    def result(self, commit: CommitResult | None = None, *, is_dry: bool) -> RepairResult:
        """Return what is to be told of it."""
        return RepairResult(tuple(self.files), commit, is_dry, tuple(self.warnings), self.refs, self.statistics)


def _described(files: pa.Table, located: pa.Table, vectors: pa.StringArray, lost: pa.StringArray) -> list[LostFile]:
    is_lost = pc.is_in(located.column("location"), value_set=lost)
    has_lost = pc.is_in(vectors, value_set=lost, skip_nulls=True)
    chosen = pc.indices_nonzero(pc.or_(is_lost, has_lost))
    some = files.take(chosen)
    deleted = pc.fill_null(pc.struct_field(as_array(some.column("deletion_vector")), "cardinality"), 0)
    rows = pc.subtract(some.column("record_count"), deleted)
    if "delete_files" in located.column_names:
        # Nobody has counted the rows that these delete.
        with_others = pc.greater(pc.fill_null(pc.list_value_length(located.column("delete_files").take(chosen)), 0), 0)
        rows = pc.if_else(with_others, pa.scalar(None, pa.int64()), rows)
    columns = (
        some.column("path"),
        located.column("location").take(chosen),
        vectors.take(chosen),
        is_lost.take(chosen),
        some.column("size"),
        rows,
    )
    return [
        LostFile(path, location if is_gone else vector, DATA_FILE if is_gone else VECTOR, size, count)
        for path, location, vector, is_gone, size, count in zip(*(one.to_pylist() for one in columns), strict=True)
    ]
