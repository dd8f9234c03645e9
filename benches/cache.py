"""The data of the benchmarks, which is generated once and in the disk cache when the sides start."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["FOLDER_VARIABLE", "folder", "made", "read_through"]

#: The environment variable that names another folder than ``.cache/benches``.
FOLDER_VARIABLE = "DELTABERG_BENCHES"
#: Raised with every change of what is made.
_VERSION = "2"
_FOLDER = Path(__file__).resolve().parents[1] / ".cache" / "benches"


def folder() -> Path:
    """Return the folder of all data."""
    return Path(os.environ.get(FOLDER_VARIABLE, _FOLDER))


def made(name: str, make: Callable[[Path], Any]) -> Path:
    """Return a folder of this name. A function fills it, unless its present version did so completely before."""
    root = folder() / name
    done = root / ".done"
    if not done.exists() or done.read_text("utf-8") != _VERSION:
        shutil.rmtree(root, ignore_errors=True)
        make(root)
        done.write_text(_VERSION, "utf-8")
    return root


def read_through(root: Path) -> int:
    """Read all files of a folder, so that the system caches what it can, and return their size in bytes.

    Otherwise the first side would warm the cache for all others.
    """
    total = 0
    for path in root.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while size := len(file.read(1 << 22)):
                    total += size
    return total
