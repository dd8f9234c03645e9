"""Which rows of a table can match a source: those whose keys the source has."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.bind.bind import BoundValue
from deltaberg.table.merge.merge import MergePlan, SourceValue
from deltaberg.table.merge.stored_rows import StoredRows

__all__ = ["KeyTest", "key_test"]

#: Bytes of the distinct keys of a source that are worth sending to where a table is read.
_MOST_BYTES = 32 << 20


@dataclass(frozen=True)
class KeyTest:
    """Tests rows of a table: a `RowTest`, which also lets rows through that match nothing.

    Parameters
    ----------
    names
        All columns of the table, in order.
    read
        Those that are read, which are the first columns of a batch.
    keys
        Values of the table, each with the values of the source that it must be among.
    """

    names: tuple[str, ...]
    read: tuple[str, ...]
    keys: tuple[tuple[BoundValue, pa.Array], ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows have keys of the source."""
        known = dict(zip(self.read, batch.columns, strict=False))
        columns = [known[name] if name in known else pa.nulls(batch.num_rows) for name in self.names]
        rows = pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))])
        kept = pa.repeat(True, batch.num_rows)
        for value, keys in self.keys:
            found = value.evaluate(rows)
            # A null is among the keys only if a null equals a null.
            kept = pc.and_(kept, pc.is_in(found, value_set=keys if keys.type == found.type else keys.cast(found.type)))
        return kept


def key_test(plan: MergePlan, source: StoredRows) -> KeyTest | None:
    """Return the test of the keys of a merge; None if there are no keys, or too many."""
    keys = []
    for equality in plan.join.equalities:
        found = _distinct(SourceValue(equality.right, len(plan.target.columns)), source)
        if found is not None:
            keys.append((equality.left, found if equality.null_safe else found.drop_null()))
    if not keys:
        return None
    return KeyTest(tuple(child.name for child in plan.target.columns), tuple(plan.target_columns), tuple(keys))


def _distinct(value: SourceValue, source: StoredRows) -> pa.Array | None:
    distinct: pa.Array | None = None
    for batch in source.batches():
        values = value(batch)
        if pa.types.is_nested(values.type) or pa.types.is_floating(values.type):
            # NaN and the two zeros are equal to values of other bits.
            return None
        distinct = pc.unique(values if distinct is None else pa.concat_arrays([distinct, pc.unique(values)]))
        if distinct.nbytes > _MOST_BYTES:
            return None
    return distinct
