"""Decimals that do not depend on the thread's decimal context, which rounds arithmetic and traps bad text."""

from __future__ import annotations

from decimal import Context, Decimal, InvalidOperation

__all__ = ["exact_decimal", "parse_decimal"]

_STRICT = Context(traps=[InvalidOperation])


def exact_decimal(unscaled: int, scale: int) -> Decimal:
    """Return ``unscaled / 10**scale`` with ``scale`` digits after the point, in any decimal context.

    Examples
    --------
    >>> exact_decimal(-1250, 2)
    Decimal('-12.50')
    """
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def parse_decimal(text: str) -> Decimal:
    """Read a decimal with all of its digits, in any decimal context.

    Raises
    ------
    decimal.InvalidOperation
        If the text is not a number. It is an ArithmeticError.

    Examples
    --------
    >>> parse_decimal("1.50")
    Decimal('1.50')
    """
    return Decimal(text, _STRICT)
