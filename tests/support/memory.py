"""The peak of a process's memory."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

__all__ = ["peak_memory"]

_PROCESSES = Path("/proc")


def peak_memory(process: int | None = None) -> int:
    """Give the most bytes that this process held, or another that may have ended: where nothing says it, 0.

    What ``getrusage`` says begins with what the process held that started it, so that a small one under large tests
    would never seem to grow.
    """
    with suppress(OSError):
        for line in (_PROCESSES / str(process or "self") / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    if process is not None:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
