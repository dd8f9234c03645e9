"""Avro schemas with Iceberg's field ids (Iceberg spec, Appendix A, "Avro")."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from deltaberg.errors import CorruptAvroError, SchemaError
from deltaberg.schema.name_mapping import FIELD_ID

__all__ = ["AvroField", "AvroType", "arrow_field_of", "parse_avro_schema"]

_DEEPEST = 90
_MOST_PARTS = 100_000
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
#: Logical types of 64-bit integers and their units; Iceberg's attribute ``adjust-to-utc`` says which are instants.
_TIMESTAMPS = {
    "timestamp-millis": "ms",
    "timestamp-micros": "us",
    "timestamp-nanos": "ns",
    "local-timestamp-millis": "ms",
    "local-timestamp-micros": "us",
    "local-timestamp-nanos": "ns",
}


@dataclass(frozen=True)
class AvroType:
    """A type of the writer's schema.

    ``kind`` is the name that the kernel `decode_avro` uses. ``fields`` holds the fields of a record, the element of an
    array, the value of a map, or the branches of a union.
    """

    kind: str
    fields: tuple[AvroField, ...] = ()
    size: int = 0
    logical: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)
    #: How many types the type consists of. Types that are used by their names count each time.
    parts: int = field(default=1, init=False, hash=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", 1 + sum(child.type.parts for child in self.fields))

    @property
    def value(self) -> AvroType:
        """The type without null: for a union of null and one other type, that type."""
        if self.kind != "union":
            return self
        others = [branch.type for branch in self.fields if branch.type.kind != "null"]
        return others[0] if len(others) == 1 else self


@dataclass(frozen=True)
class AvroField:
    """A part of a type, with its field id where the writer recorded one."""

    name: str
    type: AvroType
    id: int | None = None


# The manifests of a table are many, and their schemas few.
@lru_cache(maxsize=64)
def parse_avro_schema(text: bytes | str) -> AvroType:
    """Read the writer's schema of an Avro file, whose rows are records.

    Raises
    ------
    CorruptAvroError
        If the text is not a schema of a record.
    """
    try:
        schema = _Parser().parse(json.loads(text), 0)
    except (ValueError, RecursionError) as error:
        if isinstance(error, CorruptAvroError):
            raise
        raise CorruptAvroError(f"the Avro schema is not JSON: {error}") from None
    if schema.kind != "record":
        raise CorruptAvroError(f"the rows of the Avro file are of type {schema.kind}, not records")
    return schema


class _Parser:
    """Reads types, and remembers the named ones, since a name may be used after its definition."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._types = 0

    def parse(self, node: Any, depth: int) -> AvroType:
        found = self._parse(node, depth)
        if found.parts > _MOST_PARTS:
            raise CorruptAvroError(f"a type of the Avro schema consists of more than {_MOST_PARTS} others")
        return found

    def _parse(self, node: Any, depth: int) -> AvroType:
        self._types += 1
        if depth > _DEEPEST or self._types > _MOST_PARTS:
            raise CorruptAvroError("the Avro schema is nested too deeply")
        if isinstance(node, list):
            branches = [AvroField("", self.parse(branch, depth + 1)) for branch in node]
            return AvroType("union", tuple(branches))
        if isinstance(node, str):
            return self._by_name(node)
        if not isinstance(node, dict):
            raise CorruptAvroError(f"{node!r} is not an Avro type")
        kind = node.get("type")
        if isinstance(kind, (dict, list)):
            return self.parse(kind, depth + 1)
        parse = {"record": self._record, "array": self._array, "map": self._map}.get(str(kind))
        if parse is not None:
            return parse(node, depth)
        if kind == "fixed":
            return self._fixed(node)
        if kind == "enum":
            return self._define(node, AvroType("int", logical="enum"))
        if not isinstance(kind, str):
            raise CorruptAvroError(f"an Avro type is {kind!r}")
        return AvroType(self._by_name(kind).kind, logical=_text(node.get("logicalType")), attributes=node)

    def _by_name(self, name: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroType(name)
        found = self._named.get(name) or self._named.get(name.rpartition(".")[2])
        if found is None:
            raise CorruptAvroError(f"the Avro schema uses the type {name!r} before it defines it")
        return found

    def _define(self, node: Mapping[str, Any], defined: AvroType) -> AvroType:
        name = node.get("name")
        if isinstance(name, str):
            self._named[name] = defined
            self._named[name.rpartition(".")[2]] = defined
        return defined

    def _record(self, node: Mapping[str, Any], depth: int) -> AvroType:
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise CorruptAvroError("a record of the Avro schema has no fields")
        parsed = []
        for child in fields:
            if not isinstance(child, dict) or not isinstance(child.get("name"), str) or "type" not in child:
                raise CorruptAvroError("a field of the Avro schema has no name or no type")
            parsed.append(AvroField(child["name"], self.parse(child["type"], depth + 1), _id(child, "field-id")))
        found = AvroType("record", tuple(parsed), logical=_text(node.get("logicalType")), attributes=node)
        return self._define(node, found)

    def _array(self, node: Mapping[str, Any], depth: int) -> AvroType:
        element = AvroField("element", self.parse(node.get("items"), depth + 1), _id(node, "element-id"))
        logical = _text(node.get("logicalType"))
        record = element.type.value
        is_map = logical == "map" and record.kind == "record" and len(record.fields) == 2
        return AvroType("pairs" if is_map else "array", (element,), logical=logical, attributes=node)

    def _map(self, node: Mapping[str, Any], depth: int) -> AvroType:
        value = AvroField("value", self.parse(node.get("values"), depth + 1), _id(node, "value-id"))
        return AvroType("map", (value,), attributes=node)

    def _fixed(self, node: Mapping[str, Any]) -> AvroType:
        size = node.get("size")
        if type(size) is not int or not 0 <= size <= 1 << 30:
            raise CorruptAvroError(f"a fixed type of the Avro schema has {size!r} bytes")
        return self._define(node, AvroType("fixed", (), size, _text(node.get("logicalType")), node))


def _id(node: Mapping[str, Any], key: str) -> int | None:
    number = node.get(key)
    if number is None:
        return None
    if type(number) is not int or not 0 <= number < 1 << 31:
        raise CorruptAvroError(f"{key} is {number!r} in the Avro schema")
    return number


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def arrow_field_of(child: AvroField) -> pa.Field:
    """Return the Arrow field that holds the values of a field unchanged, with its id in the metadata.

    Raises
    ------
    SchemaError
        If there is no such Arrow type, as for a union of several types.
    """
    metadata = None if child.id is None else {FIELD_ID: str(child.id)}
    return pa.field(child.name, _arrow_type(child.type), metadata=metadata)


def _arrow_type(found: AvroType) -> pa.DataType:
    value = found.value
    kind = value.kind
    logical = _logical_type(value)
    if logical is not None:
        return logical
    if kind == "fixed":
        return pa.binary(value.size)
    if kind == "record":
        return pa.struct([arrow_field_of(child) for child in value.fields])
    if kind == "array":
        return pa.list_(arrow_field_of(value.fields[0]))
    if kind == "pairs":
        key, item = value.fields[0].type.value.fields
        return pa.map_(arrow_field_of(key).with_nullable(False), arrow_field_of(item))
    if kind == "map":
        key = AvroField("key", AvroType("string"), _id(value.attributes, "key-id"))
        return pa.map_(arrow_field_of(key).with_nullable(False), arrow_field_of(value.fields[0]))
    known = _ARROW.get(kind)
    if known is None or value.logical == "enum":
        raise SchemaError(f"the Avro file has values of type {value.logical or kind}, which no column holds")
    return known


def _logical_type(value: AvroType) -> pa.DataType | None:
    """Return the type that a logical type gives to a primitive; None if it does not change it."""
    kind, logical, attributes = value.kind, value.logical, value.attributes
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = attributes.get("precision"), attributes.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision <= 38 or not precision:
            raise SchemaError(
                f"the Avro file has a decimal of {precision!r} digits, {scale!r} of them after the decimal point"
            )
        return pa.decimal128(precision, scale)
    if kind == "long" and logical in _TIMESTAMPS:
        return pa.timestamp(_TIMESTAMPS[logical], "UTC" if attributes.get("adjust-to-utc") is True else None)
    return _TIMES.get((kind, logical))


_TIMES: dict[tuple[str, str | None], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "time-nanos"): pa.time64("ns"),
}
_ARROW = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
