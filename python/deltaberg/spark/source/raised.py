"""Calls of Spark to the Data Sources, and their errors as Spark shows them.

Spark runs a source in Python processes of its own, and what these raise reaches the user as the text of a traceback.
Without the calls inside this library, what is left of it is the error and the method of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from deltaberg.errors import DeltabergError, in_words
from deltaberg.spark.hints import ELSEWHERE, in_data_source
from deltaberg.spark.reused_workers import spare_next_task

__all__ = ["briefly", "briefly_yielded"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def briefly(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a method whose errors have no trace of the calls inside this library, unless they are not ours.

    They and their hints name options of the source.
    """

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        spare_next_task()
        try:
            return method(*args, **kwargs)
        except DeltabergError as error:
            raise _as_shown(error) from None

    return call


def briefly_yielded(method: Callable[_P, Iterator[_T]]) -> Callable[_P, Iterator[_T]]:
    """Return what `briefly` does, for a method that yields."""

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        spare_next_task()
        try:
            yield from method(*args, **kwargs)
        except DeltabergError as error:
            raise _as_shown(error) from None

    return call


def _as_shown(error: DeltabergError) -> DeltabergError:
    """Return an error without a trace, which names options of the source, and so does its hint."""
    in_words(error, in_data_source, ELSEWHERE)
    return error.with_traceback(None)
