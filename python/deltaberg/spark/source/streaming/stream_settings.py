"""The options of ``spark.readStream``, and the stream that they describe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.spark.source.options import ReadOptions
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.scan import Scan
from deltaberg.table.read.source import ScanSource
from deltaberg.table.streaming.limits import ALL, Limits
from deltaberg.table.streaming.table_stream import TableStream

__all__ = ["LIMITS_ANYWHERE", "StreamSettings"]

#: The option that takes limits where Spark ends a query with AvailableNow after one batch.
LIMITS_ANYWHERE = "deltaberg.limitsWithoutAvailableNow"


class StreamSettings(ReadOptions, ABC):
    """The options of a stream. They open its table once, where the query is planned."""

    #: The options of limits, by the field of `Limits` that each one sets.
    limits_of: ClassVar[Mapping[str, str]]
    #: How many files a batch holds at most, where no option sets a limit and Spark lets the source know its position.
    default_files: ClassVar[int | None] = None
    #: The options that only streams have.
    only_streams: ClassVar[Sequence[str]] = ()

    #: What finds the table, where that is not its path.
    pointer: Any = None

    @property
    def is_meant(self) -> bool:
        """Whether an option is there that only streams have."""
        names = {name.lower() for name in (*self.only_streams, *self.limits_of, LIMITS_ANYWHERE)}
        return not names.isdisjoint(self._options)

    @property
    def may_lose(self) -> bool:
        """Whether data files that are gone are passed over."""
        return False

    @abstractmethod
    def stream(self) -> TableStream[Any]:
        """Open the table, and return the stream that the options describe."""

    def scan(self, pushed: object = None) -> Scan:
        """Return a scan with the columns of the stream."""
        return Scan(self.bound(self.stream().source))

    def bound(self, source: ScanSource) -> BoundScan:
        """Return the scan of a batch, in the columns and with the filter of the options."""
        return BoundScan.of(source, filter=self._condition(None), columns=self._columns(), options=self._scan_options())

    def limits(self, *, is_known: bool) -> Limits:
        """Return the limits of a batch.

        Parameters
        ----------
        is_known
            Whether Spark lets the source know its position, and reads several batches with AvailableNow.

        Raises
        ------
        InvalidArgumentError
            If there are limits, and Spark does not.
        """
        limits = {
            field: self._positive(name) for name, field in self.limits_of.items() if name.lower() in self._options
        }
        if not limits:
            return Limits(files=self.default_files) if is_known else ALL
        if not is_known and not self._flag(LIMITS_ANYWHERE):
            name = next(name for name in self.limits_of if name.lower() in self._options)
            raise InvalidArgumentError(
                f"the option {name} is refused: before version 4.2, Spark ends a query with Trigger.AvailableNow after "
                "one batch of a Python source, and what a limit leaves for later ones would stay unread",
                hint=f"use Spark 4.2 or newer; or leave the option out; or, if the query has another trigger, set "
                f"{LIMITS_ANYWHERE} to true",
            )
        return Limits(**limits)

    def _positive(self, name: str) -> int:
        number = self._bytes(name) if name.lower().startswith("maxbytes") else self._integer(name)
        if not 1 <= number <= _MOST:
            raise InvalidArgumentError(f"the option {name} must be from 1 to {_MOST}, not {number:.5g}")
        return number

    def _bytes(self, name: str) -> int:
        """Return a number of bytes, which may have a unit, as Spark writes them."""
        text = self._options[name.lower()].strip().lower()
        digits = text.rstrip("bkmgtp")
        unit = text[len(digits) :].removesuffix("b") if len(text) > len(digits) else ""
        if not (digits.isascii() and digits.isdigit() and len(digits) < 19) or unit not in ("", *_UNITS):
            raise InvalidArgumentError(
                f"the option {name} must be a number of bytes, such as 1000000 or 64m, not {shown_value(text)}"
            )
        return int(digits) * _UNITS.get(unit, 1)


#: Limits are counted in 64 bits with a sign.
_MOST = (1 << 63) - 1
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
