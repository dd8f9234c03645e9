"""Where the data of the benchmarks is kept: it is made once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["FOLDER_VARIABLE", "made"]

#: The environment variable that names another folder than ``.cache/benches``.
FOLDER_VARIABLE = "DELTABERG_BENCHES"
#: Raised with every change of what is made.
_VERSION = "2"
_FOLDER = Path(__file__).resolve().parents[1] / ".cache" / "benches"


def made(name: str, make: Callable[[Path], Any]) -> Path:
    """Give a folder of this name, made by a function where it was not made whole before, or by older ones."""
    root = Path(os.environ.get(FOLDER_VARIABLE, _FOLDER)) / name
    done = root / ".done"
    if not done.exists() or done.read_text("utf-8") != _VERSION:
        shutil.rmtree(root, ignore_errors=True)
        make(root)
        done.write_text(_VERSION, "utf-8")
    return root
