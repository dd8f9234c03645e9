"""The cases of Iceberg's clean-up: half of the snapshots of a table expire, and orphans are found among its files.

Each snapshot adds a manifest of files and keeps the manifests of some before it. The data files are empty, since nobody
reads them. A run works on the table itself, whose paths are absolute; links to its files put it back afterwards.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benches.cache import made
from benches.measure import Case, Outcome, Side, session, timed, warm
from benches.write_cases import workplace
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile

__all__ = ["EXPIRY_CASES"]

#: How many manifests a snapshot has, and one of how many files is an orphan.
_SPAN, _ONE_OF = 10, 100
_SECOND = 1000
_OLD = 946_684_800


def _table(snapshots: int, files: int, scale: float) -> Path:
    each = max(int(files * scale) // snapshots, 2)
    return made(f"expiring-{snapshots}-{each}", lambda root: _make(root, snapshots, each))


def _make(root: Path, snapshots: int, each: int) -> None:
    builder = IcebergBuilder(root / "t", {"id": "long"})
    write, data = builder.write, root / "t" / "data"
    data.mkdir(parents=True, exist_ok=True)
    for number in range(snapshots):
        # The newest metadata alone is needed.
        builder.write = (lambda: root) if number < snapshots - 1 else write  # type: ignore[method-assign]
        folder = data / f"{number:05}"
        folder.mkdir()
        paths = [folder / f"{place:05}-0-00001.parquet" for place in range(each)]
        for path in paths:
            path.touch()
            os.utime(path, (_OLD, _OLD))
        builder.commit(*(IcebergFile(str(path), 100, 1000) for path in paths))
        newest = 1000 + number
        builder._manifests[newest] = builder._manifests[newest][-_SPAN:]  # noqa: SLF001 - others are replaced
    for number in range(max(snapshots * each // _ONE_OF, 1)):
        orphan = data / f"{number % snapshots:05}" / f"orphan-{number}.parquet"
        orphan.touch()
        os.utime(orphan, (_OLD, _OLD))
    shutil.copytree(root / "t", root / "kept", copy_function=_linked)


def _linked(source: str, target: str) -> None:
    """Link a data file, and copy metadata, which others may write in place."""
    if "/metadata/" in source:
        shutil.copy2(source, target)
    else:
        os.link(source, target)


@contextmanager
def _put_back(root: Path) -> Iterator[Path]:
    try:
        yield root / "t"
    finally:
        shutil.rmtree(root / "t")
        shutil.copytree(root / "kept", root / "t", copy_function=_linked)


def _middle(snapshots: int) -> dt.datetime:
    """Return the time between the older half of the snapshots and the newer one, which the builder gave them."""
    millis = 1_700_000_000_000 + _SECOND * (1000 + snapshots // 2) - 1
    return dt.datetime.fromtimestamp(millis / 1000, dt.timezone.utc)


def _expired_by_us(snapshots: int, files: int) -> Side:
    def run(scale: float) -> Outcome:
        with _put_back(_table(snapshots, files, scale)) as place:
            table = warm()(str(place), format="iceberg")
            expire = partial(table.expire_snapshots, _middle(snapshots), 1)
            return timed(expire, lambda _: [len(table.snapshots)])

    return run


def _expired_by_pyiceberg(snapshots: int, files: int) -> Side:
    """Time the expiry in metadata: pyiceberg deletes no files."""

    def run(scale: float) -> Outcome:
        from pyiceberg.catalog.sql import SqlCatalog

        with _put_back(_table(snapshots, files, scale)) as place, workplace() as folder:
            catalog = SqlCatalog("c", uri=f"sqlite:///{folder / 'c.db'}", warehouse=folder.as_uri())
            catalog.create_namespace("db")
            newest = max((place / "metadata").glob("*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
            table: Any = catalog.register_table("db.t", newest.as_uri())
            expire = table.maintenance.expire_snapshots().older_than(_middle(snapshots).replace(tzinfo=None))
            return timed(expire.commit, lambda _: [len(catalog.load_table("db.t").snapshots())])

    return run


def _expired_by_iceberg_spark(snapshots: int, files: int) -> Side:
    def run(scale: float) -> Outcome:
        spark = session(engines=True)
        with _put_back(_table(snapshots, files, scale)) as place, workplace() as folder:
            spark.conf.set("spark.sql.catalog.ice.warehouse", str(place.parent.parent))
            spark.conf.set("spark.sql.catalog.small", "org.apache.iceberg.spark.SparkCatalog")
            spark.conf.set("spark.sql.catalog.small.type", "hadoop")
            spark.conf.set("spark.sql.catalog.small.warehouse", str(folder))
            # Classes are loaded by the expiry of another table.
            for _ in range(2):
                spark.range(10).writeTo("small.db.t").createOrReplace()
            _expire_on_spark(spark, "small", "db.t", dt.datetime.now(dt.timezone.utc))
            expire = partial(_expire_on_spark, spark, "ice", f"`{place.parent.name}`.t", _middle(snapshots))
            left = f"SELECT count(*) FROM ice.`{place.parent.name}`.t.snapshots"
            return timed(expire, lambda _: [spark.sql(left).head()[0]])

    return run


def _expire_on_spark(spark: Any, catalog: str, table: str, older_than: dt.datetime) -> None:
    when = f"timestamp_millis({int(older_than.timestamp() * 1000)})"
    spark.sql(
        f"CALL {catalog}.system.expire_snapshots(table => '{table}', older_than => {when}, retain_last => 1)"
    ).collect()


def _orphans(snapshots: int, files: int) -> Side:
    def run(scale: float) -> Outcome:
        with _put_back(_table(snapshots, files, scale)) as place:
            table = warm()(str(place), format="iceberg")
            return timed(partial(table.remove_orphan_files, dry_run=False), lambda done: [done.deleted_files])

    return run


def _cases(snapshots: int, files: int) -> dict[str, Case]:
    data = partial(_table, snapshots, files)
    expire = f"expire {snapshots // 2:,} of {snapshots:,} snapshots with {files:,} files (pyiceberg: in metadata only)"
    sides = {
        "deltaberg": _expired_by_us(snapshots, files),
        "iceberg-spark": _expired_by_iceberg_spark(snapshots, files),
        "pyiceberg": _expired_by_pyiceberg(snapshots, files),
    }
    orphans = f"remove {files // _ONE_OF:,} orphans among {files:,} files"
    return {
        "expire": Case(expire, data, sides),
        "orphans": Case(orphans, data, {"deltaberg": _orphans(snapshots, files)}),
    }


EXPIRY_CASES: dict[str, Case] = _cases(2_000, 1_000_000)
