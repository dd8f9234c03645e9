"""Decimals whatever the context of the thread: its precision rounds arithmetic, its traps decide what text is."""

from __future__ import annotations

from decimal import Context, Decimal, InvalidOperation

__all__ = ["exact_decimal", "parse_decimal"]

_STRICT = Context(traps=[InvalidOperation])


def exact_decimal(unscaled: int, scale: int) -> Decimal:
    """Give ``unscaled / 10**scale`` with ``scale`` digits after the point, whatever the context of the thread.

    Examples
    --------
    >>> exact_decimal(-1250, 2)
    Decimal('-12.50')
    """
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def parse_decimal(text: str) -> Decimal:
    """Read a decimal with all its digits; InvalidOperation, an ArithmeticError, where the text is no number.

    Examples
    --------
    >>> parse_decimal("1.50")
    Decimal('1.50')
    """
    return Decimal(text, _STRICT)
