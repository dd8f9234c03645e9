"""Maps that have a key twice: Spark reads them from files, and its own writer would write them again.

Spark looks at the maps as it writes them, and its error becomes the one that our own writer raises.
"""

from __future__ import annotations

import json

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf

from deltaberg.errors import ConstraintViolationError
from deltaberg.schema.columns import join_name
from deltaberg.schema.rows.map_keys import repeated_key
from deltaberg.schema.rows.shown_scalar import MOST_SHOWN, shown_scalar
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, inner_types, nested_fields

__all__ = ["has_known_keys", "refused_key", "refusing_repeated_keys"]

_TEXT = Primitive("string")
#: Types of keys that Spark compares by a hash, as we do, and that look alike in JSON and in Python.
_KNOWN = frozenset({_TEXT, *map(Primitive, ("byte", "short", "integer", "long"))})
_MARK = "deltaberg: a map has a key twice: "
_Path = tuple[str, ...]


def has_known_keys(kind: Map) -> bool:
    """Return whether Spark can detect duplicate keys of maps of this type."""
    return kind.key.type in _KNOWN


def refusing_repeated_keys(values: Column, field: Field) -> Column:
    """Return the same values of a field of the table. Spark fails where one of them holds a map with a key twice."""
    if not _holds_maps(field.type):
        return values
    repeated = _repeated(values, field.type, (field.name,))
    return sf.when(repeated.isNotNull(), sf.raise_error(repeated)).otherwise(values)


def refused_key(error: BaseException | None) -> ConstraintViolationError | None:
    """Return what our own writer raises where Spark has failed at a map with a key twice; None for other errors."""
    while error is not None:
        _, mark, rest = str(error).partition(_MARK)
        if mark:
            told, _ = json.JSONDecoder().raw_decode(rest)
            return repeated_key(shown_scalar(pa.scalar(told["key"])), told["column"])
        # Spark 4.0 hides the error of a task behind that of the job.
        error = getattr(error, "cause", None)
    return None


def _holds_maps(kind: DataType) -> bool:
    return any(isinstance(one, Map) for one in inner_types(kind))


def _repeated(values: Column, kind: DataType, path: _Path) -> Column:
    """Return a text about the first key that a value has twice in one of its maps; null if there is none."""
    if isinstance(kind, List):
        return _first(values, kind.element, path)
    if isinstance(kind, Map):
        keys = sf.map_keys(values)
        own = sf.when(sf.size(keys) != sf.size(sf.array_distinct(keys)), _text(keys, kind.key.type, path))
        is_deep = _holds_maps(kind.value.type)
        return sf.coalesce(own, _first(sf.map_values(values), kind.value, path)) if is_deep else own
    children = [child for child in nested_fields(kind) if _holds_maps(child.type)]
    return sf.coalesce(*(_repeated(values.getField(one.name), one.type, (*path, one.name)) for one in children))


def _first(found: Column, part: Field, path: _Path) -> Column:
    """Return the first text about a key in the elements of a list, or in the values of a map."""
    texts = sf.transform(found, lambda one: _repeated(one, part.type, (*path, part.name)))
    return sf.get(sf.filter(texts, lambda text: text.isNotNull()), sf.lit(0))


def _text(keys: Column, kind: DataType, path: _Path) -> Column:
    ordered = sf.array_sort(keys)
    following = sf.slice(ordered, 2, sf.size(keys))
    pairs = sf.zip_with(ordered, following, lambda one, other: sf.when(one == other, one))
    key = sf.get(sf.filter(pairs, lambda one: one.isNotNull()), sf.lit(0))
    # Long texts are shown in part.
    shown = sf.substring(key, 1, MOST_SHOWN + 1) if kind == _TEXT else key
    told = sf.struct(sf.lit(join_name(path)).alias("column"), shown.alias("key"))
    return sf.concat(sf.lit(_MARK), sf.to_json(told))
