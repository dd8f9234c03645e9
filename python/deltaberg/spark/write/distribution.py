"""Bringing rows of a DataFrame to the tasks that write them: by partition, or by ranges of the order of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as st
from pyspark.sql.functions import col, expr
from pyspark.sql.pandas.types import from_arrow_type

from deltaberg.errors import DeltabergError
from deltaberg.iceberg.partition.assign import AppliedTransform
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.columns import find_path
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.types import table_type
from deltaberg.spark.write.spark_transforms import spark_expression
from deltaberg.table.sort.order import OrderTerm
from deltaberg.table.write.spec import WriteSpec

__all__ = ["balanced", "distributed", "distribution_terms"]

_ADAPTIVE = "spark.sql.adaptive.enabled"


def distribution_terms(spec: WriteSpec, names: Iterable[str]) -> list[OrderTerm]:
    """Return what decides which task writes a row; nothing if rows stay in their tasks.

    Parameters
    ----------
    spec
        What the table asks for.
    names
        The columns of the rows. What is made from other columns is the same for all rows, unless rules of the table
        fill them: a generated column is computed from each row.
    """
    if spec.distribution == "none":
        return []
    terms = [OrderTerm(part.source, part.transform) for part in spec.partition]
    if spec.distribution == "range":
        terms += spec.order
    filled = spec.rules.filled if spec.rules else ()
    known = {name.lower() for name in (*names, *filled)}
    return [term for term in terms if term.source[0].lower() in known]


def balanced(frame: DataFrame, facts: SessionFacts) -> DataFrame:
    """Return the rows of a frame in as few tasks as their size asks for, if Spark plans adaptively."""
    return frame if facts.setting(_ADAPTIVE) == "false" else frame.hint("rebalance")


def distributed(
    frame: DataFrame, names: Sequence[str], terms: Sequence[OrderTerm], spec: WriteSpec, facts: SessionFacts
) -> DataFrame:
    """Return the rows of a frame, brought together by terms, so that few tasks write files of a partition.

    What a term makes of a column is computed by Spark where that is exact, and else in Python workers by the very code
    that divides rows. The latter takes all columns to the workers and back.

    Parameters
    ----------
    frame
        The rows.
    names
        What the caller calls the columns of the frame.
    terms
        What decides about the task of a row.
    spec
        What the table asks for.
    facts
        The session.
    """
    plain = dict(zip((name.lower() for name in names), frame.columns, strict=True))
    columns: list[Column] = []
    computed: list[OrderTerm] = []
    expressions: list[Column] = []
    schema = st.StructType(list(frame.schema.fields))
    for term in terms:
        own = _spark_expression(term, plain, frame.schema)
        if own is not None:
            name = own if term.transform is None else f"e{len(expressions)}"
            if term.transform is not None:
                # Hints take columns, and no expressions.
                expressions.append(expr(own).alias(name))
            columns.append(col(name))
            continue
        name = f"k{len(computed)}"
        computed.append(term)
        columns.append(col(name))
        schema = schema.add(name, from_arrow_type(_key_type(term, spec), prefer_timestamp_ntz=True))
    rows = frame
    if computed:
        rows = frame.mapInArrow(_KeyTask(spec, tuple(names), tuple(computed)), schema)
    if expressions:
        rows = rows.select("*", *expressions)
    if spec.distribution == "range":
        ordered = [_ordered(column, term) for column, term in zip(columns, terms, strict=True)]
        moved = rows.repartitionByRange(*ordered)
    elif facts.setting(_ADAPTIVE) == "false" or facts.version.startswith("3."):
        # PySpark 3 takes no columns for a hint.
        moved = rows.repartition(*columns)
    else:
        # Spark splits partitions that are too large for a task, and puts small ones together.
        moved = rows.hint("rebalance", *columns)
    return moved.select(*frame.columns) if computed or expressions else moved


def _spark_expression(term: OrderTerm, plain: Mapping[str, str], schema: st.StructType) -> str | None:
    """Return what a term makes of a column of a frame, as SQL of Spark; None if Python workers have to compute it."""
    name = plain.get(term.source[0].lower())
    if name is None or len(term.source) > 1:
        return None
    transform = term.transform
    if transform is None:
        return name
    if not isinstance(transform, AppliedTransform) or table_type(schema[name].dataType) != transform.source:
        # Rows are converted to the type of the column first.
        return None
    return spark_expression(transform.transform, transform.source, name)


def _ordered(column: Column, term: OrderTerm) -> Column:
    if term.descending:
        return column.desc_nulls_first() if term.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if term.nulls_first else column.asc_nulls_last()


def _key_type(term: OrderTerm, spec: WriteSpec) -> pa.DataType:
    kind = arrow_type(find_path(spec.schema, term.source)[-1].type)
    made = term.of(pa.nulls(0, kind)).type
    # Spark has no bytes of a fixed length.
    return pa.binary() if pt.is_fixed_size_binary(made) and not pt.is_decimal(made) else made


@dataclass(frozen=True)
class _KeyTask:
    """Adds the partition keys of rows as columns, inside `mapInArrow`.

    Parameters
    ----------
    spec
        What the table asks for.
    names
        What the caller calls the columns.
    terms
        The terms.
    """

    spec: WriteSpec
    names: tuple[str, ...]
    terms: tuple[OrderTerm, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fields = [pa.field(f"k{number}", _key_type(term, self.spec)) for number, term in enumerate(self.terms)]
        for batch in batches:
            schema = pa.schema([*batch.schema, *fields])
            yield pa.RecordBatch.from_arrays([*batch.columns, *self._keys(batch, fields)], schema=schema)

    def _keys(self, batch: pa.RecordBatch, fields: Sequence[pa.Field]) -> list[pa.Array]:
        named = batch.rename_columns(list(self.names))
        try:
            conformer = self.spec.conformer(named.schema)
            rows = conformer.apply(named)
            if self.spec.rules:
                rows = self.spec.rules.apply(rows, conformer.given)
            found = [pa.concat_arrays(term.values(rows).chunks) for term in self.terms]
            return [array.cast(field.type) for array, field in zip(found, fields, strict=True)]
        except DeltabergError:
            # The task that writes the rows meets the error again, and the driver hears of it there.
            return [pa.nulls(batch.num_rows, field.type) for field in fields]
