"""The build backend of deltaberg (PEP 517 and 660).

If there is a usable cargo, maturin builds the abi3 wheel. Otherwise hatchling builds a ``py3-none-any`` wheel with only
the Python kernels, and writes the reason into it (``deltaberg/_build.json``), because pip hides what a backend prints.
A compilation that fails is an error, never a silent fallback.

``DELTABERG_BUILD`` or ``--config-settings=kernels=`` overrides the choice: ``auto`` (the default), ``native`` or
``python``.

Cargo compiles into a folder of its own that is deleted afterwards, unless there is a ``target`` already or
``CARGO_TARGET_DIR`` names one: an installation leaves nothing in a clone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
_MATURIN = "maturin>=1.9,<2"
_HATCHLING = "hatchling>=1.27"
_VARIABLE = "DELTABERG_BUILD"
_COMPILED = "CARGO_TARGET_DIR"
_REASON = "DELTABERG_BUILD_REASON"

Settings = Mapping[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return the packages that are needed to build a wheel."""
    return [_MATURIN] if _why_pure(config_settings) is None else [_HATCHLING]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """Return the packages that are needed for an editable install."""
    return get_requires_for_build_wheel(config_settings)


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """Return the packages that are needed to build a source distribution, which does not need cargo."""
    return [_HATCHLING]


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Write the metadata of the wheel, without compiling it: pip asks for them first, and is silent meanwhile."""
    if _why_pure(config_settings) is None:
        import maturin

        return str(maturin.prepare_metadata_for_build_wheel(metadata_directory, {}))
    # Hatchling hides its hook from pip. A pure wheel is built in a second.
    with tempfile.TemporaryDirectory() as folder:
        wheel = zipfile.ZipFile(Path(folder) / _build("build_wheel", folder, config_settings))
        names = [name for name in wheel.namelist() if ".dist-info/" in name]
        wheel.extractall(metadata_directory, names)
        wheel.close()
    return names[0].partition("/")[0]


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Settings = None) -> str:
    """Write the metadata of an editable install, which are those of the wheel."""
    return prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build a wheel, with compiled kernels if there is a usable cargo."""
    with _compiled_elsewhere():
        return _build("build_wheel", wheel_directory, config_settings)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build an editable wheel."""
    return _build("build_editable", wheel_directory, config_settings)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Build the source distribution, which contains both kinds of kernels."""
    from hatchling import build

    return str(build.build_sdist(sdist_directory))


def _build(hook: str, directory: str, settings: Settings) -> str:
    reason = _why_pure(settings)
    if reason is None:
        import maturin

        return str(getattr(maturin, hook)(directory, {}))
    from hatchling import build

    print(f"deltaberg: building a wheel without compiled kernels: {reason}")
    with _environment(_REASON, reason):
        return str(getattr(build, hook)(directory))


@contextmanager
def _compiled_elsewhere() -> Iterator[None]:
    """Let cargo leave nothing in the clone, unless somebody compiles there anyway."""
    if os.environ.get(_COMPILED) or (_ROOT / "target").exists():
        yield
        return
    with tempfile.TemporaryDirectory() as folder, _environment(_COMPILED, folder):
        yield


def _why_pure(settings: Settings) -> str | None:
    """Return why the wheel cannot have compiled kernels, or None."""
    chosen = str((settings or {}).get("kernels") or os.environ.get(_VARIABLE) or "auto").strip().lower()
    if chosen not in ("auto", "native", "python"):
        raise SystemExit(f"kernels={chosen!r} is not a valid choice; use auto, native or python")
    if chosen == "python":
        return "the build was configured to use the Python kernels"
    problem = _cargo_problem()
    if problem is not None and chosen == "native":
        raise SystemExit(f"native kernels were required, but {problem}; install Rust, for example with rustup")
    return problem


def _cargo_problem() -> str | None:
    needed = re.search(r'^rust-version = "(\d+)\.(\d+)', (_ROOT / "Cargo.toml").read_text("utf-8"), re.MULTILINE)
    cargo = os.environ.get("CARGO") or shutil.which("cargo")
    if cargo is None:
        return "no cargo was found at build time"
    try:
        finished = subprocess.run([cargo, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return "the cargo found at build time does not run"
    found = re.match(r"cargo (\d+)\.(\d+)", finished.stdout)
    if found is None or needed is None:
        return "the cargo found at build time does not report its version"
    if (int(found[1]), int(found[2])) < (int(needed[1]), int(needed[2])):
        return f"cargo {found[1]}.{found[2]}, found at build time, is too old: {needed[1]}.{needed[2]} is needed"
    return None


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
