"""Statistics as typed columns: ``stats_parsed`` of checkpoints (Delta protocol, "Checkpoint Schema")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.table_actions import Protocol
from deltaberg.delta.data.statistics_text import statistics_texts
from deltaberg.delta.features import supports
from deltaberg.delta.schema.indexed_columns import has_bounds, indexed_columns
from deltaberg.delta.schema.schema import primitive_name
from deltaberg.pruning.stats import stats_key
from deltaberg.schema.arrow import arrow_type, as_array
from deltaberg.schema.types import Field, List, Map, Struct

__all__ = ["ParsedStatistics"]

_Tree = Mapping[str, Any]


class ParsedStatistics:
    """The structs that hold the statistics of some columns, by physical name.

    Parameters
    ----------
    columns
        Paths of fields from the root of the schema to a leaf.
    tight
        Whether there is a column ``tightBounds``, as there is in tables with deletion vectors.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> found = ParsedStatistics([(Field("x", Primitive("long")),)], tight=False)
    >>> [field.name for field in found.type]
    ['numRecords', 'minValues', 'maxValues', 'nullCount']
    """

    def __init__(self, columns: Sequence[tuple[Field, ...]], *, tight: bool) -> None:
        self.columns = columns
        self._tight = tight
        #: The columns as `kernels.parse_stats` takes them.
        self.leaves = [(stats_key(path), primitive_name(path[-1].type)) for path in columns]
        self._all = _tree(self.leaves, range(len(columns)))
        self._bounded = _tree(self.leaves, [index for index, path in enumerate(columns) if has_bounds(path[-1].type)])
        #: The Arrow type of the structs.
        self.type = self.assemble(pa.table({"numRecords": pa.array([], pa.int64())})).type

    @classmethod
    def of(
        cls, schema: Struct, partition_fields: Iterable[Field], properties: Mapping[str, str], protocol: Protocol
    ) -> ParsedStatistics:
        """Return those of the columns of a table that may have statistics."""
        columns = indexed_columns(schema, {field.name for field in partition_fields}, properties)
        return cls(columns, tight=supports(protocol, "deletionVectors"))

    def unknown(self, files: int) -> pa.StructArray:
        """Return empty statistics."""
        return pa.nulls(files, self.type)

    def assemble(self, parsed: pa.Table) -> pa.StructArray:
        """Return the structs of statistics that `kernels.parse_stats` has found; null if there are none at all.

        Parameters
        ----------
        parsed
            ``numRecords``, ``tightBounds``, and for column ``i`` the columns ``min.i``, ``max.i`` and ``nullCount.i``;
            a missing column is unknown.
        """
        column = _columns_of(parsed)

        def bound(side: str) -> Callable[[int], pa.Array]:
            return lambda index: column(f"{side}.{index}", arrow_type(self.columns[index][-1].type))

        members = {"numRecords": column("numRecords", pa.int64())}
        if self._bounded:
            members["minValues"] = _nested(self._bounded, bound("min"))
            members["maxValues"] = _nested(self._bounded, bound("max"))
        if self._all:
            members["nullCount"] = _nested(self._all, lambda index: column(f"nullCount.{index}", pa.int64()))
        if self._tight:
            members["tightBounds"] = column("tightBounds", pa.bool_())
        return pa.StructArray.from_arrays(list(members.values()), names=list(members))

    def texts(self, parsed: pa.Table) -> pa.StringArray:
        """Return statistics that were only found as columns as JSON text; null if there are none.

        Only what a text can say exactly is in it: the nulls of lists and maps are not counted, and the bounds of a file
        whose bounds are not tight are left out.

        Parameters
        ----------
        parsed
            Columns as `assemble` takes them.
        """
        column = _columns_of(parsed)
        single = [index for index, path in enumerate(self.columns) if not isinstance(path[-1].type, (List, Map))]
        loose = pc.fill_null(pc.invert(column("tightBounds", pa.bool_())), fill_value=False)

        def kept(name: str, kind: pa.DataType) -> pa.Array:
            return pc.if_else(loose, pa.scalar(None, kind), column(name, kind))

        bounds: dict[str, dict[str, pa.Array]] = {"lower": {}, "upper": {}, "null_count": {}, "nan_count": {}}
        for number, index in enumerate(single):
            leaf = self.columns[index][-1].type
            bounds["null_count"][str(number)] = kept(f"nullCount.{index}", pa.int64())
            if has_bounds(leaf):
                bounds["lower"][str(number)] = kept(f"min.{index}", arrow_type(leaf))
                bounds["upper"][str(number)] = kept(f"max.{index}", arrow_type(leaf))
                # A writer that saw NaN has recorded it as the maximum, which no text can hold.
                bounds["nan_count"][str(number)] = pa.repeat(pa.scalar(0, pa.int64()), parsed.num_rows)
        files = {"record_count": column("numRecords", pa.int64())}
        for name, leaves in bounds.items():
            files[name] = (
                pa.StructArray.from_arrays(list(leaves.values()), names=list(leaves))
                if leaves
                else pa.nulls(parsed.num_rows)
            )
        schema = _schema(_tree(self.leaves, single), self.columns)
        made = statistics_texts(pa.table(files), schema, tight=False)
        return pc.if_else(pc.equal(made, "{}"), pa.scalar(None, pa.string()), made)


def _columns_of(parsed: pa.Table) -> Callable[[str, pa.DataType], pa.Array]:
    """Return what gives a column of a type; a missing one is null."""

    def column(name: str, kind: pa.DataType) -> pa.Array:
        if name not in parsed.schema.names:
            return pa.nulls(parsed.num_rows, kind)
        values = as_array(parsed.column(name))
        # Instants come without a zone.
        return values.view(kind) if pa.types.is_timestamp(kind) else values.cast(kind)

    return column


def _schema(tree: _Tree, columns: Sequence[tuple[Field, ...]]) -> Struct:
    """Return a schema that has only some leaves, by their physical names."""
    return Struct(
        tuple(
            Field(name, _schema(part, columns) if isinstance(part, Mapping) else columns[part][-1].type)
            for name, part in tree.items()
        )
    )


def _tree(leaves: Sequence[tuple[tuple[str, ...], str | None]], chosen: Sequence[int]) -> _Tree:
    """Return the numbers of leaves at their places in nested mappings."""
    root: dict[str, Any] = {}
    for index in chosen:
        *above, name = leaves[index][0]
        inside = root
        for part in above:
            inside = inside.setdefault(part, {})
        inside[name] = index
    return root


def _nested(tree: _Tree, leaf: Callable[[int], pa.Array]) -> pa.StructArray:
    arrays = [_nested(part, leaf) if isinstance(part, Mapping) else leaf(part) for part in tree.values()]
    return pa.StructArray.from_arrays(arrays, names=list(tree))
