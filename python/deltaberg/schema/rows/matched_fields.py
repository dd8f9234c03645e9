"""Finding the columns of a table that the columns of rows are for, by their names."""

from __future__ import annotations

from collections.abc import Sequence

from deltaberg.errors import SchemaError
from deltaberg.schema.columns import field_finder, join_name
from deltaberg.schema.types import Struct

__all__ = ["ADD_COLUMNS", "match_fields", "places_of_fields"]


def places_of_fields(want: Struct, names: Sequence[str], path: tuple[str, ...] = ()) -> dict[str, int]:
    """Return the numbers of given fields by the names of the wanted ones that they are for; see `match_fields`.

    Raises
    ------
    SchemaError
        If the name of a given field is ambiguous, or two are for the same.
    """
    find = field_finder(want)
    taken: dict[str, int] = {}
    for number, name in enumerate(names):
        child = find(name)
        if child is None:
            continue
        if child.name in taken:
            raise SchemaError(
                f"the rows have two columns for {child.name!r}: {names[taken[child.name]]!r} and {name!r}",
                column=join_name((*path, child.name)),
            )
        taken[child.name] = number
    return taken


#: What helps if rows have columns that the table lacks.
ADD_COLUMNS = 'leave them out, or use ⟪schema_mode="merge"⟫ to add columns to the table'


def match_fields(want: Struct, names: Sequence[str], path: tuple[str, ...]) -> list[int | None]:
    """Return, for each wanted field, the number of the given field that it comes from; None if there is none.

    Names match exactly, or else without regard to case.

    Parameters
    ----------
    want
        The fields of the table.
    names
        The names of the given fields.
    path
        The names that lead to the struct, for messages.

    Raises
    ------
    SchemaError
        If a given field is not wanted, its name is ambiguous, two are for the same, or one that must not be null is
        missing.

    Examples
    --------
    >>> from deltaberg.schema.types import Field, Primitive
    >>> long = Primitive("long")
    >>> match_fields(Struct((Field("x", long), Field("y", long), Field("z", long))), ["Y", "x"], ())
    [1, 0, None]
    """
    taken = places_of_fields(want, names, path)
    known = frozenset(taken.values())
    extra = [join_name((*path, given)) for number, given in enumerate(names) if number not in known]
    if extra:
        raise SchemaError(
            f"the rows have columns that the table does not have: {', '.join(extra)}",
            hint=ADD_COLUMNS,
            column=extra[0],
        )
    for child in want:
        if child.name not in taken and not child.nullable:
            raise SchemaError("the rows lack a column that must not be null", column=join_name((*path, child.name)))
    return [taken.get(child.name) for child in want]
