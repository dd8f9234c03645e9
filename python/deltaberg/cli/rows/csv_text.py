"""The text of CSV files: its encoding, and its quotes, of which pyarrow takes any."""

from __future__ import annotations

import codecs
import io
import re
from typing import IO

from deltaberg.errors import InvalidArgumentError

__all__ = ["CsvText"]

#: Bytes that are read at once: as many as pyarrow has in a block, in the first of which the columns are named.
_BLOCK = 1 << 20
#: The most bytes of a field. For pyarrow, the most are two blocks.
_LONGEST = 2 * _BLOCK


class CsvText(io.RawIOBase):
    """The bytes of a CSV file as UTF-8, to be read once.

    pyarrow ends a field at the end of the file even if its quote is open, and takes what follows a closing quote for
    more of the field. Either swallows lines, mostly because of one quote too many, so that both are refused here.

    Parameters
    ----------
    source
        Where the bytes come from.
    encoding
        The encoding, by a name that Python knows; None for UTF-8.
    delimiter, quote, escape
        What separates fields, surrounds them, and takes the meaning of a character; no quote and no escape if empty.
    """

    def __init__(self, source: IO[bytes], encoding: str | None, delimiter: str, quote: str, escape: str) -> None:
        self._source = source
        is_plain = encoding is None or codecs.lookup(encoding).name == "utf-8"
        self._decoder = None if is_plain else codecs.getincrementaldecoder(encoding or "")()
        self._quotes = _Quotes(delimiter, quote, escape) if quote else None
        self._is_begun = self._is_ended = False
        self._waiting = b""
        while len(self._waiting) < _BLOCK and not self._is_ended:
            self._waiting += self._next()

    @property
    def beginning(self) -> bytes:
        """The beginning of the file, before anything is read: whole lines, if there are such."""
        whole = self._waiting if self._is_ended else self._waiting[: self._waiting.rfind(b"\n") + 1]
        return whole or self._waiting

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most as many as wanted; all of them for -1."""
        while (size < 0 or len(self._waiting) < size) and not self._is_ended:
            self._waiting += self._next()
        taken = self._waiting if size < 0 else self._waiting[:size]
        self._waiting = self._waiting[len(taken) :]
        return taken

    def _next(self) -> bytes:
        piece = self._source.read(_BLOCK)
        self._is_ended = not piece
        if self._decoder is not None:
            piece = self._decoder.decode(piece, final=self._is_ended).encode()
        if not self._is_begun:
            piece, self._is_begun = piece.removeprefix(codecs.BOM_UTF8), True
        if self._quotes is not None:
            self._quotes.check(piece, is_last=self._is_ended)
        return piece


class _Quotes:
    """The quotes of a text that comes in pieces."""

    def __init__(self, delimiter: str, quote: str, escape: str) -> None:
        mark, before, other = (re.escape(text.encode()) for text in (quote, delimiter, escape))
        # A quote in the middle of a field is one of its characters.
        opened = rb"(?<=[%s\r\n])%s" % (before, mark)
        plain = rb"[^%s%s]*" % (mark, other)
        kept = rb"%s%s" % (mark, mark) + (rb"|%s." % other if escape else b"")
        # A quote behind such a byte opens no field, even if the byte is a delimiter.
        skipped = rb"|%s(?:\Z|.(?:\Z|%s?))" % (other, mark) if escape else b""
        #: A field in quotes, with what follows it; and the bytes that an escape takes the meaning of.
        self._field = re.compile(
            rb"%s%s(?:(?:%s)%s)*(?P<end>%s[^%s]|[%s%s]?\Z)%s"
            % (opened, plain, kept, plain, mark, mark, mark, other, skipped),
            re.DOTALL,
        )
        self._ends = {quote.encode() + end for end in (delimiter.encode(), b"\r", b"\n")}
        # What stands before a field says that it begins there.
        self._rest = b"\n"
        self._line = 0

    def check(self, piece: bytes, *, is_last: bool) -> None:
        """Look at the next piece of the text.

        Raises
        ------
        InvalidArgumentError
            A quote is not closed before the text ends, or something follows the quote that closes a field.
        """
        text = self._rest + piece + (b"\n" if is_last else b"")
        unread = len(text)
        for field in self._field.finditer(text, 1):
            end = field["end"]
            if end is None:
                # What an escape at the end takes the meaning of comes in the next piece.
                unread = field.start() if field.end() == len(text) else unread
            elif end not in self._ends:
                line = self._line + text.count(b"\n", 0, field.start())
                if len(end) == 2:
                    raise _wrong(f"text follows the quote that closes a field, which began in line {line}")
                if is_last or len(text) - field.start() > _LONGEST:
                    raise _wrong(f"the quote that opens a field in line {line} is not closed")
                unread = field.start()
        self._line += text.count(b"\n", 0, unread - 1)
        self._rest = text[unread - 1 :]


def _wrong(what: str) -> InvalidArgumentError:
    hint = "double a quote that is a part of a field, or pass --quote '' if none opens one"
    return InvalidArgumentError(what, hint=hint)
