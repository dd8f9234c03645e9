"""Where tests make their tables: in memory if the machine has enough of it, since writers sync each of their files."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["prefer_memory"]

#: What Linux calls its file system in memory.
_MEMORY = Path("/dev/shm")
_WHAT_THE_SYSTEM_HAS = Path("/proc/meminfo")
#: The tables of all tests together are smaller, and tests with Spark need memory of their own.
_FREE, _AVAILABLE = 4 << 30, 12 << 30


def prefer_memory() -> None:
    """Let this process, and those that it starts, make temporary files in memory, unless ``TMPDIR`` names a place."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK):
        return
    if shutil.disk_usage(_MEMORY).free >= _FREE and _available() >= _AVAILABLE:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


def _available() -> int:
    """Return the bytes of memory that new processes can have; zero if the system does not tell."""
    lines = _WHAT_THE_SYSTEM_HAS.read_text("ascii").splitlines() if _WHAT_THE_SYSTEM_HAS.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)
