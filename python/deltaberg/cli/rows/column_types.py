"""Columns as they are written on the command line: ``NAME TYPE``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from deltaberg.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["column_type", "columns_of"]

_DECIMAL = re.compile(r"(?:decimal|numeric)\s*\(\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\)")
_HINT = (
    "pass boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, binary, date, timestamp or "
    "timestamp_ntz; for other types create the table like a file, by --like"
)


def column_type(text: str) -> pa.DataType:
    """Return the Arrow type that SQL, or the protocol, calls by a name.

    Raises
    ------
    InvalidArgumentError
        No type without parts has the name.

    Examples
    --------
    >>> column_type("BIGINT"), column_type("decimal(9, 2)")
    (DataType(int64), Decimal128Type(decimal128(9, 2)))
    """
    import pyarrow as pa

    spelling = text.strip().lower()
    decimal = _DECIMAL.fullmatch(spelling)
    try:
        if decimal is not None:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
    except ValueError as error:
        raise InvalidArgumentError(f"{text!r} is not a type: {error}", hint=_HINT) from None
    types = {
        "boolean": pa.bool_(),
        **dict.fromkeys(("byte", "tinyint"), pa.int8()),
        **dict.fromkeys(("short", "smallint"), pa.int16()),
        **dict.fromkeys(("int", "integer"), pa.int32()),
        **dict.fromkeys(("long", "bigint"), pa.int64()),
        **dict.fromkeys(("float", "real"), pa.float32()),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    if spelling not in types:
        raise InvalidArgumentError(f"{text!r} is not a type of a column", hint=_HINT)
    return types[spelling]


def columns_of(texts: tuple[str, ...]) -> pa.Schema:
    """Return columns that are given as ``NAME TYPE``, with ``NOT NULL`` behind those that must not be null.

    Raises
    ------
    InvalidArgumentError
        A text is not of this form.

    Examples
    --------
    >>> columns_of(("id bigint not null", "name string")).field("id")
    pyarrow.Field<id: int64 not null>
    """
    import pyarrow as pa

    fields = []
    for text in texts:
        name, _, kind = text.strip().partition(" ")
        if not kind.strip():
            raise InvalidArgumentError(f"{text!r} is not a column", hint="pass a name and a type, as in 'id bigint'")
        wanted = kind.strip()
        is_required = wanted.lower().endswith(" not null")
        fields.append(pa.field(name, column_type(wanted[:-9] if is_required else wanted), nullable=not is_required))
    return pa.schema(fields)
