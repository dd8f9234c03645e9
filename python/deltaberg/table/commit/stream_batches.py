"""The batches of streams, which ``txn="auto"`` finds by itself."""

from __future__ import annotations

import os
from typing import NamedTuple

from deltaberg.engines import spark_engine
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint, at_fault, shown_value, verbatim
from deltaberg.storage.location import Location

__all__ = ["StreamBatch"]

_AUTO, _BETWEEN = "auto", ":"
#: The newest batch whose rows each run of a query has committed, by the run, the table, its branch and the application.
_COMMITTED: dict[tuple[str, ...], int] = {}


class StreamBatch(NamedTuple):
    """The batch of a stream in which a verb is called.

    Parameters
    ----------
    application
        The query, and the name that the caller has given to one of several verbs.
    number
        The number of the batch, which is the version that a table records of the application.
    run
        The run of the query. The next one sends the batch again that this one did not end.
    """

    application: str
    number: int
    run: str

    @classmethod
    def of(cls, txn: str) -> StreamBatch:
        """Return the batch that this thread runs, for ``auto`` or ``auto:NAME``.

        Raises
        ------
        InvalidArgumentError
            The text is neither, or this thread runs no batch.
        """
        auto, between, name = txn.partition(_BETWEEN)
        if auto != _AUTO or bool(between) != bool(name):
            raise InvalidArgumentError(
                at_fault("txn", f"must be the name of an application and a version, not {shown_value(txn)}"),
                hint='pass ⟪txn=("nightly load", 7)⟫, or ⟪txn="auto"⟫ in a function that foreachBatch calls',
            )
        query, run, number = spark_engine().current_batch()
        return cls(f"{query}{between}{name}", number, run)

    def begin(self, table: Location, branch: str | None) -> None:
        """Refuse a second verb of the batch: the table would seem to have its rows already, so that they were lost.

        Raises
        ------
        InvalidArgumentError
            The batch was committed to the table under this name in the same run.
        """
        if _COMMITTED.get(self._key(table, branch)) == self.number:
            raise InvalidArgumentError(
                Hint(f'the batch {verbatim(str(self.number))} was committed to the table before by ⟪txn="auto"⟫'),
                hint='name every further verb of the batch, such as ⟪txn="auto:late rows"⟫',
                table=str(table),
            )

    def end(self, table: Location, branch: str | None) -> None:
        """Take note that a branch of the table has the rows of the batch."""
        _COMMITTED[self._key(table, branch)] = self.number

    def _key(self, table: Location, branch: str | None) -> tuple[str, ...]:
        # A table may be reached by several paths.
        place = os.path.realpath(table.path) if table.scheme == "file" else str(table)
        return self.run, place, branch or "", self.application
