"""CHAR(n) and VARCHAR(n) in Delta schemas: Spark records them in the metadata of a column, whose type is string.

The text is that of Spark's type of the whole column, such as ``char(5)`` or ``struct<a:varchar(3),b:array<int>>``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pyarrow as pa

from deltaberg.errors import CorruptLogError
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct, TextLength

__all__ = ["TEXT_TYPE", "text_length", "with_recorded_lengths", "with_text_types"]

#: The member of a field's metadata that holds the type.
TEXT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_LENGTH = re.compile(r"(var)?char\(\s*([0-9]{1,9})\s*\)", re.IGNORECASE)
_LIST, _MAP, _STRUCT = (re.compile(rf"{name}\s*<\s*", re.IGNORECASE) for name in ("array", "map", "struct"))
_NAME = re.compile(r"(?:`((?:[^`]|``)*)`|([^:<>,`]*?))\s*:\s*")
#: A type without parts, up to where it ends.
_PLAIN = re.compile(r"[^<>,():`]+(?:\([^()]*\))?[^<>,():`]*")
_END, _NEXT = re.compile(r">\s*"), re.compile(r",\s*")
_STRING = Primitive("string")


def text_length(kind: str) -> TextLength | None:
    """Return the length of ``char(n)`` or ``varchar(n)``; None for other types.

    Examples
    --------
    >>> print(text_length("varchar(10)"))
    VARCHAR(10)
    """
    found = _LENGTH.fullmatch(kind.strip())
    return None if found is None else TextLength(int(found[2]), is_padded=found[1] is None)


def with_text_types(field: Field, recorded: Any) -> Field:
    """Return a column with the lengths that its metadata records for the texts in it.

    Fields of structs that were renamed since are found by their places, and those that were added have no lengths.

    Raises
    ------
    CorruptLogError
        The text is not a type.

    Examples
    --------
    >>> found = with_text_types(Field("c", List(Field("element", Primitive("string")))), "array<char(2)>")
    >>> print(found.type.element.length)
    CHAR(2)
    """
    if isinstance(recorded, str):
        reader = _Reader(recorded.strip())
        try:
            tree = reader.read()
            reader.take(re.compile(r"\Z"))
        except (ValueError, RecursionError):
            pass
        else:
            return _with(field, tree)
    raise CorruptLogError(f"{TEXT_TYPE} is {recorded!r}, which is not a type", column=field.name)


def with_recorded_lengths(schema: pa.Schema, columns: Struct) -> pa.Schema:
    """Return an Arrow schema of columns whose fields have the lengths of their texts in their metadata."""
    for at, column in enumerate(columns):
        recorded = column.metadata.get(TEXT_TYPE)
        if recorded is not None:
            field = schema.field(at)
            schema = schema.set(at, field.with_metadata({**(field.metadata or {}), TEXT_TYPE: recorded}))
    return schema


class _Reader:
    """Reads a type: a length, None for other types without parts, or the parts of a list, map or struct by name."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def read(self) -> Any:
        if self._takes(_LIST):
            return self._parts("element")
        if self._takes(_MAP):
            return self._parts("key", "value")
        if self._takes(_STRUCT):
            return self._fields()
        return text_length(self.take(_PLAIN)[0])

    def take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Return what comes next, and go on behind it; a ValueError if it is something else."""
        found = self._takes(pattern)
        if found is None:
            raise ValueError
        return found

    def _parts(self, first: str, *others: str) -> dict[str, Any]:
        parts = {first: self.read()}
        for name in others:
            self.take(_NEXT)
            parts[name] = self.read()
        self.take(_END)
        return parts

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while not self._takes(_END):
            if fields:
                self.take(_NEXT)
            name = self.take(_NAME)
            fields[name[2] if name[1] is None else name[1].replace("``", "`")] = self.read()
        return fields

    def _takes(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._place)
        if found is not None:
            self._place = found.end()
        return found


def _with(field: Field, tree: Any) -> Field:
    if isinstance(tree, TextLength):
        return replace(field, length=tree) if field.type == _STRING else field
    return replace(field, type=_with_parts(field.type, tree)) if isinstance(tree, dict) else field


def _with_parts(kind: DataType, tree: dict[str, Any]) -> DataType:
    if isinstance(kind, List):
        return List(_with(kind.element, tree.get("element")))
    if isinstance(kind, Map):
        return Map(_with(kind.key, tree.get("key")), _with(kind.value, tree.get("value")))
    if isinstance(kind, Struct):
        places = list(tree.values()) if len(tree) == len(kind) else [None] * len(kind)
        return Struct(
            tuple(_with(child, tree.get(child.name, place)) for child, place in zip(kind, places, strict=True))
        )
    return kind
