"""Environments of exact packages, made by uv from the lock files in ``requirements/``.

``python -m tests.support.packages NAME`` installs the lock file of that name into the environment that runs it.

uv does not read pip's configuration. If a machine's index, certificates or time limit are set for pip alone, uv
is told of them when it runs, so that no lock file names an index.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

__all__ = [
    "FOLDER",
    "ROOT",
    "install",
    "interpreter",
    "lowest_versions",
    "make_environment",
    "pip_settings",
    "run_uv",
    "sync",
]

ROOT = Path(__file__).resolve().parents[2]
#: Where the lock files are.
FOLDER = ROOT / "requirements"

#: Options of pip, and the variables of uv that mean the same.
_VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "no-index": "UV_NO_INDEX",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}


def pip_settings(listed: str) -> dict[str, str]:
    """Return the variables for uv that say what pip's configuration says.

    Parameters
    ----------
    listed
        What ``pip config list`` prints: one ``section.option='value'`` a line.
    """
    ranked: dict[str, tuple[int, str]] = {}
    for line in listed.splitlines():
        key, separator, text = line.partition("=")
        section, _, option = key.strip().rpartition(".")
        variable = _VARIABLES.get(option)
        if not separator or variable is None:
            continue
        # Variables of the environment win over the section of a command, which wins over the global one.
        rank = {":env:": 2, "install": 1, "global": 0}.get(section)
        if rank is None or rank < ranked.get(variable, (0, ""))[0]:
            continue
        values = str(ast.literal_eval(text.strip())).split()
        if variable == "UV_FIND_LINKS":
            # pip passes over folders that are missing, and uv fails.
            values = [value for value in values if "://" in value or Path(value).is_dir()]
        if values:
            ranked[variable] = (rank, ("," if variable == "UV_FIND_LINKS" else " ").join(values))
    return {variable: value for variable, (_, value) in ranked.items()}


@cache
def _settings() -> dict[str, str]:
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    # What is set for uv itself stays.
    return {**pip_settings(listed), **os.environ}


def run_uv(*arguments: object) -> None:
    """Run uv with the machine's settings; a failure raises `subprocess.CalledProcessError`."""
    subprocess.run([sys.executable, "-m", "uv", *map(str, arguments)], check=True, cwd=ROOT, env=_settings())


def lowest_versions() -> list[str]:
    """Return the lower bounds of the package's requirements in ``pyproject.toml``, as exact versions."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    wanted = text.partition("\ndependencies = ")[2].partition("[project.scripts]")[0]
    found = dict(re.findall(r'"([a-z0-9]+)>=([0-9.]+)', wanted))
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def interpreter(oldest: tuple[int, int], newest: tuple[int, int]) -> str:
    """Return a CPython between two versions: this one where it fits, else the newest on the PATH.

    Raises
    ------
    LookupError
        There is none.
    """
    if oldest <= sys.version_info[:2] <= newest:
        return sys.executable
    names = (f"python{oldest[0]}.{number}" for number in range(newest[1], oldest[1] - 1, -1))
    path = next((found for found in filter(None, map(shutil.which, names)) if _runs(found)), None)
    if path is None:
        raise LookupError(f"it needs a CPython from {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}")
    return path


def _runs(path: str) -> bool:
    """Return whether an interpreter starts: a version manager leaves names on the PATH that do not."""
    return subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0


def make_environment(folder: Path, python: str) -> Path:
    """Make an empty environment, in place of one that is there, and return its interpreter."""
    run_uv("venv", "--quiet", "--clear", "--no-project", "--python", python, folder)
    return folder / "bin" / "python"


def sync(python: str | Path, name: str) -> None:
    """Give an environment the packages of a lock file, and no others."""
    locked = FOLDER / f"{name}.txt"
    run_uv(
        "pip",
        "sync",
        "--quiet",
        "--require-hashes",
        "--build-constraints",
        FOLDER / "build.txt",
        "--python",
        python,
        locked,
    )


def install(python: str | Path, *packages: object) -> None:
    """Install packages into an environment without a lock file; ``--upgrade`` may be among them."""
    run_uv("pip", "install", "--quiet", "--python", python, *packages)


def main() -> int:
    """Install a lock file here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(path.stem for path in FOLDER.glob("*.txt")))
    sync(sys.executable, parser.parse_args().name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
