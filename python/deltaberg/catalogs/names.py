"""The names of namespaces and tables in catalogs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.lossless_json import has_lone_surrogate

__all__ = ["Identifier", "Levels", "identifier_levels", "namespace_levels"]

#: A name as text, with dots between its levels, or as a sequence of levels.
Identifier: TypeAlias = "str | Sequence[str]"
#: The levels of a name: those of the namespace, followed by the name of the table if it is one.
Levels: TypeAlias = tuple[str, ...]


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def namespace_levels(namespace: Identifier) -> Levels:
    """Return the levels of a namespace. The top has none."""
    given: object = namespace.split(".") if isinstance(namespace, str) and namespace else namespace
    levels: tuple[object, ...] = tuple(given) if isinstance(given, (list, tuple, str)) else (None,)
    texts = (level for level in levels if isinstance(level, str) and level and not has_lone_surrogate(level))
    names = tuple(level for level in texts if not _CONTROL.search(level))
    if len(names) < len(levels):
        raise InvalidArgumentError(
            f"{shown_value(namespace)} is not the name of a namespace or table",
            hint="pass 'a.b' or ('a', 'b'), without empty levels",
        )
    return names


def identifier_levels(identifier: Identifier) -> Levels:
    """Return the levels of a table's name."""
    levels = namespace_levels(identifier)
    if not levels:
        raise InvalidArgumentError("the name of a table is empty", hint="pass 'namespace.table'")
    return levels
