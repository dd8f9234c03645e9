"""Table types, common to both formats.

A type is an immutable tree. The elements of lists and the keys and values of maps are fields too, since both formats
give them ids. ``timestamp`` is an instant, stored in UTC; ``timestamp_ntz`` is the reading of a wall clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, final

from deltaberg.errors import SchemaError
from deltaberg.signatures import say_what_to_write
from deltaberg.whole_numbers import bits_of_endless

__all__ = [
    "DataType",
    "Decimal",
    "Field",
    "Fixed",
    "List",
    "Map",
    "Primitive",
    "Struct",
    "TextLength",
    "fields_inside",
    "inner_types",
    "nested_fields",
    "nullable_field",
    "shown_type",
]


#: Integers of more bits have more digits than Python writes, which are 4,300.
_MOST_SHOWN = 14_280


def _check(of: object, types: type | tuple[type, ...], *names: str) -> None:
    """Refuse a type or a field of which a part is none, and numbers that nobody could write."""
    for name in names:
        value = getattr(of, name)
        if not isinstance(value, types) or (isinstance(value, int) and value.bit_length() > 64):
            kinds = " or ".join(one.__name__ for one in (types if isinstance(types, tuple) else (types,)))
            bound = ", of at most 64 bits" if isinstance(value, int) and "int" in kinds else ""
            raise SchemaError(
                f"the {name} of a {type(of).__name__} must be of the type {kinds}{bound}", found=type(value).__name__
            )


@dataclass(frozen=True, eq=False)
class DataType:
    """The base class of all types."""


@final
@dataclass(frozen=True, eq=False)
class Primitive(DataType):
    """A type without parameters. There is one object of each name, since binding conditions compares many types.

    ``name`` is one of boolean, byte, short, integer, long, float, double, string, binary, uuid, date, time (in
    microseconds), timestamp, timestamp_ntz (both in microseconds), timestamp_ns, timestamp_ntz_ns, void and variant.
    """

    name: str

    def __new__(cls, name: str) -> Primitive:
        """Return the type of a name, which is made once.

        Raises
        ------
        SchemaError
            The name is no text.
        """
        if not isinstance(name, str):
            raise SchemaError("the name of a Primitive must be of the type str", found=type(name).__name__)
        return _KNOWN.get(name) or _KNOWN.setdefault(name, super().__new__(cls))

    def __reduce__(self) -> tuple[type[Primitive], tuple[str]]:
        return Primitive, (self.name,)

    def __str__(self) -> str:
        return self.name


_KNOWN: dict[str, Primitive] = {}


@dataclass(frozen=True)
class Decimal(DataType):
    """A decimal of up to 38 digits."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        _check(self, int, "precision", "scale")

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True)
class Fixed(DataType):
    """Bytes of a fixed length."""

    length: int

    def __post_init__(self) -> None:
        _check(self, int, "length")

    def __str__(self) -> str:
        return f"fixed({self.length})"


@dataclass(frozen=True)
class TextLength:
    """The most characters of a column's texts: CHAR(n), whose shorter texts end with spaces, or VARCHAR(n)."""

    characters: int
    is_padded: bool

    def __post_init__(self) -> None:
        _check(self, int, "characters")
        _check(self, bool, "is_padded")

    def __str__(self) -> str:
        return f"{'CHAR' if self.is_padded else 'VARCHAR'}({self.characters})"


@dataclass(frozen=True)
class Field:
    """A named part of a struct, the element of a list, or the key or value of a map.

    ``physical_name`` is the name in data files, partition values and statistics; ``id`` is the field id in files, if
    they have ids. ``default`` is the value, in a form that Arrow can convert, of rows in files that were written before
    the field was added. ``metadata`` holds whatever else the format stores about the field. ``length`` is that of its
    texts, if they have one.
    """

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    id: int | None = None
    physical_name: str = ""
    default: Any = field(default=None, hash=False)
    length: TextLength | None = None

    def __post_init__(self) -> None:
        _check(self, str, "name", "physical_name")
        _check(self, DataType, "type")
        _check(self, (int, NoneType), "id")
        _check(self, (TextLength, NoneType), "length")
        _check(self, bool, "nullable")
        _check(self, Mapping, "metadata")
        if self.default is not None and bits_of_endless((self.default,)):
            raise SchemaError("a Field has a number that is too long for its default")
        # What others wrote is carried as it is, but for what Python could not even show.
        if self.metadata and (bits_of_endless((dict(self.metadata),)) or 0) > _MOST_SHOWN:
            raise SchemaError("a Field has a number that is too long for its metadata")
        if not self.physical_name:
            object.__setattr__(self, "physical_name", self.name)

    def __str__(self) -> str:
        return f"{self.name} {self.type}{'' if self.nullable else ' NOT NULL'}"


@say_what_to_write
@dataclass(frozen=True)
class Struct(DataType):
    """Named fields in order. The schema of a table is a struct."""

    fields: tuple[Field, ...] = ()

    def __post_init__(self) -> None:
        _check(self, tuple, "fields")
        for one in self.fields:
            if not isinstance(one, Field):
                raise SchemaError("the fields of a Struct must be of the type Field", found=type(one).__name__)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> list[str]:
        """The names of the fields, in order."""
        return [field.name for field in self.fields]

    def get(self, name: str) -> Field | None:
        """Return the field of exactly this name."""
        return next((field for field in self.fields if field.name == name), None)

    def __str__(self) -> str:
        return f"struct<{', '.join(f'{field.name}: {field.type}' for field in self.fields)}>"


@dataclass(frozen=True)
class List(DataType):
    """A list, whose elements have one type."""

    element: Field

    def __post_init__(self) -> None:
        _check(self, Field, "element")

    def __str__(self) -> str:
        return f"array<{self.element.type}>"


@dataclass(frozen=True)
class Map(DataType):
    """A map, whose keys are never null."""

    key: Field
    value: Field

    def __post_init__(self) -> None:
        _check(self, Field, "key", "value")

    def __str__(self) -> str:
        return f"map<{self.key.type}, {self.value.type}>"


def shown_type(kind: DataType) -> str:
    """Return how errors about rows name a type: the two formats call types of timestamps by each other's names."""
    words = {"timestamp": "timestamp with a zone", "timestamp_ntz": "timestamp without a zone"}
    return words.get(kind.name, kind.name) if isinstance(kind, Primitive) else str(kind)


def nested_fields(within: DataType) -> tuple[Field, ...]:
    """Return the fields of a struct, the element of a list, or the key and value of a map."""
    if isinstance(within, Struct):
        return within.fields
    if isinstance(within, List):
        return (within.element,)
    if isinstance(within, Map):
        return (within.key, within.value)
    return ()


def field_paths(within: DataType, above: tuple[Field, ...] = ()) -> Iterator[tuple[Field, ...]]:
    """Yield the fields that lead to each field, element, key and value in a type, at any depth, outer ones first.

    Examples
    --------
    >>> inner = Struct((Field("x", Primitive("long")),))
    >>> [".".join(field.name for field in path) for path in field_paths(Struct((Field("a", inner),)))]
    ['a', 'a.x']
    """
    for child in nested_fields(within):
        path = (*above, child)
        yield path
        yield from field_paths(child.type, path)


def fields_inside(within: DataType) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Return the fields, elements, keys and values in a type at any depth, each behind what it is in, and their paths.

    Examples
    --------
    >>> [".".join(path) for path, _ in fields_inside(Map(Field("key", Primitive("long")), Field("value", Struct(()))))]
    ['key', 'value']
    """
    return ((tuple(field.name for field in path), path[-1]) for path in field_paths(within))


def inner_types(within: DataType) -> Iterator[DataType]:
    """Return a type, and the types of all fields, elements, keys and values in it, at any depth.

    Examples
    --------
    >>> [str(kind) for kind in inner_types(List(Field("element", Primitive("uuid"))))]
    ['array<uuid>', 'uuid']
    """
    yield within
    for child in nested_fields(within):
        yield from inner_types(child.type)


def nullable_field(field: Field) -> Field:
    """Return a field that may be null at every depth, since rows that are there already lack it."""
    return replace(field, nullable=True, type=_nullable_type(field.type))


def _nullable_type(kind: DataType) -> DataType:
    if isinstance(kind, Struct):
        return Struct(tuple(nullable_field(child) for child in kind))
    if isinstance(kind, List):
        return List(nullable_field(kind.element))
    if isinstance(kind, Map):
        return Map(replace(kind.key, type=_nullable_type(kind.key.type)), nullable_field(kind.value))
    return kind
