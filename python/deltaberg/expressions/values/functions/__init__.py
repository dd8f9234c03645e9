"""The functions and operators that values can use, by their names."""

from __future__ import annotations

from deltaberg.expressions.values.functions.function import Context, Function
from deltaberg.expressions.values.functions.operators import OPERATORS
from deltaberg.expressions.values.functions.text import TEXT

__all__ = ["FUNCTIONS", "Context", "Function"]

#: All functions, by their names in lower case.
FUNCTIONS: dict[str, Function] = {**OPERATORS, **TEXT}
