"""The peak of this process's memory."""

from __future__ import annotations

import resource
from pathlib import Path

__all__ = ["peak_memory"]

_STATUS = Path("/proc/self/status")


def peak_memory() -> int:
    """Give the most bytes that this process held.

    What ``getrusage`` says begins with what the process held that started it, so that a small one under large tests
    would never seem to grow.
    """
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
