"""Arguments of deltalake and pyiceberg that a method of ours lacks, refused by naming what does the same here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from deltaberg.errors import InvalidArgumentError

__all__ = [
    "DELETE_WORDS",
    "MERGE_WORDS",
    "NEEDED_TO_DELETE",
    "NEEDED_TO_UPDATE",
    "UPDATE_WORDS",
    "WRITE_WORDS",
    "our_words",
]

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_STRICT = {"error_on_type_mismatch": "leave it out: a value that does not fit its column always raises"}
#: Arguments of each verb, and what does the same here.
DELETE_WORDS = {"predicate": "pass where="}
UPDATE_WORDS = {
    "updates": "pass set=, whose texts are SQL as well",
    "new_values": 'pass set=, where the value of a text is quoted twice, as in {"name": "\'ada\'"}',
    "predicate": "pass where=",
    **_STRICT,
}
MERGE_WORDS = {
    "merge_schema": 'pass schema_mode="merge"',
    "streamed_exec": "leave it out: the source is read once in any case, and memory= bounds what is held of it",
    **_STRICT,
}
#: Arguments of pyiceberg's ``append`` and ``overwrite``.
WRITE_WORDS = {
    "df": "pass data=",
    "overwrite_filter": "pass where=",
    "snapshot_properties": "pass properties=",
    "case_sensitive": "leave it out: names are matched exactly, or else without regard to case",
}
#: Arguments that must be given.
NEEDED_TO_DELETE = {"where": "pass a condition, or where=None to delete all rows"}
NEEDED_TO_UPDATE = {"set": 'pass a new value for each column, as in {"price": "price * 2"}'}


def our_words(
    words: Mapping[str, str], needed: Mapping[str, str] | None = None
) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """Make a method refuse arguments of other libraries with an error that names our own.

    Parameters
    ----------
    words
        The arguments, and what the hint says of each.
    needed
        The first argument, if there must be one, and what the hint says if there is none.

    Examples
    --------
    >>> @our_words({"predicate": "pass where="})
    ... def delete(table, where): ...
    >>> delete("t", predicate="id = 1")
    Traceback (most recent call last):
        ...
    deltaberg.errors.InvalidArgumentError: delete() has no argument predicate
    hint: pass where=
    """

    def decorate(method: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        @wraps(method)
        def called(*args: _Given.args, **named: _Given.kwargs) -> _Result:
            for word in named:
                if word in words:
                    raise InvalidArgumentError(f"{method.__name__}() has no argument {word}", hint=words[word])
            for name, hint in (needed or {}).items():
                if len(args) < 2 and name not in named:
                    raise InvalidArgumentError(f"{method.__name__}() needs the argument {name}", hint=hint)
            return method(*args, **named)

        return called

    return decorate
