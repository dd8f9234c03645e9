"""Calls of public functions: other libraries' words for arguments, and errors that say what to write instead."""

from __future__ import annotations

import dis
import inspect
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import wraps
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from deltaberg.errors import ArgumentNameError, DeltabergError, InvalidArgumentError
from deltaberg.whole_numbers import bits_of_endless
from deltaberg.words import NEAR, Refused, hint_of_needed, words_of

__all__ = ["NEEDED", "NamesOfClass", "check_construction", "instead", "public", "say_what_to_write", "takes"]

_Made = TypeVar("_Made", bound=Callable[..., Any])


class _Needed:
    def __repr__(self) -> str:
        return "<needed>"


#: The default of an argument that must be given, by its name or by another library's word for it.
NEEDED: Any = _Needed()


def takes(kind: type) -> Callable[[_Made], _Made]:
    """Say which arguments a function takes as ``**arguments``: the keys of a typed dictionary.

    So arguments that many functions share are declared once, and type checkers know them. Keys that are words of other
    libraries reach the function by our names.
    """

    def mark(function: _Made) -> _Made:
        setattr(function, "__takes__", frozenset(kind.__annotations__))  # noqa: B010 - functions declare no attributes
        return function

    return mark


#: What the first argument of methods and constructors is called, which no caller passes.
_OF_METHODS = frozenset({"self", "cls", "_cls"})
#: The types of what may be a long number, or hold one, as callers mostly write them.
_are_plain = frozenset({int, list, tuple, dict}).isdisjoint


def public(decorated: _Made) -> _Made:
    """Let a function, or the public methods that a class defines, take other libraries' words for their arguments.

    Calls that do not fit raise an error that helps. Python's own error names the class in which a method is written,
    which may be none that callers know, and does not say which arguments there are. Whatever a method of a table
    raises names the table. An attribute that the class lacks raises an error that says what to write instead.

    Examples
    --------
    >>> @public
    ... def upsert(data, keys, *, memory=None):
    ...     return data
    >>> upsert([], join_cols="id")
    []
    >>> upsert([], on="id")
    Traceback (most recent call last):
        ...
    deltaberg.errors.ArgumentNameError: upsert() has no argument on
    hint: pass keys=
    """
    if not isinstance(decorated, type):
        function: _Made = _checked(decorated, decorated.__name__)
        return function
    say_what_to_write(decorated)
    for name, member in list(vars(decorated).items()):
        if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(decorated, name, _checked(member, decorated.__name__ if name == "__init__" else name))
        elif isinstance(member, property) and not name.startswith("_"):
            setattr(decorated, name, _uncalled(member, name))
    return decorated


def say_what_to_write(decorated: _Made) -> _Made:
    """Let a name that a class lacks raise an error that says what to write instead."""
    if not any("__getattr__" in vars(one) for one in cast("type", decorated).__mro__):
        setattr(decorated, "__getattr__", _no_such_member)  # noqa: B010 - for type checkers, classes have what they declare
    return decorated


def _uncalled(member: property, name: str) -> property:
    """Return a property that says, where it is called as a method, that it is none."""
    read = member.fget
    if read is None:
        return member

    @wraps(read)
    def reading(self: Any) -> Any:
        value = read(self)
        if _is_called(sys._getframe(1)) and not callable(value):  # noqa: SLF001 - Python says it nowhere else
            raise ArgumentNameError(
                f"{name} of {type(self).__name__} is no method", hint=f"write {name}, without parentheses"
            )
        return value

    return member.getter(reading)


_LOAD_METHOD = dis.opmap.get("LOAD_METHOD")
_LOAD_ATTR = dis.opmap["LOAD_ATTR"]


def _is_called(frame: FrameType) -> bool:
    """Return whether the code that reads an attribute is about to call it, as in ``table.schema()``."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if at < 0:
        return False
    # Before Python 3.12 an instruction of its own loads what is called, and from then on the lowest bit tells.
    return code[at] == _LOAD_METHOD or (
        sys.version_info >= (3, 12) and code[at] == _LOAD_ATTR and bool(code[at + 1] & 1)
    )


def check_construction(decorated: object) -> None:
    """Let calls of a class that do not fit raise an error that helps, as `public` does it for whole classes.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Term:
    ...     name: str
    >>> check_construction(Term)
    >>> Term(nam="id")
    Traceback (most recent call last):
        ...
    deltaberg.errors.ArgumentNameError: Term() has no argument nam
    hint: pass name=
    """
    if not isinstance(decorated, type) or issubclass(decorated, BaseException):
        return
    for name in ("__init__", "__new__"):
        member = vars(decorated).get(name)
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and not hasattr(function, "__wrapped__"):
            checked = _fitting(function, decorated.__name__)
            setattr(decorated, name, staticmethod(checked) if name == "__new__" else checked)


def _fitting(function: Callable[..., Any], shown: str) -> Any:
    """Return a constructor that costs no more than before if its call fits: many columns have many fields."""

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except TypeError:
            if _fits(signature := inspect.signature(function), args, named):
                raise
        raise _refusal(signature, shown, args, named, ())

    return called


def _no_such_member(self: Any, name: str) -> Any:
    if hasattr(type(self), name):
        # A property raised an AttributeError, which Python dropped.
        return object.__getattribute__(self, name)
    if name.startswith("_"):
        # Python itself asks, and so does pickle where a task is sent to, which loads no more than it needs.
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}", name=name, obj=self)
    from deltaberg.missing_names import missing_name

    raise missing_name(self, name)


class NamesOfClass(ABCMeta):
    """What lets a class say which name of ours to write instead of a class method of another library."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            from deltaberg.missing_names import missing_name

            raise missing_name(cls, name)


def _checked(function: Callable[..., Any], shown: str) -> Any:
    keys: frozenset[str] | None = getattr(function, "__takes__", None)
    code = inspect.unwrap(function).__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    # Functions of one name, such as those of catalogs and of this library, take different arguments.
    words = {word: ours for word, ours in words_of(shown).items() if word not in own}
    accepted = frozenset(own).union(keys or ()).difference(words)
    defaults = function.__defaults__ or ()
    needed = [
        name
        for name, value in zip(own[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True)
        if value is NEEDED
    ]

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        if keys is not None:
            if not named.keys() <= accepted:
                named = _without_aliases(shown, own[: len(args)], named, words, accepted)
            missing = [name for name in needed if name not in named and name not in own[: len(args)]]
            if missing:
                raise _missing(shown, missing[0])
        # Few calls are given a number or a list, and every call pays for what is looked at.
        if not (_are_plain(map(type, args)) and (not named or _are_plain(map(type, named.values())))):
            _check_numbers(shown, (*args, *named.values()))
        try:
            return function(*args, **named)
        except (DeltabergError, TypeError, ValueError, OverflowError) as error:
            # Most errors are ours, and need no signature.
            if _is_ours(error, args) or _fits(signature := inspect.signature(function), args, named):
                # A class of others may be a number, too, or hold one.
                _check_numbers(shown, (*args, *named.values()))
                raise
        if not words.keys().isdisjoint(named):
            named = _without_aliases(shown, own[: len(args)], named, words, accepted)
            if _fits(signature, args, named):
                return function(*args, **named)
        raise _refusal(signature, shown, args, named, sorted(accepted.difference(own)))

    return called


def _is_ours(error: Exception, args: Sequence[Any]) -> bool:
    """Return whether an error is one of ours, which then names the table if it was raised by a method of one."""
    if not isinstance(error, DeltabergError):
        return False
    if args and type(args[0]).__module__.startswith("deltaberg."):
        place = getattr(args[0], "_table_at", None) or getattr(args[0], "location", None)
        error.with_context(table=place)
    return True


def _check_numbers(shown: str, given: Iterable[Any]) -> None:
    """Refuse a number that is too long to be shown in an error, whatever it is passed for."""
    bits = bits_of_endless(given)
    if bits is not None:
        raise InvalidArgumentError(
            f"{shown}() was given a number of {bits} bits, which is greater than any that it takes",
            hint="pass a 64-bit integer",
        )


def _without_aliases(
    shown: str, positional: Sequence[str], named: dict[str, Any], words: dict[str, str], names: Iterable[str]
) -> dict[str, Any]:
    """Return arguments by our names.

    Parameters
    ----------
    positional
        The names of the arguments that were passed without one.
    names
        All names that the function takes.
    """
    renamed = {}
    for name, value in named.items():
        ours = words.get(name, name)
        if isinstance(ours, Refused) or ours not in names:
            hint = ours if isinstance(ours, Refused) else instead(name, sorted({*names} - _OF_METHODS))
            raise ArgumentNameError(f"{shown}() has no argument {name}", hint=str(hint))
        if ours in renamed or (ours != name and (ours in named or ours in positional)):
            other = next((one for one in named if one != name and words.get(one, one) == ours), ours)
            raise ArgumentNameError(f"{name} and {other} are the same", hint="pass one of them")
        renamed[ours] = value
    return renamed


def _fits(signature: inspect.Signature, args: Sequence[Any], named: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **named)
    except TypeError:
        return False
    return True


def _refusal(
    signature: inspect.Signature, shown: str, args: Sequence[Any], named: dict[str, Any], more: Sequence[str]
) -> ArgumentNameError:
    """Return the error of a call that does not fit the signature of a function.

    Parameters
    ----------
    more
        The names that the function takes besides those of the signature.
    """
    parameters = [one for one in signature.parameters.values() if one.name not in _OF_METHODS]
    names = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    count = len(args) - (not _OF_METHODS.isdisjoint(signature.parameters))
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
    unknown = [] if takes_any else [name for name in named if name not in names]
    twice = [one.name for one in places[:count] if one.name in named]
    if unknown:
        return ArgumentNameError(f"{shown}() has no argument {unknown[0]}", hint=instead(unknown[0], names))
    if twice:
        return ArgumentNameError(f"{shown}() was given the argument {twice[0]} twice", hint="pass it once")
    if count > len(places):
        others = [*names[len(places) :], *more]
        hint = f"pass others by their names: {', '.join(others)}" if others else None
        taken = f"{len(places)} argument{'' if len(places) == 1 else 's'}"
        return ArgumentNameError(f"{shown}() takes {taken} without a name, but {count} were given", hint=hint)
    missing = next(one for one in parameters[max(count, 0) :] if one.default is one.empty and one.name not in named)
    return _missing(shown, missing.name)


def _missing(shown: str, name: str) -> ArgumentNameError:
    return ArgumentNameError(f"{shown}() needs the argument {name}", hint=hint_of_needed(shown, name))


def instead(name: str, names: Sequence[str]) -> str:
    """Return what to write instead of an argument that there is not."""
    known = [ours for ours in NEAR.get(name, ()) if ours in names]
    # Only a slip of the pen is taken for another name: two names that share a word may mean different things.
    close = known or get_close_matches(name, names, n=1, cutoff=0.8)
    if close:
        return f"pass {close[0]}="
    return f"its arguments are {', '.join(names)}" if names else "it takes no arguments"
