"""Renews the lock files in ``requirements/``: ``make lock``.

Each of them holds exact versions and hashes for every Python that the project supports, on every platform. None names
the index that it was made from, so that any mirror can serve it.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.grid import RELEASES
from tests.support import azurite
from tests.support.packages import FOLDER, ROOT, lowest_versions, run_uv

__all__ = ["LOCKS", "Lock", "main"]

_HOST = re.compile(r"https?://|--(extra-)?index-url|--find-links")


class Lock(NamedTuple):
    """What one lock file is made from.

    ``extras`` are those of the package, whose own requirements come with them; without any, the package's
    requirements are left out. ``packages`` are further requirements; ``lowest`` takes the lowest versions that
    ``pyproject.toml`` allows the package. The versions serve ``oldest_python`` and every later one.
    """

    groups: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    lowest: bool = False
    oldest_python: tuple[int, int] = (3, 10)


LOCKS = {
    "installer": Lock(groups=("installer",)),
    "build": Lock(groups=("build",)),
    "dev": Lock(groups=("dev",)),
    "duckdb": Lock(groups=("duckdb",)),
    "wheel-pure": Lock(groups=("wheels",), extras=("sql",)),
    "wheel-lowest": Lock(groups=("wheels",), extras=("sql",), lowest=True),
    **{
        f"grid-{name}": Lock(("grid",), ("sql", "spark"), one.packages, one.lowest, one.oldest_python)
        for name, one in RELEASES.items()
        if one.locked
    },
}


def _compile(name: str, lock: Lock) -> None:
    print(f"requirements/{name}.txt", flush=True)
    target = FOLDER / f"{name}.txt"
    python = ".".join(map(str, lock.oldest_python))
    options = ["--universal", "--python-version", python, "--upgrade", "--generate-hashes", "--no-annotate"]
    with tempfile.TemporaryDirectory() as folder:
        packages, constraints = Path(folder) / "packages.in", Path(folder) / "constraints.txt"
        packages.write_text("\n".join(lock.packages), "utf-8")
        constraints.write_text("\n".join(lowest_versions() if lock.lowest else []), "utf-8")
        sources: list[object] = [packages] if lock.packages else []
        sources += [ROOT / "pyproject.toml"] if lock.extras else []
        for extra in lock.extras:
            sources += ["--extra", extra]
        for group in lock.groups:
            sources += ["--group", group]
        run_uv(
            "pip", "compile", "--quiet", *options, "--no-header", "--constraints", constraints, "-o", target, *sources
        )
    text = target.read_text("utf-8")
    if _HOST.search(text):
        raise SystemExit(f"{target} names an index")
    target.write_text(f"# Made by `make lock`; do not edit.\n{text}", "utf-8")


def _lock_azurite() -> None:
    print("requirements/azurite/package-lock.json", flush=True)
    azurite.lock()
    written = json.loads((azurite.LOCKED / "package-lock.json").read_text("utf-8"))
    if any("resolved" in package for package in written["packages"].values()):
        raise SystemExit("package-lock.json names a registry")


def main() -> int:
    """Renew every lock file."""
    FOLDER.mkdir(exist_ok=True)
    for name, lock in LOCKS.items():
        _compile(name, lock)
    _lock_azurite()
    return 0


if __name__ == "__main__":
    sys.exit(main())
