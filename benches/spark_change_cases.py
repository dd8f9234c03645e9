"""The cases of writing and changing tables on Spark, compared with the connectors and their jars.

Each piece of work gets a table of its own, whose data files are links to files that are made once. It is made before
the clock starts, and read back after it has stopped. Rows to append or to merge are read from Parquet files by Spark.
The connectors run SQL.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benches import data, iceberg_data
from benches.cache import folder, made
from benches.measure import Case, Made, Outcome, Side, contents, joined, session, timed, warm

__all__ = ["SPARK_CHANGE_CASES"]

#: How often a side does its work; the first half is for warming up.
_TIMES = 4
_PROPERTIES = {
    "delta": {"delta.enableDeletionVectors": "true"},
    "iceberg": {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")},
}
_ONE = "id % 100 = 7"
_MERGE = """MERGE INTO {table} AS target USING rows AS source ON target.id = source.id
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
_Format = Literal["delta", "iceberg"]
#: Works on a table at a place, given the session and the place of the rows of the case.
_Work = Callable[[Any, Path, Path], object]


def _whole(scale: float) -> Path:
    return data.rows(scale, deleted=False)


def _merged(share: int, scale: float) -> Path:
    """Make a share of the rows with other values, spread over all files, and a tenth as many new ones."""
    count = 8 * data.rows_of_file(scale)

    def make(root: Path) -> None:
        found = max(count // share, 10)
        known = np.arange(0, count, share)[: found - found // 10]
        ids = np.random.default_rng(2).permutation(np.concatenate([known, count + np.arange(found // 10)]))
        rows = pa.table(data.columns(np.random.default_rng(2), 0, len(ids)), schema=data.SCHEMA)
        root.mkdir(parents=True)
        pq.write_table(rows.set_column(0, "id", pa.array(ids, pa.int64())), root / "rows.parquet")

    return made(f"merged-{count}-{share}", make)


def _make_table(format: _Format, root: Path, files: Path | None) -> None:
    """Make a table, with links to the data files of another place."""
    from deltaberg import convert_to_delta, create_table

    root.mkdir(parents=True)
    if files is None:
        create_table(root, data.SCHEMA, format=format, properties=_PROPERTIES[format])
        return
    place = root if format == "delta" else root / "data"
    place.mkdir(exist_ok=True)
    for path in files.glob("*.parquet"):
        os.link(path, place / path.name)
    if format == "delta":
        convert_to_delta(root, properties=_PROPERTIES[format])
    else:
        create_table(root, data.SCHEMA, format=format, properties=_PROPERTIES[format]).add_files([str(place)])


def _side(format: _Format, work: _Work, rows: Made, *, engines: bool, starts_empty: bool = False) -> Side:
    """Do the work on a new table each time."""

    def run(scale: float) -> Outcome:
        files, changed, spark = data.rows(scale, deleted=False), rows(scale), session(engines)
        folder().mkdir(parents=True, exist_ok=True)
        outcomes = []
        for number in range(_TIMES):
            # Links need the file system of the files.
            parent = Path(tempfile.mkdtemp(prefix="deltaberg-bench-", dir=folder()))
            try:
                root = parent / "db" / "t"
                _make_table(format, root, None if starts_empty else files)
                if engines:
                    _add_catalog(spark, f"bench{number}", parent)
                outcome = timed(partial(work, spark, root, changed), lambda _: None)
                outcomes.append(outcome._replace(found=contents(warm()(root).scan().to_arrow())))
            finally:
                shutil.rmtree(parent)
        whole = joined(outcomes)
        return whole._replace(amounts=whole.amounts[_TIMES // 2 :])

    return run


def _add_catalog(spark: Any, name: str, warehouse: Path) -> None:
    """Let iceberg-spark find the tables of a directory. A catalog of its own has nothing cached."""
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(warehouse))
    spark.conf.set("bench.catalog", name)


def _name(format: _Format, spark: Any, root: Path) -> str:
    return f"delta.`{root}`" if format == "delta" else f"{spark.conf.get('bench.catalog')}.db.{root.name}"


def _frame(spark: Any, rows: Path) -> Any:
    return spark.read.option("pathGlobFilter", "*.parquet").parquet(str(rows))


def _by_sql(format: _Format, statement: str, read: Callable[[Any, Path], Any] = _frame) -> _Work:
    def work(spark: Any, root: Path, rows: Path) -> None:
        read(spark, rows).createOrReplaceTempView("rows")
        spark.sql(statement.format(table=_name(format, spark, root)))

    return work


def _append(spark: Any, root: Path, rows: Path) -> None:
    warm()(root).append(_frame(spark, rows))


def _append_by_arrow(spark: Any, root: Path, rows: Path) -> None:
    with patch("deltaberg.spark.write.frame_rows.why_not_native", lambda *_: "this side writes by Arrow"):
        _append(spark, root, rows)


def _delete(_spark: Any, root: Path, _rows: Path) -> None:
    warm()(root).delete(_ONE)


def _update(_spark: Any, root: Path, _rows: Path) -> None:
    warm()(root).update({"w": "w + 1"}, _ONE)


def _merge(spark: Any, root: Path, rows: Path) -> None:
    merge = warm()(root).merge(_frame(spark, rows), "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compute a column anew, as the function of a pipeline."""
    place = data.SCHEMA.get_field_index("v")
    for batch in batches:
        columns = batch.columns
        columns[place] = pc.multiply(columns[place], 2.0)
        yield pa.RecordBatch.from_arrays(columns, names=data.SCHEMA.names)


def _pipeline(spark: Any, root: Path, rows: Path) -> None:
    warm()(root).append(warm()(rows).scan().map_in_arrow(spark, _doubled, data.SCHEMA))


def _read_and_mapped(format: _Format, spark: Any, rows: Path) -> Any:
    frame = spark.read.format(format).load(str(rows))
    return frame.mapInArrow(_doubled, frame.schema)


def _cases(format: _Format) -> dict[str, Case]:
    connector = f"{format}-spark"
    insert = "INSERT INTO {table} SELECT * FROM rows"

    def case(title: str, rows: Made, ours: dict[str, _Work], theirs: _Work, *, starts_empty: bool = False) -> Case:
        side = partial(_side, format, rows=rows, starts_empty=starts_empty)
        sides = {name: side(work, engines=False) for name, work in ours.items()}
        return Case(f"{format}: {title}", rows, {**sides, connector: side(theirs, engines=True)})

    def change(title: str, ours: _Work, statement: str, rows: Made = _whole) -> Case:
        return case(title, rows, {"deltaberg": ours}, _by_sql(format, statement))

    source = _whole if format == "delta" else partial(iceberg_data.deleted_rows, deleted=False)
    return {
        f"spark-{format}-append": case(
            "append 6 columns of 16M rows that Spark reads from Parquet files",
            _whole,
            {"deltaberg": _append} | ({"deltaberg arrow": _append_by_arrow} if format == "delta" else {}),
            _by_sql(format, insert),
            starts_empty=True,
        ),
        f"spark-{format}-pipeline": case(
            "a Python function over 6 columns of 16M rows, from table to table",
            source,
            {"deltaberg": _pipeline},
            _by_sql(format, insert, partial(_read_and_mapped, format)),
            starts_empty=True,
        ),
        f"spark-{format}-delete": change("delete 1 % of 16M rows", _delete, f"DELETE FROM {{table}} WHERE {_ONE}"),
        f"spark-{format}-update": change("update 1 % of them", _update, f"UPDATE {{table}} SET w = w + 1 WHERE {_ONE}"),
        f"spark-{format}-merge": change("merge 1 %, spread over all files", _merge, _MERGE, partial(_merged, 100)),
        f"spark-{format}-merge-few": change(
            "merge 0.01 %, spread over all files", _merge, _MERGE, partial(_merged, 10_000)
        ),
    }


SPARK_CHANGE_CASES = {**_cases("delta"), **_cases("iceberg")}
