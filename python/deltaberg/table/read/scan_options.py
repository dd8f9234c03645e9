"""How a scan is executed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict, get_args

from deltaberg.choices import Planning
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import at_fault, shown_value
from deltaberg.signatures import instead, public
from deltaberg.table.arguments import checked_choice, checked_number, zone_of

__all__ = ["ReadZone", "ScanExecution", "ScanOptions", "processors", "scan_options"]


@public
@dataclass(frozen=True)
class ScanOptions:
    """How a scan is executed.

    Parameters
    ----------
    batch_size
        The most rows of a batch.
    threads
        How many files are read at a time; 0 means one for each processor.
    memory
        How many bytes a scan may hold in addition to what its consumer keeps; 0 applies a
        default limit to queued batches only. A limit makes batches smaller, and has large column chunks read in pieces.
    split_size
        How many bytes of a data file are read as one task; 0 means the default of the road.
    timezone
        The zone of literals and partition values that have none.
    planning
        Where a scan on Spark is planned: on the ``driver``, or on the ``executors``. ``auto`` chooses the executors
        if there is much metadata that can be read in parts, such as the manifests of Iceberg.
    """

    batch_size: int = 131_072
    threads: int = 0
    memory: int = 0
    split_size: int = 0
    timezone: str = "UTC"
    planning: Planning = "auto"

    def __post_init__(self) -> None:
        least = {"batch_size": (1, "a batch has at least one row")}
        for name in ("batch_size", "threads", "memory", "split_size"):
            number = checked_number(name, getattr(self, name), *least.get(name, (0, "0 means the default")))
            object.__setattr__(self, name, number)
        zone_of(self.timezone)
        checked_choice("planning", self.planning, get_args(Planning), "leave it out to let the scan choose")


class ReadZone(TypedDict, total=False):
    """The zone of times without one, in what is asked for and in what is read."""

    timezone: str


class ScanExecution(ReadZone, total=False):
    """The options of `ScanOptions`, for type checkers of callers that pass them by name."""

    batch_size: int
    threads: int
    memory: int
    split_size: int
    planning: Planning


def processors() -> int:
    """Return how many processors this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def scan_options(options: ScanOptions | None, execution: Mapping[str, Any], timezone: str) -> ScanOptions:
    """Return the options of a scan. Single options may be passed by name."""
    if options is not None and not isinstance(options, ScanOptions):
        raise InvalidArgumentError(
            at_fault("options", f"must be ScanOptions, not {shown_value(options)}"),
            hint="pass single options by their names",
        )
    known = [option.name for option in fields(ScanOptions)]
    unknown = next((name for name in execution if name not in known), None)
    if unknown is not None:
        hint = instead(unknown, ["filter", "columns", "limit", *known])
        raise InvalidArgumentError(f"unknown scan option {unknown}", hint=hint)
    return replace(options or ScanOptions(timezone=timezone), **execution)
