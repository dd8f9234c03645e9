"""Repair of a Delta table: files that the store has lost leave it, by a commit of their own.

A lost data file leaves with its rows. So does a data file whose deletion vector is lost: without the vector its deleted
rows would come back, and nothing else says which ones they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.maintain.live_names import LiveNames
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.delta.transaction.writable import check_changeable, check_writable
from deltaberg.errors import ConstraintViolationError
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import PathResolver
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.maintain.file_tasks import FileTasks
from deltaberg.table.maintain.verifying.findings import DATA_FILE, MISSING, VECTOR, Finding
from deltaberg.table.maintain.verifying.looks import check_still_lost, failure_among, unchecked_warnings
from deltaberg.table.maintain.verifying.presence import Presence, find_files, look_up
from deltaberg.table.maintain.verifying.repairs import LostFile, RepairResult, rows_of
from deltaberg.table.rows.progress import Told

__all__ = ["repair_table"]

_ENABLED = "delta.enableChangeDataFeed"
_NOT_IN_FEED = (
    "the rows that are gone cannot be listed in the change feed: a read of the changes of the version without them "
    "fails, because the lost files hold them"
)
_LOST = frozenset({DATA_FILE, VECTOR})


def repair_table(
    snapshot: Snapshot,
    resolver: PathResolver,
    findings: Iterable[Finding] | None,
    begin: Callable[[], Transaction],
    tasks: FileTasks | None = None,
    *,
    dry_run: bool,
) -> RepairResult:
    """Remove the files that the store has lost from a table.

    Parameters
    ----------
    snapshot
        The newest version of the table.
    findings
        What was found missing; None looks for it. Whatever it says, the store decides.
    begin
        What begins a transaction on the same version.
    tasks
        What lists a large table in place of this process.
    dry_run
        Only find what would be removed.

    Raises
    ------
    UnsupportedFeatureError
        The table has writer features that are not supported.
    ConstraintViolationError
        The table is append-only, and a file is lost.
    CommitConflictError
        One of the files is there again, or another commit removed it, or gave it another vector.
    StorageError
        The store fails, so that it is not known whether files are lost. If some certainly are, the others stay.
    """
    with begin() as transaction:
        if transaction.is_done and not dry_run:
            # The progress that would be recorded is recorded already: another run has repaired the table.
            return RepairResult(commit=transaction.commit())
        loss = _Loss(snapshot, resolver, findings, tasks, transaction.tell)
        if dry_run or not loss.files:
            transaction.abort()
            if loss.failure is not None and not dry_run:
                raise loss.failure
            return _lost(loss, is_dry=dry_run)
        with transaction.operation("repair", writes_files=False) as made:
            transaction.remove_files(snapshot.live.table.take(loss.numbers), data_change=True)
            transaction.require(lambda _: loss.check_again())
            made.rows.deleted = rows_of(loss.files)
            made.metrics.update(_metrics(loss.files))
        return _lost(loss, transaction.commit(), is_dry=False)


def _lost(loss: _Loss, commit: CommitResult | None = None, *, is_dry: bool) -> RepairResult:
    return RepairResult(tuple(loss.files), commit, is_dry, tuple(loss.warnings))


class _Loss:
    """The live files that the store has lost, or whose vectors it has lost.

    Parameters
    ----------
    files
        What is known of each.
    numbers
        Their numbers among the live files.
    failure
        Why the store gave no answer about a file; None if it did about all.
    warnings
        What could not be checked, and what readers of the change feed will see.

    Raises
    ------
    UnsupportedFeatureError, ConstraintViolationError
        The table must not be repaired.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        resolver: PathResolver,
        findings: Iterable[Finding] | None,
        tasks: FileTasks | None,
        told: Told,
    ) -> None:
        check_writable(snapshot)
        self._log = snapshot.log
        # Files are taken out by their numbers among these.
        _ = snapshot.live
        names = LiveNames.of(snapshot, resolver)
        sought = [names.data, kernels.PathSet([names.vector_files.drop_null()])]
        answers: dict[str, Presence] = {}
        if findings is None:
            presences = find_files(self._log.store, self._log.root, sought, tasks, told)
            for locations, found in zip(sought, presences, strict=True):
                numbers = pa.array(found.asked, pa.int64())
                answers.update(zip(locations.texts(numbers).to_pylist(), found.asked.values(), strict=True))
        else:
            given = {one.path for one in findings if one.kind == MISSING and one.what in _LOST}
            paths = pa.array(sorted(given), pa.string())
            known = paths.filter(pc.or_(*(locations.contains(paths) for locations in sought))).to_pylist()
            answers.update(zip(known, look_up(self._log.store, self._log.root, known, told), strict=True))
        self._locations = pa.array([location for location, one in answers.items() if one is None], pa.string())
        self.warnings = unchecked_warnings(list(answers.values()))
        self.failure = failure_among(list(answers.values()))
        lost = names.files_at(self._locations)
        has_lost = pc.is_in(names.vector_files, value_set=self._locations, skip_nulls=True)
        self.numbers = pa.array(
            sorted({*lost.to_pylist(), *names.with_vectors.filter(has_lost).to_pylist()}), pa.int64()
        )
        self.files = _described(snapshot, names, self.numbers, pc.is_in(self.numbers, value_set=lost))
        if self.files:
            _check_allowed(snapshot, self.files[0])
            if snapshot.metadata.is_enabled(_ENABLED):
                self.warnings.append(_NOT_IN_FEED)

    def check_again(self) -> None:
        """Ask the store again, immediately before the commit."""
        check_still_lost(self._log.store, self._log.root, self._locations.to_pylist())


def _described(snapshot: Snapshot, names: LiveNames, numbers: pa.Int64Array, data: pa.BooleanArray) -> list[LostFile]:
    files = snapshot.live.table.take(numbers)
    counts = snapshot.live.statistics(numbers, ()).record_count
    deleted = pc.fill_null(pc.struct_field(as_array(files.column("deletionVector")), "cardinality"), 0)
    columns = (
        files.column("path"),
        pa.array(names.locations(numbers), pa.string()),
        names.vector_files.take(pc.index_in(numbers, value_set=names.with_vectors)),
        data,
        pc.fill_null(files.column("size"), 0),
        pc.subtract(counts, deleted),
    )
    return [
        LostFile(path, location if is_lost else vector, DATA_FILE if is_lost else VECTOR, size, rows)
        for path, location, vector, is_lost, size, rows in zip(*(one.to_pylist() for one in columns), strict=True)
    ]


def _check_allowed(snapshot: Snapshot, file: LostFile) -> None:
    try:
        check_changeable(snapshot, file.path)
    except ConstraintViolationError as error:
        error.hint = "put the file back from a copy, or set delta.appendOnly to false until the table is repaired"
        raise


def _metrics(files: Sequence[LostFile]) -> dict[str, int]:
    """Return what the history records, in the words of the reference implementation."""
    rows = rows_of(files)
    counted = {} if rows is None else {"numDeletedRows": rows}
    return {
        "numAddedFiles": 0,
        "numRemovedFiles": len(files),
        "numRemovedBytes": sum(file.size for file in files),
        **counted,
    }
