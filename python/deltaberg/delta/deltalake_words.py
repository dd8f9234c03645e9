"""Arguments of deltalake that a method of ours lacks, refused by naming what does the same here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from deltaberg.errors import InvalidArgumentError

__all__ = ["COMMIT_WORDS", "our_words"]

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

#: What the properties of a commit are called here.
COMMIT_WORDS = {
    "commit_properties": "pass txn= and user_metadata=, or write with deltaberg.write_table",
    "post_commithook_properties": "set delta.checkpointInterval and delta.enableExpiredLogCleanup",
}


def our_words(
    words: Mapping[str, str], needed: Mapping[str, str] | None = None
) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """Make a method refuse arguments of deltalake with an error that names our own.

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
