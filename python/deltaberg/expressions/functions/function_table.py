"""The table of all functions and operators, by their names."""

from __future__ import annotations

from deltaberg.expressions.functions.conditions import CONDITIONS
from deltaberg.expressions.functions.conversions import CONVERSIONS
from deltaberg.expressions.functions.dates import DATES
from deltaberg.expressions.functions.digests import DIGESTS
from deltaberg.expressions.functions.function import Function
from deltaberg.expressions.functions.nested import NESTED
from deltaberg.expressions.functions.numbers import NUMBERS
from deltaberg.expressions.functions.operators import OPERATORS
from deltaberg.expressions.functions.patterns import PATTERNS
from deltaberg.expressions.functions.text import TEXT
from deltaberg.expressions.functions.variants import VARIANTS

__all__ = ["FUNCTIONS", "SECTIONS"]

#: The functions by what they are for, in the order of the documentation.
SECTIONS: dict[str, dict[str, Function]] = {
    "Operators and conditions": {**CONDITIONS, **OPERATORS},
    "Casts": CONVERSIONS,
    "Numbers": NUMBERS,
    "Text": TEXT,
    "Patterns": PATTERNS,
    "Dates and timestamps": DATES,
    "Arrays, maps and structs": NESTED,
    "Variants": VARIANTS,
    "Digests": DIGESTS,
}
#: All functions, by their names in lower case.
FUNCTIONS: dict[str, Function] = {name: known for section in SECTIONS.values() for name, known in section.items()}
