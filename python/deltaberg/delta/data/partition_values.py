"""Partition values: text in the log, typed columns for a scan (Delta protocol, "Partition Value Serialization")."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg import kernels
from deltaberg.delta.schema.schema import partition_type_name
from deltaberg.errors import EvaluationError, InvalidPartitionValueError
from deltaberg.schema.arrow import arrow_type, as_array
from deltaberg.schema.rows.text_lengths import pad_texts
from deltaberg.schema.types import Field, Primitive, Struct

__all__ = ["partition_value_texts", "read_partition_values"]

_INTEGERS = frozenset(map(Primitive, ("byte", "short", "integer", "long")))
_FRACTION = r"^(\s*[+-]?)(?:([0-9]+)\.[0-9]*|\.[0-9]+)(\s*)$"
_TEXTS = Struct((Field("text", Primitive("string")),))
#: Characters of a text that a message shows at most.
_SHOWN = 100


def read_partition_values(files: pa.Table, columns: Sequence[Field], timezone: str = "UTC") -> list[pa.Array]:
    """Return an array of typed values for each partition column: what Spark's CAST makes of the recorded texts.

    Parameters
    ----------
    files
        Files with the columns ``path`` and ``partitionValues``.
    columns
        The partition columns.
    timezone
        The zone of timestamps whose text has none; the table does not record it.

    Raises
    ------
    InvalidPartitionValueError
        If a text is not a value of its column's type; the error names the file.
    """
    if not columns:
        return []
    named = [(field.physical_name, partition_type_name(field)) for field in columns]
    maps = as_array(files.column("partitionValues"))
    try:
        values = kernels.parse_partition_values(maps, named)
    except InvalidPartitionValueError:
        # Some writers record texts in other forms, which Spark also takes.
        return [pad_texts(_cast(files, maps, field, timezone), field.length) for field in columns]
    return [_typed(values.column(index), field, timezone) for index, field in enumerate(columns)]


def _cast(files: pa.Table, maps: pa.MapArray, field: Field, timezone: str) -> pa.Array:
    """Return the values of a partition column as Spark casts their texts."""
    from deltaberg.expressions.bind.bind import bind_value
    from deltaberg.expressions.tree.tree import Cast, ColumnValue
    from deltaberg.table.rows.row_rules import empty_to_null

    texts = empty_to_null(pc.map_lookup(maps, pa.scalar(field.physical_name), "last"))
    if field.type in _INTEGERS:
        # The cast of partition values is not that of Spark's ANSI mode: it cuts fractions off.
        texts = pc.replace_substring_regex(texts, _FRACTION, r"\10\2\3")
    cast = bind_value(Cast(ColumnValue(("text",)), field.type), _TEXTS, timezone=timezone)
    try:
        return cast.evaluate(pa.record_batch({"text": texts}))
    except EvaluationError as error:
        row = int(error.context["row"])
        raise InvalidPartitionValueError(
            f"partition value {json.dumps(texts[row].as_py()[:_SHOWN], ensure_ascii=False)} of column "
            f"{json.dumps(field.name, ensure_ascii=False)} is not a valid {field.type}",
            column=field.physical_name,
            row=str(row),
            file=files.column("path")[row].as_py(),
        ) from error


def _typed(values: pa.Array, field: Field, timezone: str) -> pa.Array:
    if field.type != Primitive("timestamp"):
        return pad_texts(values, field.length)
    utc = arrow_type(field.type)
    instants = pc.struct_field(values, "value")
    if timezone.upper() == "UTC":
        return instants.view(utc)
    from deltaberg.expressions.time.zones import find_zone, to_instant

    local = to_instant(instants, find_zone(timezone))
    if local.failures:
        raise InvalidPartitionValueError("a timestamp is beyond the timestamps", column=field.name)
    return pc.if_else(pc.struct_field(values, "zoned"), instants.view(utc), local.values.cast(utc))


def partition_value_texts(values: pa.StructArray, columns: Sequence[Field]) -> pa.StringArray:
    """Return the partition values of files as ``partitionValues`` records them: JSON objects of texts.

    Timestamps are instants in UTC with a zone, so that their text does not depend on the zone of the reader.

    Parameters
    ----------
    values
        A struct for each file, with a field for each partition column, in order.
    columns
        The partition columns.

    Raises
    ------
    InvalidPartitionValueError
        A value has no text, such as bytes that are not UTF-8.

    Examples
    --------
    >>> values = pa.array([{"day": 1, "name": None}])
    >>> columns = [Field("day", Primitive("integer")), Field("name", Primitive("string"))]
    >>> partition_value_texts(values, columns)[0].as_py()
    '{"day":"1","name":null}'
    """
    if not columns:
        return pa.repeat(pa.scalar("{}"), len(values))
    members = []
    for index, field in enumerate(columns):
        texts = _texts(pc.struct_field(values, index), field)
        # An empty text would be read as null, so it is written as what it is read as.
        encoded = [json.dumps(text, ensure_ascii=False) if text else "null" for text in texts.dictionary.to_pylist()]
        found = pc.take(pa.array(encoded, pa.string()), texts.indices).fill_null("null")
        members.append(
            pc.binary_join_element_wise(pa.scalar(f"{json.dumps(field.physical_name, ensure_ascii=False)}:"), found, "")
        )
    inside = pc.binary_join_element_wise(*members, ",")
    return pc.binary_join_element_wise(pa.scalar("{"), inside, pa.scalar("}"), "")


def _texts(values: pa.Array, field: Field) -> pa.DictionaryArray:
    """Return the texts of values. Few of them differ from one another."""
    distinct = values.dictionary_encode()
    dictionary = distinct.dictionary
    try:
        texts = _distinct_texts(dictionary)
    except UnicodeDecodeError as error:
        raise InvalidPartitionValueError(
            f"the bytes {error.object[:20]!r} are no text in UTF-8, as which a Delta table records partition values",
            hint="partition the table by a column of their text, such as the function hex of SQL makes it",
            column=field.name,
        ) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidPartitionValueError(
            f"a value of type {field.type} cannot be a partition value: {error}", column=field.name
        ) from error
    if pt.is_temporal(dictionary.type) and pc.any(pc.starts_with(texts, "<")).as_py():
        # So Arrow's text begins where a year is beyond its calendar.
        raise InvalidPartitionValueError(
            f"a value of type {field.type} is too far from 1970 to be a partition value", column=field.name
        )
    return pa.DictionaryArray.from_arrays(distinct.indices, texts)


def _distinct_texts(values: pa.Array) -> pa.StringArray:
    kind = values.type
    if pt.is_decimal(kind):
        return pa.array([None if value is None else format(value, "f") for value in values.to_pylist()], pa.string())
    if pt.is_binary(kind) or pt.is_large_binary(kind):
        return pa.array([None if value is None else value.decode() for value in values.to_pylist()], pa.string())
    if pt.is_timestamp(kind) and kind.tz is not None:
        local = values.view(pa.timestamp(kind.unit)).cast(pa.timestamp("us")).cast(pa.string())
        return pc.binary_join_element_wise(pc.replace_substring(local, " ", "T"), pa.scalar("Z"), "")
    if pt.is_timestamp(kind):
        return values.cast(pa.timestamp("us")).cast(pa.string())
    if pt.is_floating(kind):
        texts = pc.replace_substring_regex(values.cast(pa.string()), r"^(-?[0-9]+)$", r"\1.0")
        return pc.replace_substring(pc.replace_substring(texts, "inf", "Infinity"), "nan", "NaN")
    return values.cast(pa.string())
