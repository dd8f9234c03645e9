"""Looks up one function or operator by its name."""

from __future__ import annotations

from deltaberg.expressions.functions.conditions import CONDITIONS
from deltaberg.expressions.functions.function import Function

__all__ = ["function_named"]


def function_named(name: str) -> Function | None:
    """Return the function or operator with a name in lower case; None if there is none."""
    function = CONDITIONS.get(name)
    if function is None:
        # Most conditions of reads call no others.
        from deltaberg.expressions.functions.function_table import FUNCTIONS

        function = FUNCTIONS.get(name)
    return function
