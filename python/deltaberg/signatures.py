"""Calls that no signature takes: they raise an error that names what was called, and what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from deltaberg.errors import ArgumentNameError, InvalidArgumentError
from deltaberg.whole_numbers import bits_of_endless

__all__ = ["instead", "public"]

_Made = TypeVar("_Made", bound=Callable[..., Any])

#: What other libraries call arguments of ours. A name may stand for one of several.
_ELSEWHERE: dict[str, tuple[str, ...]] = {
    "condition": ("where", "filter", "predicate"),
    "df": ("data",),
    "filter": ("where",),
    "join_cols": ("keys",),
    "on": ("keys",),
    "other": ("source",),
    "path": ("location", "target"),
    "predicate": ("where", "filter", "condition"),
    "row_filter": ("filter",),
    "rows": ("data",),
    "selected_fields": ("columns",),
    "source": ("data",),
    "table_or_uri": ("target",),
    "table_uri": ("location", "target"),
    "updates": ("set",),
    "values": ("set",),
    "where": ("filter", "predicate", "condition"),
}


def public(made: _Made) -> _Made:
    """Let calls that do not fit a function, or the public methods that a class defines, raise an error that helps.

    Python's own error names the class in which a method is written, which may be none that callers know, and does not
    say which arguments there are.

    Examples
    --------
    >>> @public
    ... def upsert(data, keys, *, memory=None):
    ...     return data
    >>> upsert([], on="id")
    Traceback (most recent call last):
        ...
    deltaberg.errors.ArgumentNameError: upsert() has no argument on
    hint: pass keys=
    """
    if not isinstance(made, type):
        function: _Made = _checked(made, made.__name__)
        return function
    for name, member in list(vars(made).items()):
        if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(made, name, _checked(member, made.__name__ if name == "__init__" else name))
    return made


def _checked(function: Callable[..., Any], shown: str) -> Any:
    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        _check_numbers(shown, (*args, *named.values()))
        try:
            return function(*args, **named)
        except TypeError as error:
            refused = None if isinstance(error, ArgumentNameError) else _refusal(function, shown, args, named)
            if refused is None:
                raise
        raise refused

    return called


def _check_numbers(shown: str, given: Iterable[Any]) -> None:
    """Refuse a number that is too long to be shown in an error, whatever it is passed for."""
    bits = bits_of_endless(given)
    if bits is not None:
        raise InvalidArgumentError(
            f"{shown}() was given a number of {bits} bits, which is greater than any that it takes",
            hint="pass a 64-bit integer",
        )


def _refusal(
    function: Callable[..., Any], shown: str, args: Sequence[Any], named: dict[str, Any]
) -> ArgumentNameError | None:
    """Return the error of a call that does not fit the signature of a function; None if it fits."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **named)
    except TypeError:
        pass
    else:
        return None
    parameters = [one for one in signature.parameters.values() if one.name != "self"]
    names = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    count = len(args) - ("self" in signature.parameters)
    unknown = [name for name in named if name not in names]
    twice = [one.name for one in places[:count] if one.name in named]
    if unknown:
        return ArgumentNameError(f"{shown}() has no argument {unknown[0]}", hint=instead(unknown[0], names))
    if twice:
        return ArgumentNameError(f"{shown}() was given the argument {twice[0]} twice", hint="pass it once")
    if count > len(places):
        hint = f"pass others by their names: {_listed(names[len(places) :])}" if names[len(places) :] else None
        taken = f"{len(places)} argument{'' if len(places) == 1 else 's'}"
        return ArgumentNameError(f"{shown}() takes {taken} without a name, but {count} were given", hint=hint)
    missing = next(one for one in parameters[max(count, 0) :] if one.default is one.empty and one.name not in named)
    return ArgumentNameError(f"{shown}() needs the argument {missing.name}", hint=_given(missing.name))


def instead(name: str, names: Sequence[str]) -> str:
    """Return what to write instead of an argument that there is not."""
    known = [ours for ours in _ELSEWHERE.get(name, ()) if ours in names]
    close = known or get_close_matches(name, names, n=1)
    if close:
        return _given(close[0])
    return f"its arguments are {_listed(names)}" if names else "it takes no arguments"


def _given(name: str) -> str:
    """Return how an argument is given."""
    return f"pass {name}="


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
