"""Arguments of deltalake and pyiceberg: other names of ours, and those that are refused with what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from deltaberg.errors import InvalidArgumentError

__all__ = [
    "DELETE_NAMES",
    "MERGE_WORDS",
    "NEEDED_TO_DELETE",
    "NEEDED_TO_UPDATE",
    "UPDATE_NAMES",
    "UPDATE_WORDS",
    "WRITE_NAMES",
    "WRITE_WORDS",
    "our_words",
]

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_STRICT = {"error_on_type_mismatch": "leave it out: a value that does not fit its column always raises"}
#: Arguments of each verb, and what does the same here.
UPDATE_WORDS = {
    "new_values": 'pass set=, where the value of a text is quoted twice, as in {"name": "\'ada\'"}',
    **_STRICT,
}
MERGE_WORDS = {
    "merge_schema": 'pass schema_mode="merge"',
    "streamed_exec": "leave it out: the source is read once in any case, and memory= bounds what is held of it",
    **_STRICT,
}
#: Arguments of pyiceberg's ``append`` and ``overwrite``.
WRITE_WORDS = {
    "overwrite_filter": "pass where=, and check=False if new rows need not match it",
    "case_sensitive": "leave it out: names are matched exactly, or else without regard to case",
}
#: Other names of our arguments.
DELETE_NAMES = {"predicate": "where", "delete_filter": "where"}
UPDATE_NAMES = {"updates": "set", "predicate": "where"}
WRITE_NAMES = {"df": "data", "snapshot_properties": "properties"}
#: Arguments that must be given.
NEEDED_TO_DELETE = {"where": "pass a condition, or where=None to delete all rows"}
NEEDED_TO_UPDATE = {"set": 'pass a new value for each column, as in {"price": "price * 2"}'}


def our_words(
    words: Mapping[str, str], needed: Mapping[str, str] | None = None, names: Mapping[str, str] | None = None
) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """Make a method take other names of its arguments, and refuse what other libraries take with an error that helps.

    Parameters
    ----------
    words
        The arguments, and what the hint says of each.
    needed
        The first argument, if there must be one, and what the hint says if there is none.
    names
        Other names of arguments, and what these are called here.

    Examples
    --------
    >>> @our_words({"strict": "leave it out"}, names={"predicate": "where"})
    ... def delete(table, where):
    ...     return where
    >>> delete("t", predicate="id = 1")
    'id = 1'
    >>> delete("t", strict=True)
    Traceback (most recent call last):
        ...
    deltaberg.errors.InvalidArgumentError: delete() has no argument strict
    hint: leave it out
    """

    def decorate(method: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        order = list(signature(method).parameters)

        @wraps(method)
        def called(*args: _Given.args, **named: _Given.kwargs) -> _Result:
            for word in named:
                if word in words:
                    raise InvalidArgumentError(f"{method.__name__}() has no argument {word}", hint=words[word])
            for name in named.keys() & (names or {}).keys():
                ours = (names or {})[name]
                if ours in named or ours in order[: len(args)]:
                    raise InvalidArgumentError(f"{name} and {ours} are the same", hint="pass one of them")
                named[ours] = named.pop(name)
            for name, hint in (needed or {}).items():
                if len(args) < 2 and name not in named:
                    raise InvalidArgumentError(f"{method.__name__}() needs the argument {name}", hint=hint)
            return method(*args, **named)

        return called

    return decorate
