"""Texts of CHAR(n), which Spark's reader returns as files store them, and ours pads with spaces."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from deltaberg.schema.rows.text_lengths import has_padded_texts
from deltaberg.schema.types import Field, List, Map, Struct, inner_types

__all__ = ["has_padded_keys", "padded"]


def has_padded_keys(field: Field) -> bool:
    """Return whether keys of maps are padded. Spark refuses those that become equal, and our reader returns them."""
    return any(isinstance(kind, Map) and has_padded_texts(kind.key) for kind in inner_types(field.type))


def padded(values: Column, field: Field) -> Column:
    """Return the values of a field as our reader pads them, given those that Spark reads."""
    if not has_padded_texts(field):
        return values
    kind = field.type
    if isinstance(kind, Struct):
        children = (padded(values.getField(child.physical_name), child).alias(child.physical_name) for child in kind)
        return sf.when(values.isNotNull(), sf.struct(*children))
    if isinstance(kind, List):
        return sf.transform(values, lambda one: padded(one, kind.element))
    if isinstance(kind, Map):
        return sf.transform_values(values, lambda _, value: padded(value, kind.value))
    length = field.length
    if length is None or not length.is_padded:
        return values
    is_short = sf.char_length(values) < length.characters
    return sf.when(is_short, sf.rpad(values, length.characters, " ")).otherwise(values)
