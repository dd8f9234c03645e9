"""The cases on Spark, compared with connectors and their jars: rows for the JVM, and Python functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benches import data, iceberg_data
from benches.measure import Case, Made, Outcome, Side, repeated, session, warm

__all__ = ["SPARK_CASES"]

#: How often a side runs in its process; the first half is for warming up.
_TIMES = 4
_ALL = tuple(data.SCHEMA.names)
#: True of a thousandth of the rows, in every file.
_RARE = "w < 1000000000"
#: Makes a frame of a table, given what opens ours.
_Reader = Callable[[Any, Path, Sequence[str]], Any]


def _delta(deleted: bool) -> Made:
    return lambda scale: data.rows(scale, deleted)


def _iceberg(deleted: bool) -> Made:
    return lambda scale: iceberg_data.deleted_rows(scale, deleted)


def _by_road(road: str) -> _Reader:
    def read(spark: Any, root: Path, columns: Sequence[str]) -> Any:
        return warm()(root).scan(columns=list(columns)).to_spark(spark, road=road)

    return read


def _by_connector(name: str) -> _Reader:
    return lambda spark, root, columns: spark.read.format(name).load(str(root)).select(*columns)


def _types(columns: Sequence[str]) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema([data.SCHEMA.field(name) for name in columns]))


def _by_parquet(spark: Any, root: Path, columns: Sequence[str]) -> Any:
    """Read the files with Spark alone, which is given their schema, as by a table format."""
    reader = spark.read.schema(_types(_ALL)).option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet")
    return reader.parquet(str(root)).select(*columns)


def _by_pyarrow(spark: Any, root: Path, columns: Sequence[str]) -> Any:
    """Read the files with plain pyarrow in Python workers, as without a table format."""
    names = list(columns)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield from pq.ParquetFile(path).iter_batches(columns=names)

    paths = [(str(path),) for path in sorted(root.rglob("*.parquet"))]
    return spark.createDataFrame(paths, "path string").repartition(len(paths)).mapInArrow(read, _types(names))


def _aggregated(frame: Any) -> list[str]:
    """Make the JVM look at every value: it sums numbers, and finds the maximum of others."""
    from pyspark.sql import functions as sf

    sums = [sf.sum(name) for name, kind in frame.dtypes if kind == "bigint"]
    others = [sf.max(name) for name, kind in frame.dtypes if kind != "bigint"]
    return list(map(str, frame.agg(sf.count("*"), *sums, *others).collect()[0]))


def _scan(made: Made, read: _Reader, columns: Sequence[str], engines: bool) -> Side:
    def run(scale: float) -> Outcome:
        root, spark = made(scale), session(engines)
        return repeated(lambda: _aggregated(read(spark, root, columns)), list, _TIMES)

    return run


def _scan_case(format: str, made: Callable[[bool], Made], columns: Sequence[str], deleted: bool) -> Case:
    """Compare our two roads with the connector and, if no rows are deleted, with Spark's own Parquet reader."""
    place = made(deleted)
    sides = {
        "deltaberg": _scan(place, _by_road("auto"), columns, engines=False),
        "deltaberg arrow": _scan(place, _by_road("arrow"), columns, engines=False),
        f"{format}-spark": _scan(place, _by_connector(format), columns, engines=True),
    }
    if not deleted:
        sides["spark parquet"] = _scan(place, _by_parquet, columns, engines=False)
        sides["pyarrow"] = _scan(place, _by_pyarrow, columns, engines=False)
    rest = " with 1 % deleted" if deleted else ""
    return Case(f"{format}: {len(columns)} columns of 16M rows into Spark, aggregated there{rest}", place, sides)


def _filter_case() -> Case:
    place = _delta(deleted=False)

    def ours(spark: Any, root: Path, columns: Sequence[str]) -> Any:
        return warm()(root).scan(_RARE, list(columns)).to_spark(spark)

    def filtered(read: _Reader) -> _Reader:
        return lambda spark, root, columns: read(spark, root, columns).where(_RARE)

    sides = {
        "deltaberg": _scan(place, ours, data.TWO, engines=False),
        "delta-spark": _scan(place, filtered(_by_connector("delta")), data.TWO, engines=True),
        "spark parquet": _scan(place, filtered(_by_parquet), data.TWO, engines=False),
    }
    return Case("delta: a filter that keeps a thousandth of 16M rows, and skips no file", place, sides)


def _sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    count = total = 0
    for batch in batches:
        count += batch.num_rows
        total += pc.sum(batch.column("w")).as_py() or 0
    yield pa.record_batch({"n": pa.array([count], pa.int64()), "total": pa.array([total], pa.int64())})


def _collected(frame: Any) -> list[int]:
    row = frame.agg({"n": "sum", "total": "sum"}).collect()[0]
    return [row["sum(n)"], row["sum(total)"]]


def _fused(made: Made, columns: Sequence[str]) -> Side:
    def run(scale: float) -> Outcome:
        root, spark, open_table = made(scale), session(), warm()

        def work() -> list[int]:
            scan = open_table(root).scan(columns=list(columns))
            return _collected(scan.map_in_arrow(spark, _sums, "n long, total long"))

        return repeated(work, list, _TIMES)

    return run


def _mapped(made: Made, read: _Reader, columns: Sequence[str], engines: bool) -> Side:
    def run(scale: float) -> Outcome:
        root, spark = made(scale), session(engines)
        return repeated(
            lambda: _collected(read(spark, root, columns).mapInArrow(_sums, "n long, total long")), list, _TIMES
        )

    return run


def _function_case(format: str, made: Callable[[bool], Made], columns: Sequence[str], deleted: bool) -> Case:
    place = made(deleted)
    sides = {
        "deltaberg": _fused(place, columns),
        f"{format}-spark": _mapped(place, _by_connector(format), columns, engines=True),
    }
    if not deleted:
        sides["spark parquet"] = _mapped(place, _by_parquet, columns, engines=False)
    rest = " with 1 % deleted" if deleted else ""
    return Case(f"{format}: a Python function over {len(columns)} columns of 16M rows on Spark{rest}", place, sides)


_MAKERS = {"delta": _delta, "iceberg": _iceberg}


def _files_case(files: int) -> Case:
    def place(scale: float) -> Path:
        return data.spread(scale, files)

    sides = {
        "deltaberg": _scan(place, _by_road("auto"), data.TWO, engines=False),
        "delta-spark": _scan(place, _by_connector("delta"), data.TWO, engines=True),
        "spark parquet": _scan(place, _by_parquet, data.TWO, engines=False),
    }
    return Case(f"delta: 2 columns of 2M rows in {files:,} files into Spark, aggregated there", place, sides)


#: Which columns are read, and whether rows are deleted: each of both once, as every case takes minutes.
_READS = ((data.TWO, False), (_ALL, True))

SPARK_CASES: dict[str, Case] = {
    **{
        f"{what}-{name}-{len(columns)}{'-deleted' if deleted else ''}": make(name, _MAKERS[name], columns, deleted)
        for what, make in (("spark", _scan_case), ("fused", _function_case))
        for name in ("delta", "iceberg")
        for columns, deleted in _READS
    },
    "spark-delta-filtered": _filter_case(),
    **{f"spark-files-{files}": _files_case(files) for files in (10, 100, 1000)},
}
