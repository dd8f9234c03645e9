"""Listing directories and deleting files in Spark's tasks: `FileTasks`. Listings pass the JVM as packed bytes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from deltaberg.errors import DeltabergError
from deltaberg.spark.jobs import run_job
from deltaberg.spark.read.planning import planned_tasks
from deltaberg.spark.read.read_tasks import task_groups
from deltaberg.spark.session import SessionFacts
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.listed_files import LISTED_FILES, list_files
from deltaberg.table.removal import FileKind, Removal, delete_files

__all__ = ["SparkFileTasks", "file_tasks"]

#: What a task replies: what it found as an Arrow stream and what it could not list, what became of files, or the error
#: that it met.
_NAMES = ("listed", "passed_over", "removal", "error")
_REPLY = pa.schema([(name, pa.binary()) for name in _NAMES])
_REPLY_SCHEMA = st.StructType([st.StructField(name, st.BinaryType()) for name in _NAMES])
#: How many directories one job lists: the driver holds what it finds.
_FOLDERS = 2048
#: Files that one task deletes: a request of S3 takes a thousand.
_DELETED = 5_000


@dataclass(frozen=True)
class SparkFileTasks:
    """Has Spark's tasks list and delete."""

    facts: SessionFacts

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""
        return self.facts.parallelism

    def list_folders(
        self, store: StoreSpec, root: Location, folders: Sequence[str], passed_over: Callable[[str], object]
    ) -> Iterator[pa.RecordBatch]:
        """Return all files below some directories of a table."""
        for start in range(0, len(folders), _FOLDERS):
            some = folders[start : start + _FOLDERS]
            # Neighbours are often of one size, so each task takes some from everywhere.
            count = min(len(some), 4 * self.parallelism)
            shares = [some[number::count] for number in range(count)]
            replies = self._run(_ListTask(store, root), shares)
            _raise_first(replies)
            for reply in replies:
                for name in json.loads(reply["passed_over"]):
                    passed_over(name)
                yield from pa.ipc.open_stream(bytes(reply["listed"]))

    def delete_files(
        self,
        store: StoreSpec,
        root: Location,
        paths: Sequence[str],
        kind: FileKind,
        reason: str,
        deleted: Callable[[str], object],
    ) -> Removal:
        """Delete files below a table."""
        shares = [list(paths[start : start + _DELETED]) for start in range(0, len(paths), _DELETED)]
        total = Removal([], {}, {})
        replies = self._run(_DeleteTask(store, root, kind, reason), shares)
        for reply in replies:
            if reply["removal"] is None:
                continue
            # Our own workers sent it.
            removal: Removal = pickle.loads(reply["removal"])  # noqa: S301
            total.deleted.extend(removal.deleted)
            total.kept.update(removal.kept)
            total.failed.update(removal.failed)
            for path in removal.deleted:
                deleted(path)
        _raise_first(replies)
        return total

    def _run(self, work: _ListTask | _DeleteTask, shares: Sequence[Sequence[str]]) -> list[Any]:
        packed = tuple(pickle.dumps(share) for share in shares)
        planned = planned_tasks(self.facts, packed, 0, _REPLY_SCHEMA)
        task = _FolderTask(work, planned.carried)
        return run_job(self.facts, planned.tasks.mapInArrow(task, _REPLY_SCHEMA).collect)


def _raise_first(replies: Sequence[Any]) -> None:
    """Raise the error of the first task that met one."""
    for reply in replies:
        if reply["error"] is not None:
            # Our own workers sent it.
            raise pickle.loads(reply["error"])  # noqa: S301


@dataclass(frozen=True)
class _FolderTask:
    """Does some work with the shares of a task inside `mapInArrow`."""

    work: _ListTask | _DeleteTask
    carried: tuple[bytes, ...] | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reply for each share.

        Clients of stores have tried again by themselves what can be tried again, so Spark need not.
        """
        for share in task_groups(batches, self.carried):
            try:
                # Our own driver packed it.
                done = self.work(pickle.loads(share))  # noqa: S301
            except DeltabergError as error:
                done = {"error": pickle.dumps(error)}
            yield pa.RecordBatch.from_pylist([done], schema=_REPLY)


@dataclass(frozen=True)
class _ListTask:
    store: StoreSpec
    root: Location

    def __call__(self, folders: Sequence[str]) -> dict[str, bytes]:
        """Return an Arrow stream of all files below the directories."""
        sink, odd = pa.BufferOutputStream(), list[str]()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, LISTED_FILES, options=options) as writer:
            for folder in folders:
                above = pa.scalar(f"{folder}/")
                for batch in list_files(
                    self.store.open(self.root), self.root.join(folder).path, passed_over=odd.append
                ):
                    paths = pc.binary_join_element_wise(above, batch.column("path"), "")
                    writer.write_batch(batch.set_column(0, LISTED_FILES.field(0), paths))
        return {"listed": sink.getvalue().to_pybytes(), "passed_over": json.dumps(odd).encode()}


@dataclass(frozen=True)
class _DeleteTask:
    store: StoreSpec
    root: Location
    kind: FileKind
    reason: str

    def __call__(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Delete files, and return what became of them."""
        removal = delete_files(self.store.open(self.root), self.root.path, paths, self.kind, self.reason)
        return {"removal": pickle.dumps(removal)}


def file_tasks(spark: SparkSession) -> SparkFileTasks:
    """Return what has the tasks of a session list and delete files."""
    return SparkFileTasks(SessionFacts.of(spark))
