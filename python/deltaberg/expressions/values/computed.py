"""Filters that call functions of columns: any condition of SQL, evaluated on the rows that a scan reads."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from deltaberg.expressions.predicates.bind import bind
from deltaberg.expressions.predicates.bound import Bound, BoundComputed
from deltaberg.expressions.predicates.tree import FALSE, Computed
from deltaberg.expressions.values.bind import BoundValue, bind_condition
from deltaberg.expressions.values.filters import value_filter
from deltaberg.expressions.values.nodes import LiteralNode
from deltaberg.expressions.values.tree import Call, Value
from deltaberg.schema import Struct

__all__ = ["ComputedFilter"]


@dataclass(frozen=True)
class ComputedFilter(Computed):
    """A condition of SQL as a filter."""

    value: Value

    def __str__(self) -> str:
        return str(self.value)

    def bound(self, schema: Struct, timezone: str, negated: bool) -> Bound:
        """Bind the condition, or its negation, to a schema.

        Files are pruned by what follows from it for columns that are compared with literals.
        """
        value = Call("not", (self.value,)) if negated else self.value
        now = dt.datetime.now(dt.timezone.utc)
        whole = bind_condition(value, schema, timezone=timezone, now=now)
        implied = bind(value_filter(whole), schema, timezone)
        if implied == FALSE or isinstance(whole.node, LiteralNode):
            return implied
        names = {path[0].name for _, path in whole.paths}
        needed = Struct(tuple(child for child in schema if child.name in names))
        return BoundComputed(_Test(value, needed, timezone, now), needed.fields, implied)


@dataclass(frozen=True)
class _Test:
    """A condition and all that it is bound with. Functions do not pickle, so that each process binds it again."""

    value: Value
    columns: Struct
    timezone: str
    now: dt.datetime = field(compare=False)

    def __str__(self) -> str:
        return str(self.value)

    def __getstate__(self) -> dict[str, Any]:
        return {name: member for name, member in self.__dict__.items() if name != "_bound"}

    @cached_property
    def _bound(self) -> BoundValue:
        return bind_condition(self.value, self.columns, timezone=self.timezone, now=self.now)

    def evaluate(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return a boolean for each row, or null."""
        return self._bound.evaluate(batch)
