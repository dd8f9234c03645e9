"""Columns as they are written on the command line: ``NAME TYPE``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["column_type", "columns_of"]

_HINT = (
    "pass boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, binary, date, timestamp, "
    "timestamp_ntz, array<type>, map<type, type> or struct<name: type>, or for Iceberg time, uuid, fixed(n) or "
    "timestamp_ns; for other types create the table like a file, by --like"
)
_FORM = "pass a name and a type, as in 'id bigint not null', and behind them DEFAULT and COMMENT if wanted"
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+)|([<>(),:]))")
_REST = re.compile(
    r"\s*(?P<required>not\s+null)?\s*(?:\bdefault\s+(?P<default>.+?))?\s*(?:\bcomment\s+'(?P<comment>(?:[^']|'')*)')?\s*",
    re.IGNORECASE | re.DOTALL,
)
#: Types are read by a function for each level. Nobody types one that is nested as deeply as this.
_MOST_LEVELS = 64


class _Reader:
    """Reads types from a text, from its beginning on."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.level = text, 0, 0

    def type(self) -> pa.DataType:
        """Read a type."""
        import pyarrow as pa

        begin, word = self.at, self._word().lower()
        self.level += 1
        if self.level > _MOST_LEVELS:
            raise self._wrong("is nested too deeply")
        try:
            if word in ("array", "list"):
                (element,) = self._between("<", ">", self.type, 1)
                kind = pa.list_(element)
            elif word == "map":
                kind = pa.map_(*self._between("<", ">", self.type, 2))
            elif word == "struct":
                kind = pa.struct(self._between("<", ">", self._field))
            elif word in ("decimal", "numeric") and self._is_next("("):
                kind = pa.decimal128(*self._between("(", ")", self._number, 2))
            elif word == "fixed":
                kind = pa.binary(*self._between("(", ")", self._number, 1))
            else:
                kind = _plain_types().get(word)
        except InvalidArgumentError:
            raise
        except ValueError as error:
            raise self._wrong(f"is not a type: {error}") from None
        if kind is None:
            self.at = begin
            raise self._wrong("is not a type of a column", self.text[begin:].strip())
        self.level -= 1
        return kind

    def _field(self) -> pa.Field:
        import pyarrow as pa

        name = self._word()
        if self._is_next(":"):
            self._mark(":")
        kind = self.type()
        required = re.compile(r"\s*not\s+null\b", re.IGNORECASE).match(self.text, self.at)
        if required:
            self.at = required.end()
        return pa.field(name, kind, nullable=not required)

    def _between(self, begin: str, end: str, read: object, count: int | None = None) -> list[object]:
        """Read what is between two marks, with commas between."""
        self._mark(begin)
        parts = [read()]  # type: ignore[operator] # it is one of the methods
        while self._is_next(","):
            self._mark(",")
            parts.append(read())  # type: ignore[operator] # as above
        self._mark(end)
        if count is not None and len(parts) != count:
            raise self._wrong("is not a type of a column")
        return parts

    def _number(self) -> int:
        word = self._word()
        if not (word.isascii() and word.isdigit() and len(word) < 10):
            raise self._wrong("is not a type of a column")
        return int(word)

    def _word(self) -> str:
        token = _TOKEN.match(self.text, self.at)
        if token is None or token[3]:
            raise self._wrong("is not a type of a column")
        self.at = token.end()
        return token[2] or token[1].replace("``", "`")

    def _is_next(self, mark: str) -> bool:
        token = _TOKEN.match(self.text, self.at)
        return token is not None and token[3] == mark

    def _mark(self, mark: str) -> None:
        if not self._is_next(mark):
            raise self._wrong("is not a type of a column")
        self.at = self.text.index(mark, self.at) + 1

    def name(self) -> str:
        """Read the name of a column, which ends at a space."""
        if not self.text.startswith("`"):
            name = self.text.split(maxsplit=1)[0]
            self.at = len(name)
            return name
        return self._word()

    def _wrong(self, what: str, text: str | None = None) -> InvalidArgumentError:
        return InvalidArgumentError(f"{shown_value(self.text if text is None else text)} {what}", hint=_HINT)


def _plain_types() -> dict[str, pa.DataType]:
    """Return the types without parts, by what SQL and the protocols call them."""
    import pyarrow as pa

    return {
        "boolean": pa.bool_(),
        **dict.fromkeys(("byte", "tinyint"), pa.int8()),
        **dict.fromkeys(("short", "smallint"), pa.int16()),
        **dict.fromkeys(("int", "integer"), pa.int32()),
        **dict.fromkeys(("long", "bigint"), pa.int64()),
        **dict.fromkeys(("float", "real"), pa.float32()),
        "double": pa.float64(),
        **dict.fromkeys(("decimal", "numeric"), pa.decimal128(10, 0)),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "time": pa.time64("us"),
        **dict.fromkeys(("timestamp", "timestamptz", "timestamp_ltz"), pa.timestamp("us", "UTC")),
        "timestamp_ntz": pa.timestamp("us"),
        "timestamp_ns": pa.timestamp("ns"),
        **({"uuid": pa.uuid()} if hasattr(pa, "uuid") else {}),
    }


def column_type(text: str) -> pa.DataType:
    """Return the Arrow type that SQL, or the protocol, calls by a name.

    Raises
    ------
    InvalidArgumentError
        No type has the name.

    Examples
    --------
    >>> column_type("BIGINT"), column_type("decimal(9, 2)")
    (DataType(int64), Decimal128Type(decimal128(9, 2)))
    >>> column_type("map<string, array<struct<a: int not null>>>")
    MapType(map<string, list<item: struct<a: int32 not null>>>)
    """
    reader = _Reader(text)
    found = reader.type()
    if text[reader.at :].strip():
        raise InvalidArgumentError(f"{shown_value(text)} is not a type of a column", hint=_HINT)
    return found


def columns_of(texts: Iterable[str]) -> pa.Schema:
    """Return columns that are given as ``NAME TYPE``.

    ``NOT NULL`` follows those that must not be null, then ``DEFAULT`` and SQL, then ``COMMENT`` and a text in quotes.

    Raises
    ------
    InvalidArgumentError
        A text is not of this form.

    Examples
    --------
    >>> columns_of(("id bigint not null", "name string")).field("id")
    pyarrow.Field<id: int64 not null>
    >>> columns_of(["n int default 0 comment 'how many'"]).field("n").metadata
    {b'CURRENT_DEFAULT': b'0', b'comment': b'how many'}
    """
    import pyarrow as pa

    fields = []
    for text in texts:
        reader = _Reader(text.strip())
        if len(reader.text.split(maxsplit=1)) < 2:
            raise InvalidArgumentError(f"{shown_value(text)} is not a column", hint=_FORM)
        name, kind = reader.name(), reader.type()
        rest = _REST.fullmatch(reader.text, reader.at)
        if rest is None:
            raise InvalidArgumentError(f"{shown_value(text)} is not a column", hint=_FORM)
        says = {"CURRENT_DEFAULT": rest["default"], "comment": rest["comment"] and rest["comment"].replace("''", "'")}
        metadata = {key: value for key, value in says.items() if value}
        fields.append(pa.field(name, kind, nullable=rest["required"] is None, metadata=metadata or None))
    return pa.schema(fields)
