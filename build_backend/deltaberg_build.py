"""The build backend of deltaberg (PEP 517 and 660).

With cargo it builds the abi3 wheel by maturin. Where no usable cargo is found it builds a ``py3-none-any`` wheel of
the Python kernels by hatchling instead of failing, and writes into that wheel why (``deltaberg/_build.json``):
pip hides what a backend prints, so the installed package has to say it. A compilation that fails is an error, never a
silent fallback.

``DELTABERG_BUILD`` or ``--config-settings=kernels=`` chooses: ``auto`` (the default), ``native`` or ``python``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
_MATURIN = "maturin>=1.9,<2"
_HATCHLING = "hatchling>=1.27"
_VARIABLE = "DELTABERG_BUILD"
_REASON = "DELTABERG_BUILD_REASON"

Settings = Mapping[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Name the packages that building a wheel takes."""
    return [_MATURIN] if _why_pure(config_settings) is None else [_HATCHLING]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """Name the packages that an editable install takes."""
    return get_requires_for_build_wheel(config_settings)


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """Name the packages that building a source distribution takes: no cargo is among them."""
    return [_HATCHLING]


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel: compiled where cargo is, pure elsewhere."""
    return _build("build_wheel", wheel_directory, config_settings)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build an editable wheel."""
    return _build("build_editable", wheel_directory, config_settings)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Build the source distribution, which holds both kinds of kernels."""
    from hatchling import build

    return str(build.build_sdist(sdist_directory))


def _build(hook: str, directory: str, settings: Settings) -> str:
    reason = _why_pure(settings)
    if reason is None:
        import maturin

        return str(getattr(maturin, hook)(directory, {}))
    from hatchling import build

    print(f"deltaberg: a wheel of the Python kernels alone: {reason}")
    with _environment(_REASON, reason):
        return str(getattr(build, hook)(directory))


def _why_pure(settings: Settings) -> str | None:
    """Say why the wheel has to be pure; None where it can be compiled."""
    chosen = str((settings or {}).get("kernels") or os.environ.get(_VARIABLE) or "auto").strip().lower()
    if chosen not in ("auto", "native", "python"):
        raise SystemExit(f"kernels={chosen!r}: use auto, native or python")
    if chosen == "python":
        return "the build was asked for Python kernels"
    problem = _cargo_problem()
    if problem is not None and chosen == "native":
        raise SystemExit(f"native kernels were asked for, but {problem}; install Rust from its official installer")
    return problem


def _cargo_problem() -> str | None:
    needed = re.search(r'^rust-version = "(\d+)\.(\d+)', (_ROOT / "Cargo.toml").read_text("utf-8"), re.MULTILINE)
    cargo = os.environ.get("CARGO") or shutil.which("cargo")
    if cargo is None:
        return "no cargo was found when it was built"
    try:
        finished = subprocess.run([cargo, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return "the cargo found when it was built does not run"
    found = re.match(r"cargo (\d+)\.(\d+)", finished.stdout)
    if found is None or needed is None:
        return "the cargo found when it was built does not say its version"
    if (int(found[1]), int(found[2])) < (int(needed[1]), int(needed[2])):
        return f"cargo {found[1]}.{found[2]} was too old when it was built: {needed[1]}.{needed[2]} is needed"
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
