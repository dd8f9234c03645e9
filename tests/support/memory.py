"""The peak of a process's memory."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

__all__ = ["peak_memory"]

_PROCESSES = Path("/proc")


def peak_memory(process: int | None = None) -> int:
    """Return the peak memory in bytes of this process, or of another that may have ended; 0 if it is unknown.

    ``getrusage`` includes the peak of the parent process at the time of the start, so that a small process would never
    seem to grow under large tests.
    """
    with suppress(OSError):
        for line in (_PROCESSES / str(process or "self") / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    if process is not None:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
