"""How a scan is executed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from deltaberg.errors import InvalidArgumentError
from deltaberg.table.arguments import checked_number, zone_of

__all__ = ["ScanOptions", "processors", "scan_options"]

_PLANNING = ("auto", "driver", "executors")


@dataclass(frozen=True)
class ScanOptions:
    """How a scan is executed.

    Parameters
    ----------
    batch_size
        Rows of a batch at most.
    threads
        Files that are read at a time; 0 means as many as there are processors.
    memory
        Bytes that a scan may hold beside what its consumer keeps; 0 does not bound them beyond a default for
        batches that wait. A cap makes single batches smaller, and reads large column chunks in pieces.
    split_size
        Bytes of a data file that are read as one task; 0 means a default for the road.
    timezone
        The zone of literals and partition values without one.
    planning
        Where a scan that runs on Spark is planned: on the ``driver``, on the ``executors``, or ``auto``: on the
        executors where there is much metadata and it can be read in parts, as the manifests of Iceberg can.
    """

    batch_size: int = 131_072
    threads: int = 0
    memory: int = 0
    split_size: int = 0
    timezone: str = "UTC"
    planning: str = "auto"

    def __post_init__(self) -> None:
        checked_number("batch_size", self.batch_size, 1, "a batch has at least one row")
        for name in ("threads", "memory", "split_size"):
            checked_number(name, getattr(self, name), 0, "0 means the default")
        zone_of(self.timezone)
        if self.planning not in _PLANNING:
            raise InvalidArgumentError(f"planning is {self.planning!r}", hint=f"known are {', '.join(_PLANNING)}")

    @property
    def readers(self) -> int:
        """How many files are read at a time."""
        return self.threads or processors()


def processors() -> int:
    """Say how many processors this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def scan_options(options: ScanOptions | None, execution: Mapping[str, Any], timezone: str) -> ScanOptions:
    """Give the options of a scan, of which single ones may be given by name."""
    if options is not None and not isinstance(options, ScanOptions):
        raise InvalidArgumentError(f"options is {options!r}", hint="pass ScanOptions, or single options by name")
    known = [option.name for option in fields(ScanOptions)]
    unknown = ", ".join(name for name in execution if name not in known)
    if unknown:
        raise InvalidArgumentError(f"unknown scan option {unknown}", hint=f"known are {', '.join(known)}")
    return replace(options or ScanOptions(timezone=timezone), **execution)
