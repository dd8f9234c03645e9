"""Values of columns in messages."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["MOST_SHOWN", "shown_scalar"]

#: Characters of a value that a message shows at most.
MOST_SHOWN = 80


def shown_scalar(value: pa.Scalar) -> str:
    """Return a value as Python writes it, or as Arrow does where Python has no such value, and cut if it is long.

    Examples
    --------
    >>> shown_scalar(pa.scalar("a")), shown_scalar(pa.scalar(4_000_000, pa.int32()).cast(pa.date32()))
    ("'a'", '12921-08-18')
    """
    try:
        text = "null" if not value.is_valid else repr(value.as_py())
    except (ValueError, OverflowError):
        # Python has no dates before the year 1, and none after the year 9999.
        text = _written(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _written(value: pa.Scalar) -> str:
    """Return a value as Arrow writes it."""
    if isinstance(value, pa.StructScalar):
        return f"{{{', '.join(f'{child.name!r}: {shown_scalar(value[at])}' for at, child in enumerate(value.type))}}}"
    try:
        return str(value.cast(pa.string()).as_py())
    except pa.ArrowException:
        return " ".join(pa.repeat(value, 1).to_string(indent=0).split())
