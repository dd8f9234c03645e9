"""The cases of vacuum: of many files, a tenth are ones that the log has removed.

The data files are empty, since nobody reads them, and the log has a checkpoint of the version before the removal. A run
gets a table of its own, of links to files that are made once. It is made before the clock starts.
"""

from __future__ import annotations

import datetime as dt
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from benches.cache import made
from benches.measure import Case, Outcome, Side, names, session, timed, warm
from benches.write_cases import workplace
from tests.support import moto_s3
from tests.support.delta_builder import DeltaBuilder
from tests.support.memory import peak_memory

__all__ = ["VACUUM_CASES", "copied_table", "table_of_files"]

#: The files of a directory, and one of how many goes.
_IN_DIRECTORY, _ONE_OF = 100, 10
_COMMITS = 20

#: Vacuums the table at a place, of which the store may need options; returns the paths, if they are known.
_Vacuum = Callable[[Any, dict[str, str] | None, bool], Any]


def _names(count: int) -> Iterator[tuple[int, str]]:
    """Yield the partition and the path of each file."""
    for number in range(count):
        p, place = divmod(number, _IN_DIRECTORY)
        yield p, f"p={p}/part-{place:05d}-{p:08x}-0000-4000-8000-{place:012x}.c000.snappy.parquet"


def table_of_files(files: int, scale: float) -> Path:
    """Return a table of so many files, a tenth of which its newest version has removed."""
    count = max(int(files * scale), 2 * _IN_DIRECTORY)
    return made(f"vacuumed-{count}", lambda root: _make(root, count))


def _make(root: Path, count: int) -> None:
    import deltalake

    builder = DeltaBuilder(root)
    for p, name in _names(count):
        if name.endswith("-000000000000.c000.snappy.parquet"):
            (root / f"p={p}").mkdir()
        (root / name).touch()
    builder.create(pa.schema([("id", pa.int64()), ("p", pa.int32())]), partition_by=["p"])
    adds, removes = [], []
    for number, (p, name) in enumerate(_names(count)):
        file = {"path": name, "partitionValues": {"p": str(p)}, "size": 1000, "dataChange": True}
        adds.append(json.dumps({"add": {**file, "modificationTime": 0, "stats": '{"numRecords":100}'}}))
        if number % _ONE_OF == 0:
            removes.append(json.dumps({"remove": {**file, "deletionTimestamp": 1, "extendedFileMetadata": True}}))
    step = -(-count // _COMMITS)
    for first in range(0, count, step):
        builder.commit_text("\n".join(adds[first : first + step]))
    deltalake.DeltaTable(root).create_checkpoint()
    builder.commit_text("\n".join(removes))
    # Times of commits are at least a millisecond apart, so that many quick ones would end in the future.
    for entry in builder.log.iterdir():
        os.utime(entry, (0, 0))


@contextmanager
def copied_table(root: Path) -> Iterator[Path]:
    """Make a table of links to the data files of another, and of copies of its log."""
    with workplace() as parent:
        shutil.copytree(root / "_delta_log", parent / "t" / "_delta_log")
        for directory in root.glob("p=*"):
            (parent / "t" / directory.name).mkdir()
            with os.scandir(directory) as entries:
                for entry in entries:
                    os.link(entry.path, parent / "t" / directory.name / entry.name)
        yield parent / "t"


def _ours(place: Any, options: dict[str, str] | None, is_dry: bool) -> Any:
    table = warm()(place, storage_options=options)
    return table.vacuum(0, dry_run=is_dry, enforce_retention_duration=False).files["path"].to_pylist()


def _deltalake(place: Any, options: dict[str, str] | None, is_dry: bool) -> Any:
    import deltalake

    table = deltalake.DeltaTable(place, storage_options=options)
    return table.vacuum(0, dry_run=is_dry, enforce_retention_duration=False, full=True)


def _found(vacuum: _Vacuum, files: int) -> Side:
    """Time the search for what would go."""

    def run(scale: float) -> Outcome:
        root = table_of_files(files, scale)
        if vacuum is _ours:
            warm()
        return timed(partial(vacuum, root, None, True), names)

    return run


def _deleted(vacuum: _Vacuum, files: int) -> Side:
    """Time the search and the deletions."""

    def run(scale: float) -> Outcome:
        with copied_table(table_of_files(files, scale)) as root:
            if vacuum is _ours:
                warm()
            outcome = timed(partial(vacuum, root, None, False), lambda _: None)
            return outcome._replace(found=_left(root))

    return run


def _by_delta_spark(files: int) -> Side:
    def run(scale: float) -> Outcome:
        spark = session(engines=True)
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        with copied_table(table_of_files(files, scale)) as root:
            # Classes are loaded by the vacuum of another table.
            spark.range(10).write.format("delta").save(str(root.parent / "small"))
            vacuum = partial(_vacuumed_by_spark, spark)
            vacuum(root.parent / "small")
            return timed(partial(vacuum, root), lambda _: None)._replace(found=_left(root))

    return run


def _vacuumed_by_spark(spark: Any, place: Path) -> None:
    spark.sql(f"VACUUM delta.`{place}` RETAIN 0 HOURS").collect()


def _left(root: Path) -> list[int]:
    return names(path.name for directory in root.glob("p=*") for path in directory.iterdir())


def _serve(files: int, pipe: Connection) -> None:
    """Serve a bucket with a table in its folder ``t``, until the other side hangs up."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    with moto_s3.running() as endpoint:
        bucket = moto_s3.make_bucket(endpoint)
        store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        root = table_of_files(files, 1)
        contents = {f"_delta_log/{path.name}": path.read_bytes() for path in (root / "_delta_log").iterdir()}
        contents.update((name, b"x") for _, name in _names(files))
        for name, content in contents.items():
            store.put_object(bucket, f"t/{name}", content).last_modified = dt.datetime(1970, 1, 1)
        pipe.send((endpoint, bucket))
        pipe.poll(None)


def _in_bucket(vacuum: _Vacuum, files: int) -> Side:
    """Time the search and the deletions in a bucket. The server has a process of its own, which does not count."""

    def run(scale: float) -> Outcome:
        count = max(int(files * scale), 2 * _IN_DIRECTORY)
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(target=_serve, args=(count, theirs), daemon=True)
        server.start()
        try:
            endpoint, bucket = ours.recv()
            options = {**moto_s3.options(endpoint), "AWS_ALLOW_HTTP": "true"}
            if vacuum is _ours:
                warm()
            outcome = timed(partial(vacuum, f"s3://{bucket}/t", options, False), names)
            return outcome._replace(bytes=peak_memory())
        finally:
            server.kill()
            server.join()

    return run


def _case(what: str, side: Callable[[_Vacuum, int], Side], files: int, **others: Side) -> Case:
    title = f"{what} {files // _ONE_OF:,} of {files:,} files in {files // _IN_DIRECTORY:,} directories"
    sides = {"deltaberg": side(_ours, files), "deltalake": side(_deltalake, files), **others}
    return Case(title, partial(table_of_files, files), sides)


VACUUM_CASES: dict[str, Case] = {
    "vacuum-find": _case("find", _found, 1_000_000),
    "vacuum": _case("delete", _deleted, 1_000_000),
    "vacuum-100000": _case("delete", _deleted, 100_000, **{"delta-spark": _by_delta_spark(100_000)}),
    "vacuum-s3": _case("in a bucket (moto), delete", _in_bucket, 50_000),
}
