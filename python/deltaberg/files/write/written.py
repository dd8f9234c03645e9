"""The rows that describe written files: what a commit of any format needs to know of them.

One row stands for one file. The columns are

- ``path`` (string): relative to the table, decoded, with slashes;
- ``format`` (string): ``parquet``, ``orc`` or ``avro``;
- ``size`` (int64): bytes;
- ``record_count`` (int64): rows;
- ``modified`` (int64): when the file was finished, in milliseconds since 1970;
- ``partition`` (struct): a typed value for each partition field, in order;
- ``lower``, ``upper``, ``null_count``, ``nan_count`` (structs): statistics of leaves. The fields are named by the
  number of the leaf in the table's schema. Leaves are counted depth first from 0, with those inside lists and maps; a
  variant is one leaf. The nulls of a list or map have the number of the first leaf inside. A missing field and a null
  mean that nothing is known.

If what footers tell is asked for, there are also

- ``split_offsets`` (list of int64): where row groups begin;
- ``column_size`` (struct): compressed bytes of each leaf;
- ``inner_count``, ``inner_null_count`` (structs): values and nulls of the leaves inside lists and maps;
- ``struct_null_count`` (struct): nulls of structs. The fields are named by the ids of these;
- ``lower_point``, ``upper_point`` (structs): the corners of the boxes around shapes (`FooterFacts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.files.write.written_footers import FooterFacts, parquet_leaves
from deltaberg.schema.arrow import arrow_type, as_array
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct, field_paths, nested_fields

__all__ = [
    "WrittenFile",
    "is_bounded",
    "leaf_paths",
    "struct_paths",
    "written_leaves",
    "written_rows",
    "written_schema",
]

_FLOATS = (Primitive("float"), Primitive("double"))
_BOUNDLESS = (Primitive("variant"), Primitive("void"))
_Numbered = Iterator[tuple[int, tuple[Field, ...]]]


@dataclass
class WrittenFile:
    """A file that was written. Statistics are Arrow scalars and counts by the number of the leaf."""

    path: str
    size: int
    record_count: int
    modified: int
    partition: Mapping[str, pa.Scalar] = field(default_factory=dict)
    lower: Mapping[int, pa.Scalar] = field(default_factory=dict)
    upper: Mapping[int, pa.Scalar] = field(default_factory=dict)
    null_count: Mapping[int, int] = field(default_factory=dict)
    nan_count: Mapping[int, int] = field(default_factory=dict)
    struct_null_count: Mapping[int, int] = field(default_factory=dict)
    footer: FooterFacts = field(default_factory=FooterFacts)
    format: str = "parquet"


def leaf_paths(schema: Struct) -> dict[int, tuple[Field, ...]]:
    """Return the path of fields to each leaf that has statistics, by the number of the leaf.

    Leaves inside lists and maps are counted, but have no statistics: the list or map stands for the first of them.

    Examples
    --------
    >>> inner = Struct((Field("x", Primitive("long")), Field("y", Primitive("date"))))
    >>> tags = List(Field("element", Primitive("string")))
    >>> schema = Struct((Field("tags", tags), Field("s", inner)))
    >>> {number: ".".join(part.name for part in path) for number, path in leaf_paths(schema).items()}
    {0: 'tags', 1: 's.x', 2: 's.y'}
    """
    return dict(_walk(schema, (), count()))


def struct_paths(schema: Struct) -> dict[int, tuple[Field, ...]]:
    """Return the path of fields to each struct that no list or map holds, by its id.

    Examples
    --------
    >>> inner = Struct((Field("t", Struct((Field("x", Primitive("long"), id=3),)), id=2),))
    >>> paths = struct_paths(Struct((Field("s", inner, id=1),)))
    >>> {number: ".".join(part.name for part in path) for number, path in paths.items()}
    {1: 's', 2: 's.t'}
    """
    return {
        path[-1].id: path
        for path in field_paths(schema)
        if path[-1].id is not None and all(isinstance(part.type, Struct) for part in path)
    }


def _walk(struct: Struct, above: tuple[Field, ...], numbers: Iterator[int]) -> _Numbered:
    for child in struct:
        path = (*above, child)
        if isinstance(child.type, Struct):
            yield from _walk(child.type, path, numbers)
        elif isinstance(child.type, (List, Map)):
            inside = list(islice(numbers, _leaves_inside(child.type)))
            if inside:
                yield inside[0], path
        else:
            yield next(numbers), path


def is_bounded(kind: DataType) -> bool:
    """Return whether columns of a type have a smallest and a greatest value. Of others, nulls are counted alone."""
    return not isinstance(kind, (List, Map)) and kind not in _BOUNDLESS


def _leaves_inside(kind: DataType) -> int:
    if isinstance(kind, (Struct, List, Map)):
        return sum(_leaves_inside(child.type) for child in nested_fields(kind))
    return 1


def written_leaves(files: pa.Table, column: str) -> dict[int, pa.Array]:
    """Return the fields of one of the structs of written files by the number of the leaf, null if the struct is.

    Examples
    --------
    >>> written_leaves(pa.table({"lower": [{"0": 1, "3": None}, {"0": 2, "3": 5}]}), "lower")[3].to_pylist()
    [None, 5]
    """
    structs = as_array(files.column(column))
    if not pt.is_struct(structs.type):
        return {}
    return {int(child.name): leaf for child, leaf in zip(structs.type, structs.flatten(), strict=True)}


def written_schema(schema: Struct, partition: Sequence[Field] = (), *, footers: bool = False) -> pa.Schema:
    """Return the Arrow schema of the rows that describe written files.

    Parameters
    ----------
    schema
        The columns of the table.
    partition
        The partition fields, in order.
    footers
        Whether the rows also hold what footers tell.
    """
    leaves = {str(number): path[-1].type for number, path in leaf_paths(schema).items()}
    bounds = pa.struct([(name, arrow_type(kind)) for name, kind in leaves.items() if is_bounded(kind)])
    own = pa.schema(
        [
            pa.field("path", pa.string(), nullable=False),
            pa.field("format", pa.string(), nullable=False),
            pa.field("size", pa.int64(), nullable=False),
            pa.field("record_count", pa.int64(), nullable=False),
            pa.field("modified", pa.int64(), nullable=False),
            pa.field("partition", pa.struct([(child.name, arrow_type(child.type)) for child in partition])),
            pa.field("lower", bounds),
            pa.field("upper", bounds),
            pa.field("null_count", pa.struct([(name, pa.int64()) for name in leaves])),
            pa.field("nan_count", pa.struct([(name, pa.int64()) for name, kind in leaves.items() if kind in _FLOATS])),
        ]
    )
    return pa.schema([*own, *_footer_fields(schema)]) if footers else own


def _footer_fields(schema: Struct) -> list[pa.Field]:
    stored = {leaf.number: leaf for leaves in parquet_leaves(schema).values() for leaf in leaves}
    inner = pa.struct([(str(number), pa.int64()) for number, leaf in stored.items() if leaf.is_inner])
    paths = leaf_paths(schema)
    points = pa.struct([(str(number), pa.binary()) for number in stored if _may_be_shape(paths.get(number))])
    return [
        pa.field("split_offsets", pa.list_(pa.int64())),
        pa.field("column_size", pa.struct([(str(number), pa.int64()) for number in stored])),
        pa.field("inner_count", inner),
        pa.field("inner_null_count", inner),
        pa.field("lower_point", points),
        pa.field("upper_point", points),
        pa.field("struct_null_count", pa.struct([(str(number), pa.int64()) for number in struct_paths(schema)])),
    ]


def _may_be_shape(path: tuple[Field, ...] | None) -> bool:
    return path is not None and path[-1].type == Primitive("binary")


def written_rows(
    files: Iterable[WrittenFile], schema: Struct, partition: Sequence[Field] = (), *, footers: bool = False
) -> pa.Table:
    """Return the rows that describe files.

    The rows of several calls with the same columns are put together with ``pyarrow.concat_tables``.

    Examples
    --------
    >>> schema = Struct((Field("x", Primitive("long")),))
    >>> file = WrittenFile("a.parquet", 400, 3, 0, lower={0: pa.scalar(1)}, null_count={0: 1})
    >>> written_rows([file], schema).select(["path", "lower", "null_count", "nan_count"]).to_pylist()
    [{'path': 'a.parquet', 'lower': {'0': 1}, 'null_count': {'0': 1}, 'nan_count': {}}]
    """
    written = list(files)
    target = written_schema(schema, partition, footers=footers)
    plain = ("path", "format", "size", "record_count", "modified")
    columns = [pa.array([getattr(file, name) for file in written], target.field(name).type) for name in plain]
    columns.append(_structs([file.partition for file in written], target.field("partition").type))
    facts = ("lower", "upper", "null_count", "nan_count")
    columns += [_by_leaf([getattr(file, name) for file in written], target.field(name).type) for name in facts]
    if footers:
        columns.append(pa.array([list(file.footer.split_offsets) for file in written], pa.list_(pa.int64())))
        more = ("column_size", "inner_count", "inner_null_count", "lower_point", "upper_point")
        columns += [
            _by_leaf([getattr(file.footer, name) for file in written], target.field(name).type) for name in more
        ]
        columns.append(_by_leaf([file.struct_null_count for file in written], target.field("struct_null_count").type))
    return pa.Table.from_arrays(columns, schema=target)


def _by_leaf(facts: Sequence[Mapping[int, Any]], kind: pa.StructType) -> pa.StructArray:
    return _structs([{str(leaf): fact for leaf, fact in one.items()} for one in facts], kind)


def _structs(rows: Sequence[Mapping[str, Any]], kind: pa.StructType) -> pa.StructArray:
    """Return structs of scalars and numbers. Scalars keep values that Python has no type for, such as ancient dates."""
    if not kind.num_fields:
        return pa.Array.from_buffers(kind, len(rows), [None], children=[])
    children = [_values([row.get(child.name) for row in rows], child.type) for child in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind))


def _values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if not any(isinstance(value, pa.Scalar) for value in values):
        return pa.array(values, kind)
    parts = [
        pa.nulls(1, kind) if value is None or not value.is_valid else pa.repeat(value, 1).cast(kind) for value in values
    ]
    return pa.concat_arrays(parts)
