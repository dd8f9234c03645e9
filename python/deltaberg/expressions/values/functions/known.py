"""All functions and operators that values can use, by their names."""

from __future__ import annotations

from deltaberg.expressions.values.functions.conditions import CONDITIONS
from deltaberg.expressions.values.functions.conversions import CONVERSIONS
from deltaberg.expressions.values.functions.dates import DATES
from deltaberg.expressions.values.functions.digests import DIGESTS
from deltaberg.expressions.values.functions.function import Function
from deltaberg.expressions.values.functions.nested import NESTED
from deltaberg.expressions.values.functions.numbers import NUMBERS
from deltaberg.expressions.values.functions.operators import OPERATORS
from deltaberg.expressions.values.functions.patterns import PATTERNS
from deltaberg.expressions.values.functions.text import TEXT
from deltaberg.expressions.values.functions.variants import VARIANTS

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
