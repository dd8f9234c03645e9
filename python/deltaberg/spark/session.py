"""Facts about a Spark session that a call needs, each asked for once.

Over Spark Connect every question is a round trip to the server. A call therefore makes one `SessionFacts` and passes
it down, and no other module asks the session for a setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import cast
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.storage.location import Location
from deltaberg.table.read.scan_options import processors
from deltaberg.whole_numbers import whole_number

__all__ = ["KnownStores", "SessionFacts"]

_LOCAL_MASTER = re.compile(r"local(?:\[(\*|[0-9]{1,9})(?:,\s*\d+)?\])?")
_DEFAULT_PARALLELISM = 8
_FIRST_WITH_ARROW_TABLES = (4, 0)
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
#: Schemes that Hadoop's file systems spell in other ways.
_SPELLINGS = {"s3": ("s3", "s3a")}


class KnownStores:
    """The stores that a session is known to open, and the schemes for which one call found no file system.

    Spark must try to open a file to find that out. A store that was opened is remembered by later calls. A missing file
    system is remembered only until the call ends, because the caller may configure one before the next call.

    Parameters
    ----------
    opened
        How Spark spells each scheme, and the authorities of the stores that it opened. All calls of a session share it.
    """

    def __init__(self, opened: dict[str, tuple[str, set[str]]]) -> None:
        self._opened = opened
        self._missing: set[str] = set()

    def spellings(self, scheme: str) -> tuple[str, ...]:
        """Return the ways to spell a scheme for the session; none if it has no file system for the scheme."""
        if scheme in self._missing:
            return ()
        known = self._opened.get(scheme)
        return _SPELLINGS.get(scheme, (scheme,)) if known is None else (known[0],)

    def has_opened(self, place: Location) -> bool:
        """Return whether the session has opened a file of the store that a location is in."""
        known = self._opened.get(place.scheme)
        return known is not None and place.authority in known[1]

    def note_opened(self, places: Iterable[Location], spelling: str) -> None:
        """Note that the session opened files whose scheme was spelled in this way."""
        for place in places:
            known = self._opened.setdefault(place.scheme, (spelling, set()))
            known[1].add(place.authority)

    def note_missing(self, scheme: str) -> None:
        """Note that the session has no file system for a scheme, however it is spelled."""
        self._missing.add(scheme)


#: Kept as long as a session lives. Every other fact is asked for again by the next call.
_known_stores: WeakKeyDictionary[SparkSession, dict[str, tuple[str, set[str]]]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class SessionFacts:
    """A session, and the answers to what one call asks it.

    The session is asked when a fact is first needed, and the answer is kept: settings may change between two calls, but
    not within one.

    Parameters
    ----------
    session
        A session, either classic or of Spark Connect.
    """

    session: SparkSession

    @classmethod
    def of(cls, spark: object) -> SessionFacts:
        """Return the facts of a session. They are fetched lazily.

        Raises
        ------
        InvalidArgumentError
            If the object is not a Spark session.
        """
        # Sessions of Spark Connect are of another class.
        if not callable(getattr(spark, "createDataFrame", None)):
            raise InvalidArgumentError(
                f"{shown_value(spark)} is not a Spark session", hint="pass SparkSession.builder.getOrCreate()"
            )
        return cls(cast("SparkSession", spark))

    @cached_property
    def stores(self) -> KnownStores:
        """The stores that the session is known to open, or not to."""
        return KnownStores(_known_stores.setdefault(self.session, {}))

    @cached_property
    def version(self) -> str:
        """The version of Spark; over Spark Connect that of the server."""
        return self.session.version

    @property
    def is_remote(self) -> bool:
        """Whether the session is one of Spark Connect."""
        return type(self.session).__module__.startswith("pyspark.sql.connect.")

    @cached_property
    def release(self) -> tuple[int, ...]:
        """The first two numbers of the version of Spark."""
        return tuple(int(part) for part in self.version.split(".")[:2] if part.isdigit())

    @cached_property
    def parallelism(self) -> int:
        """How many tasks the session can run at a time, as far as its settings tell."""
        for name in ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism"):
            text = self.setting(name)
            tasks = whole_number(text or "", 1)
            if tasks is not None:
                return tasks
        local = _LOCAL_MASTER.fullmatch(self.setting("spark.master") or "")
        if local is not None:
            cores = local[1] or "1"
            return processors() if cores == "*" else int(cores)
        executors, cores = self.setting("spark.executor.instances"), self.setting("spark.executor.cores")
        known = whole_number(executors or "", 0)
        return _DEFAULT_PARALLELISM if known is None else known * (whole_number(cores or "", 0) or 1)

    @cached_property
    def takes_arrow_tables(self) -> bool:
        """Whether the session makes DataFrames of Arrow tables; PySpark fails to where Arrow batches have no limit."""
        is_limited = not re.fullmatch(r"-\d+|0+", self.setting(_BATCH_ROWS) or "")
        return is_limited and self.release >= _FIRST_WITH_ARROW_TABLES

    def setting(self, name: str) -> str | None:
        """Ask for a setting; None if the session has none of this name, or does not tell."""
        try:
            return self.session.conf.get(name, None)
        except Exception:  # noqa: BLE001 - a session may refuse to tell, and the caller has a default
            return None
