"""How a table of either format is opened: the arguments of the caller, checked once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint
from deltaberg.storage.location import LocationMap
from deltaberg.storage.options.options import StoreOptions
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.arguments import (
    Instant,
    checked_flag,
    checked_integer,
    checked_map,
    checked_options,
    checked_text,
    fields_given,
    parse_instant,
    zone_of,
)
from deltaberg.table.formats import TableFormat

__all__ = ["OpenOptions"]

#: Arguments that select a table state; at most one may be given.
_STATES = ("version", "snapshot_id", "ref", "timestamp")


@dataclass(frozen=True, kw_only=True)
class OpenOptions:
    """The arguments of opening a table, apart from its location.

    Parameters
    ----------
    version
        The version of a Delta table.
    snapshot_id, ref
        The snapshot, or the branch or tag, of an Iceberg table.
    timestamp
        The newest state not later than this; without a zone it is in ``timezone``.
    storage_options
        What the store needs. Messages never contain its secrets.
    location_map
        Recorded prefixes of paths to where those files are now, or `AUTO`.
    validate
        Report every violation of the specification that a reader can see.
    timezone
        The zone of timestamps without one.

    Raises
    ------
    InvalidArgumentError
        If an argument is not of its type, or if two of them choose the state of the table.
    """

    version: int | None = None
    snapshot_id: int | None = None
    ref: str | None = None
    timestamp: Instant | None = None
    storage_options: StoreOptions | None = field(default=None, repr=False)
    location_map: LocationMap | str | None = field(default=None, repr=False)
    validate: bool = False
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        states = [name for name in _STATES if getattr(self, name) is not None]
        if len(states) > 1:
            both = Hint(f"⟪{states[0]}⟫ and ⟪{states[1]}⟫ cannot be combined")
            raise InvalidArgumentError(both, hint="leave one of them out")
        for name, what in (("version", "a version"), ("snapshot_id", "a snapshot")):
            number = checked_integer(name, getattr(self, name), f"pass the number of {what}, or None")
            object.__setattr__(self, name, number)
        if self.ref is not None:
            checked_text("ref", self.ref, "pass the name of a branch or a tag")
        checked_map(self.location_map)
        checked_flag("validate", self.validate)
        # Computed now, so that an error in them is raised before anything is read.
        _ = self.zone, self.store, self.millis

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> OpenOptions:
        """Return the options among the arguments of a public function."""
        return cls(**fields_given(cls, arguments))

    def refuse(self, names: Sequence[str], opened: TableFormat, hint: str) -> None:
        """Refuse arguments that have no meaning for tables of the format that is opened."""
        for name in names:
            if getattr(self, name) is not None:
                raise InvalidArgumentError(opened.why_not(name), hint=hint)

    @cached_property
    def zone(self) -> dt.tzinfo:
        """The zone of timestamps without one."""
        return zone_of(self.timezone)

    @cached_property
    def store(self) -> StoreSpec:
        """The description by which the store of the table is opened."""
        return StoreSpec(checked_options(self.storage_options))

    @cached_property
    def millis(self) -> int | None:
        """The timestamp in milliseconds since 1970; None without one."""
        return None if self.timestamp is None else parse_instant(self.timestamp, self.zone)

    def on_refs(self, refs: Container[str]) -> OpenOptions:
        """Return the options without a branch or a tag that is none of these any more."""
        return self if self.ref is None or self.ref in refs else replace(self, ref=None)

    def require_newest(self) -> None:
        """Refuse to write to a table that was opened in a past state, or from a place that it does not record.

        Raises
        ------
        InvalidArgumentError
            It was.
        """
        for name in ("version", "snapshot_id", "timestamp", "location_map"):
            if getattr(self, name) is not None:
                raise InvalidArgumentError(
                    f"the table was opened with {name}, and cannot be written to", hint="open it without that argument"
                )
