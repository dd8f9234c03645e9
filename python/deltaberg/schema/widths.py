"""Estimates of how many bytes a value takes, to compare the costs of columns before anything is read."""

from __future__ import annotations

from deltaberg.schema.types import DataType, Decimal, Fixed, List, Map, Primitive, Struct, nested_fields

__all__ = ["typical_width"]

_WIDTHS = {
    **dict.fromkeys(("boolean", "byte", "void"), 1),
    "short": 2,
    **dict.fromkeys(("integer", "float", "date"), 4),
    **dict.fromkeys(("uuid", "decimal"), 16),
    "string": 20,
    **dict.fromkeys(("binary", "variant"), 64),
}
_WIDTH = 8
#: How many elements a list, and how many entries a map, is assumed to have.
_ELEMENTS = 4


def typical_width(kind: DataType) -> int:
    """Estimate the bytes of a value before compression."""
    if isinstance(kind, Struct):
        return sum(typical_width(child.type) for child in kind)
    if isinstance(kind, (List, Map)):
        return _ELEMENTS * sum(typical_width(child.type) for child in nested_fields(kind))
    if isinstance(kind, Fixed):
        return kind.length
    if isinstance(kind, Decimal):
        return _WIDTHS["decimal"]
    return _WIDTHS.get(kind.name, _WIDTH) if isinstance(kind, Primitive) else _WIDTH
