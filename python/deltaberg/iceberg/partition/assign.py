"""Partition values of new files: what divides rows, and the paths that show it (Iceberg spec, "Partitioning")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote_plus

import pyarrow as pa

from deltaberg.errors import SchemaError, UnsupportedFeatureError
from deltaberg.iceberg.metadata.specs import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.structs import field_by_id, path_to_id
from deltaberg.iceberg.partition.transforms import Identity, Transform, Unknown, Void, parse_transform
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Field, Primitive, Struct
from deltaberg.table.write.places import can_be_directories
from deltaberg.table.write.spec import PartitionField as RowPartition

__all__ = ["AppliedTransform", "PartitionPaths", "partition_rows_by"]


@dataclass(frozen=True)
class AppliedTransform:
    """A transform of a column, as rows are divided or sorted by it; it pickles."""

    transform: Transform
    source: DataType

    def __call__(self, array: pa.Array) -> pa.Array:
        """Return the values of the transform."""
        return self.transform.apply(array, self.source)


@dataclass(frozen=True)
class _Nulls:
    """What a field without values makes of every row."""

    kind: DataType

    def __call__(self, array: pa.Array) -> pa.Array:
        return pa.nulls(len(array), arrow_type(self.kind))


def partition_rows_by(spec: PartitionSpec, schema: Struct) -> tuple[RowPartition, ...]:
    """Return how rows with the columns of a schema are divided by a spec.

    The fields have the names, ids and types of the spec's partition struct.

    Raises
    ------
    UnsupportedFeatureError
        If a transform is not known, or has several source columns.
    SchemaError
        If a source column is missing, is inside a list or map, or has a type that its transform does not take.

    Examples
    --------
    >>> schema = Struct((Field("id", Primitive("long"), id=1),))
    >>> (part,) = partition_rows_by(PartitionSpec(0, (PartitionField((1,), 1000, "id_bucket", "bucket[16]"),)), schema)
    >>> part.source, part.transform(pa.array([34])).to_pylist()
    (('id',), [3])
    """
    return tuple(_divided(part, schema) for part in spec.fields)


def _divided(part: PartitionField, schema: Struct) -> RowPartition:
    transform = parse_transform(part.transform)
    path = path_to_id(schema, part.source_id)
    if isinstance(transform, Void):
        # Its source column may have been dropped since.
        kind = path[-1].type if path else Primitive("string")
        return RowPartition(Field(part.name, kind, id=part.field_id), (schema.names[0],), _Nulls(kind))
    if isinstance(transform, Unknown) or len(part.source_ids) > 1:
        raise UnsupportedFeatureError(
            f"rows cannot be partitioned by the field {part.name!r}, whose transform is {part.transform!r}",
            hint="a newer version of this library may know it",
            feature=part.transform,
        )
    if not path:
        raise SchemaError(
            f"the partition field {part.name!r} is made from the column {part.source_id}, which the table does not have"
            " outside of lists and maps",
            hint="remove the field from the partition spec",
        )
    source = path[-1].type
    field = Field(part.name, transform.result_type(source), id=part.field_id)
    applied = None if isinstance(transform, Identity) else AppliedTransform(transform, source)
    return RowPartition(field, tuple(step.name for step in path), applied)


class PartitionPaths:
    """The directories that show the partition values of files, as the Java library names them.

    Readers take no value from them.

    Parameters
    ----------
    spec
        The partition spec.
    schemas
        The schemas of the table, the current one first: a source column may have been dropped since.

    Examples
    --------
    >>> schema = Struct((Field("day", Primitive("date"), id=1), Field("name", Primitive("string"), id=2)))
    >>> fields = (PartitionField((1,), 1000, "m", "month"), PartitionField((2,), 1001, "n n", "identity"))
    >>> PartitionPaths(PartitionSpec(0, fields), [schema]).of([pa.scalar(574, pa.int32()), pa.scalar("a b/c~")])
    'm=2017-11/n+n=a+b%2Fc%7E'
    """

    def __init__(self, spec: PartitionSpec, schemas: Sequence[Struct]) -> None:
        self._fields = []
        for part in spec.fields:
            source = field_by_id(schemas, part.source_id)
            kind = Primitive("string") if source is None else source.type
            self._fields.append((_escaped(part.name), parse_transform(part.transform), kind))

    def of(self, values: Iterable[pa.Scalar]) -> str:
        """Return the directories for the values of all fields.

        It is the empty text for a spec without fields, and for values that are too long for the names of directories.
        """
        text = self.text(values)
        return text if can_be_directories(text.split("/")) else ""

    def text(self, values: Iterable[pa.Scalar]) -> str:
        """Return the values of all fields as text, however long that is; the empty text for a spec without fields."""
        return "/".join(
            f"{name}={_escaped(transform.to_text(value, kind))}"
            for (name, transform, kind), value in zip(self._fields, values, strict=True)
        )


def _escaped(text: str) -> str:
    """Return text as ``java.net.URLEncoder`` encodes it."""
    return quote_plus(text, safe="*").replace("~", "%7E")
