"""The conditions of a run: the machine, the versions of the software, and the method."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

from tests.support.engine_jars import ENGINES

__all__ = ["conditions_of"]

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("deltalake", "polars", "pyarrow", "pyiceberg", "pyiceberg-core", "pyroaring", "pyspark")


def conditions_of(scale: float, rounds: int) -> dict[str, str]:
    """Return sentences about what was measured on which machine, with which versions, and how."""
    times = "once" if rounds == 1 else f"{rounds} times"
    part = "" if scale == 1 else " (titles tell the sizes of scale 1)"
    return {
        "machine": f"deltaberg at commit {_commit()}; {_processors()}, {_memory() >> 30} GiB of memory.",
        "versions": f"{', '.join([*_software(), *_connectors()])}.",
        "how": f"Scale {scale:g}{part}; the sides of a case ran in turns, each in its own process, started {times}.",
    }


def _commit() -> str:
    def git(*command: str) -> str:
        found = subprocess.run(["git", *command], cwd=_ROOT, capture_output=True, text=True, check=False)
        return found.stdout.strip()

    try:
        commit = git("log", "-1", "--format=%h of %cs")
        changed = " with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    except OSError:
        commit = changed = ""
    return f"{commit}{changed}" or "unknown"


def _processors() -> str:
    try:
        model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    except OSError:
        model = None
    return f"{os.cpu_count()} processors ({model[1] if model else platform.machine()})"


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _software() -> list[str]:
    versions = [f"CPython {platform.python_version()}"]
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    return versions


def _connectors() -> list[str]:
    """Return the versions of the jars, and of Java."""
    jars = [package.split(":")[1:] for package in ENGINES["spark.jars.packages"].split(",")]
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        said = ""
    java = re.search(r'"([^"]+)"', said)
    return [*(f"{name} {version}" for name, version in jars), f"Java {java[1]}" if java else "no Java"]
