"""Finding the column that a name means.

A name means the column that it matches exactly. Failing that, it means the only column that it matches when case is
ignored. Otherwise an error suggests similar names. Dots lead into structs; a name with a literal dot is put in
backticks, or passed as a tuple. It is also found without them where nothing else has this name.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, cast

from deltaberg.errors import ColumnNotFoundError, InvalidArgumentError, SchemaError
from deltaberg.hints import shown_value, verbatim
from deltaberg.lists import has_no_order, is_list, listed
from deltaberg.lossless_json import has_lone_surrogate
from deltaberg.schema.types import DataType, Field, List, Map, Struct

__all__ = [
    "ColumnName",
    "ColumnNames",
    "ColumnValues",
    "UpdateWords",
    "column_names",
    "dotted_path",
    "field_finder",
    "fields_given",
    "find_column",
    "find_path",
    "find_sibling",
    "join_name",
    "listed_names",
    "narrowed",
    "paired_fields",
    "select_columns",
    "split_name",
    "taken_name",
]

#: How callers name a column: text with dots, or a sequence of names.
ColumnName = str | Sequence[str]
#: How callers name several: by one name, or by what holds names in their order, of whichever library.
ColumnNames = str | Iterable[ColumnName]
#: How callers give values by column. Keys of mappings are invariant, so that one of texts alone is a type of its own.
ColumnValues = Mapping[str, Any] | Mapping[ColumnName, Any] | Mapping[tuple[str, ...], Any]


class UpdateWords(TypedDict, total=False):
    """The word of other libraries for new values by column."""

    updates: ColumnValues


_LIST_OF_NAMES = 'pass a name, or a list of them such as ["day", "region"]'


def split_name(name: ColumnName) -> tuple[str, ...]:
    """Split a name at its dots.

    Examples
    --------
    >>> split_name("a.b")
    ('a', 'b')
    >>> split_name("`a.b`.c")
    ('a.b', 'c')
    >>> split_name(("a.b",))
    ('a.b',)
    """
    if not isinstance(name, str):
        path: object = name
        if not isinstance(path, (tuple, list)) or not all(isinstance(part, str) for part in path):
            raise InvalidArgumentError(
                f"{shown_value(name)} is not a column name", hint="pass text, or a tuple of names"
            )
        if not path:
            raise InvalidArgumentError("a column name has no parts")
        for part in path:
            _check_unicode(part)
        return tuple(path)
    _check_unicode(name)
    parts: list[str] = []
    at = 0
    while True:
        if name.startswith("`", at):
            part, at = _quoted(name, at)
        else:
            end = name.find(".", at)
            end = len(name) if end < 0 else end
            part, at = name[at:end], end
        if not part:
            raise InvalidArgumentError(f"{name!r} is not a column name", hint="there is an empty part between its dots")
        parts.append(part)
        if at == len(name):
            return tuple(parts)
        if name[at] != ".":
            raise InvalidArgumentError(f"{name!r} is not a column name", hint="a dot must follow the closing backtick")
        at += 1


def _check_unicode(name: str) -> None:
    if has_lone_surrogate(name):
        raise InvalidArgumentError(f"{name!r} is not a column name", hint="it is not valid Unicode")


def column_names(argument: ColumnNames | None, *, ordered: bool = True) -> tuple[ColumnName, ...]:
    """Return the names that an argument holds. A text is one name, and None stands for none.

    Parameters
    ----------
    ordered
        Whether the order of the names counts, so that a set is refused.

    Examples
    --------
    >>> column_names("day"), column_names(["day", "region"])
    (('day',), ('day', 'region'))
    """
    if argument is None:
        return ()
    if isinstance(argument, Mapping) or not (isinstance(argument, str) or is_list(argument)):
        raise InvalidArgumentError(f"{shown_value(argument)} does not name columns", hint=_LIST_OF_NAMES)
    if ordered and has_no_order(argument):
        raise InvalidArgumentError(f"the names in {shown_value(argument)} have no order", hint=_LIST_OF_NAMES)
    return tuple(map(_plain_name, listed(argument)))


def _plain_name(name: Any) -> ColumnName:
    if not isinstance(name, str):
        return split_name(name)
    # A text may be more than a name, such as a transform of one.
    _check_unicode(name)
    # Messages show texts of numpy with their class.
    return str.__str__(name)


def listed_names(names: Sequence[ColumnName | ColumnNames]) -> tuple[ColumnName, ...]:
    """Return the names that are given one after the other, or in one list. A tuple is the path of a single column.

    Examples
    --------
    >>> listed_names((["day", "region"],)), listed_names(("day", "region")), listed_names((("s", "x"),))
    (('day', 'region'), ('day', 'region'), (('s', 'x'),))
    """
    is_one_list = len(names) == 1 and not isinstance(names[0], tuple)
    return column_names(cast("ColumnNames", names[0] if is_one_list else names))


def join_name(path: Sequence[str]) -> str:
    """Return the name that `split_name` splits into these parts, with backticks around parts that need them.

    Examples
    --------
    >>> join_name(("a.b", "c"))
    '`a.b`.c'
    """
    return ".".join("`" + part.replace("`", "``") + "`" if set(part) & set(".,`") else part for part in path)


def _quoted(name: str, at: int) -> tuple[str, int]:
    """Read a part in backticks, in which two backticks stand for one."""
    part = ""
    at += 1
    while True:
        end = name.find("`", at)
        if end < 0:
            raise InvalidArgumentError(f"{name!r} is not a column name", hint="a backtick is not closed")
        part += name[at:end]
        at = end + 1
        if not name.startswith("`", at):
            return part, at
        part, at = part + "`", at + 1


def find_column(schema: Struct, name: ColumnName) -> tuple[Field, ...]:
    """Return the fields from the root to the column that a name means.

    If the whole name, dots included, is that of a top-level column, it means that column.

    Raises
    ------
    ColumnNotFoundError
        If there is no such column, or if several match: names that differ in case, or a column with a dot in its name
        and the field of a struct.
    """
    if isinstance(name, str):
        whole = schema.get(name)
        if whole is not None:
            path = tuple(name.split("."))
            if len(path) > 1 and "`" not in name and path in _readings(schema, path):
                raise _several(name, [(name,), path])
            return (whole,)
    return find_path(schema, split_name(name))


def find_sibling(fields: Struct, name: ColumnName) -> Field:
    """Return the field of a struct that a name without the struct's own means.

    Raises
    ------
    ColumnNotFoundError
        There is none, or the name is that of a field inside one of them.
    """
    path = split_name(name)
    fields_on_path = find_path(fields, path if len(path) == 1 else dotted_path(fields, path))
    if len(fields_on_path) > 1:
        shown = join_name([field.name for field in fields_on_path])
        raise ColumnNotFoundError(
            f"{shown} is in another struct", hint="name a column, or a field of the same struct", column=shown
        )
    return fields_on_path[0]


def dotted_path(kind: DataType, path: Sequence[str]) -> tuple[str, ...]:
    """Return a path of names in which those with dots are whole again, which nobody put in backticks.

    A path that leads to a field as it is, or to none at all, stays as it is. ``element``, ``key`` and ``value`` lead
    into lists and maps.

    Raises
    ------
    ColumnNotFoundError
        Names with dots lead to several fields.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> inner = Struct((Field("x.y", Primitive("long")),))
    >>> dotted_path(Struct((Field("s", inner),)), ("s", "x", "y"))
    ('s', 'x.y')
    """
    plain = tuple(path)
    found = list(_readings(kind, plain))
    if len(found) > 1 and plain not in found:
        raise _several(".".join(path), found)
    return found[0] if len(found) == 1 else plain


def _readings(kind: DataType, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Return all paths that have these names if their dots are taken for those between names."""
    if not path:
        yield ()
        return
    inside: dict[str, tuple[int, DataType]] = {}
    if isinstance(kind, Struct):
        folded = [part.lower() for part in path]
        for child in kind:
            parts = child.name.lower().split(".")
            count = 1 if folded[0] == child.name.lower() else len(parts)
            if (count == 1 and len(parts) > 1) or folded[:count] == parts:
                inside[".".join(path[:count])] = count, child.type
    elif isinstance(kind, List) and path[0] == "element":
        inside["element"] = 1, kind.element.type
    elif isinstance(kind, Map) and path[0] in ("key", "value"):
        inside[path[0]] = 1, (kind.key if path[0] == "key" else kind.value).type
    for step, (count, of) in inside.items():
        for rest in _readings(of, path[count:]):
            yield (step, *rest)


def taken_name(name: str) -> SchemaError:
    """Return the error for a new column whose name another one has."""
    return SchemaError(f"there is a column {name!r} already", hint="choose another name", column=name)


def _several(name: str, paths: Iterable[Sequence[str]]) -> ColumnNotFoundError:
    shown = " and ".join(join_name(path) for path in paths)
    return ColumnNotFoundError(
        f"{name!r} is ambiguous: it may be {shown}",
        hint="put names with dots in backticks, or pass a tuple",
        column=name,
    )


def fields_given(kind: DataType, row_type: DataType, *, required: bool = True) -> DataType:
    """Return the type of a column without the fields of structs that given rows lack.

    Parameters
    ----------
    kind, row_type
        The type of the column, and that of the rows.
    required
        Whether fields that must not be null are kept, also if the rows lack them.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> one, two = (Field(name, Primitive("long")) for name in "ab")
    >>> fields_given(Struct((one, two)), Struct((two,))).names
    ['b']
    """
    if not isinstance(kind, Struct) or not isinstance(row_type, Struct):
        return kind
    pairs = paired_fields(kind, row_type)
    kept = [
        replace(child, type=fields_given(child.type, pairs.get(child.name, child).type, required=required))
        for child in kind
        if child.name in pairs or (required and not child.nullable)
    ]
    return Struct(tuple(kept))


def field_finder(fields: Struct) -> Callable[[str], Field | None]:
    """Return what finds the field that a name means: the one of this name, or the only one if case is ignored.

    It raises `SchemaError` for a name that means several fields. To find one costs the same however many there are.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> find = field_finder(Struct((Field("id", Primitive("long")),)))
    >>> find("ID").name, find("d")
    ('id', None)
    """
    exact = {child.name: child for child in fields}
    folded: dict[str, list[Field]] = {}
    for child in fields:
        folded.setdefault(child.name.lower(), []).append(child)

    def find(name: str) -> Field | None:
        if name in exact:
            return exact[name]
        alike = folded.get(name.lower(), [])
        if len(alike) > 1:
            names = ", ".join(child.name for child in alike)
            raise SchemaError(f"{name!r} is ambiguous: {names} differ only in case", column=name)
        return alike[0] if alike else None

    return find


def paired_fields(columns: Struct, fields: Struct) -> dict[str, Field]:
    """Return which of the found fields is for which of the wanted ones, by the names of these.

    A field of the same name comes before one whose name differs in case.

    Raises
    ------
    SchemaError
        A name is ambiguous.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> some, others = (Struct(tuple(Field(name, Primitive("long")) for name in names)) for names in ("ab", "BbC"))
    >>> {name: field.name for name, field in paired_fields(some, others).items()}
    {'b': 'b'}
    """
    find = field_finder(columns)
    pairs: dict[str, Field] = {}
    for child in fields:
        own = find(child.name)
        if own is None:
            continue
        other = pairs.get(own.name)
        if other is None or child.name == own.name:
            pairs[own.name] = child
        elif other.name != own.name:
            raise SchemaError(
                f"{own.name!r} is ambiguous: {other.name} and {child.name} differ only in case", column=own.name
            )
    return pairs


def find_path(schema: Struct, path: Sequence[str]) -> tuple[Field, ...]:
    """Return the fields along a path of names, or else along the one path that it is with dots in its names."""
    try:
        return _along(schema, path)
    except ColumnNotFoundError:
        whole = dotted_path(schema, path)
        if whole == tuple(path):
            raise
        return _along(schema, whole)


def _along(schema: Struct, path: Sequence[str]) -> tuple[Field, ...]:
    fields: list[Field] = []
    inside = schema
    for depth, part in enumerate(path):
        child = _match(inside, part, path)
        fields.append(child)
        if depth + 1 < len(path):
            if not isinstance(child.type, Struct):
                shown = ".".join(path[: depth + 1])
                raise ColumnNotFoundError(f"{shown} has the type {child.type} and no fields", column=".".join(path))
            inside = child.type
    if not fields:
        raise InvalidArgumentError("a column name has no parts")
    return tuple(fields)


def _match(schema: Struct, name: str, path: Sequence[str]) -> Field:
    exact = schema.get(name)
    if exact is not None:
        return exact
    folded = [field for field in schema if field.name.lower() == name.lower()]
    if len(folded) == 1:
        return folded[0]
    shown = ".".join(path)
    if folded:
        names = ", ".join(field.name for field in folded)
        raise ColumnNotFoundError(f"{name!r} is ambiguous: {names} differ only in case", column=shown)
    raise ColumnNotFoundError(f"there is no column {shown!r}", hint=_suggest(name, schema.names), column=shown)


def _suggest(name: str, names: Sequence[str]) -> str:
    lowered = {known.lower(): known for known in names}
    near = [lowered[match] for match in difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)]
    if near:
        return verbatim(f"did you mean {', '.join(near)}?")
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"the columns are {verbatim(shown)}" if names else "the table has no columns"


def select_columns(schema: Struct, names: Iterable[ColumnName]) -> Struct:
    """Return the part of a schema that names select, in the order of the names.

    Fields of the same struct are gathered where the first of them is named. The name of a struct selects all of it.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> inner = Struct((Field("x", Primitive("long")), Field("y", Primitive("long"))))
    >>> schema = Struct((Field("a", Primitive("string")), Field("s", inner)))
    >>> str(select_columns(schema, ["s.y", "a"]))
    'struct<s: struct<y: long>, a: string>'
    """
    chosen: dict[str, Field] = {}
    for name in names:
        path = find_column(schema, name)
        top = path[0].name
        chosen[top] = _merge(chosen.get(top), narrowed(path))
    return Struct(tuple(chosen.values()))


def narrowed(path: tuple[Field, ...]) -> Field:
    """Return the first field of a path, reduced to the rest of the path."""
    first, *rest = path
    return replace(first, type=Struct((narrowed(tuple(rest)),))) if rest else first


def _merge(selected: Field | None, added: Field) -> Field:
    if selected is None or selected == added:
        return added
    if not isinstance(selected.type, Struct) or not isinstance(added.type, Struct):
        raise SchemaError(f"column {added.name!r} is selected twice in different ways", column=added.name)
    fields = {field.name: field for field in selected.type}
    for field in added.type:
        fields[field.name] = _merge(fields.get(field.name), field)
    return replace(selected, type=Struct(tuple(fields.values())))
