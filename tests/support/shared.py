"""The folder with the conformance tables and the requirements, which are not in the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = ["require_shared", "shared_directory"]

_ROOT = Path(__file__).resolve().parents[2]


def shared_directory() -> Path | None:
    """Return the folder, or None if it does not exist.

    ``DELTABERG_SHARED`` names it; by default it lies beside the clone. ``DELTABERG_CONFORMANCE`` may name the
    conformance folder in it.
    """
    named = os.environ.get("DELTABERG_SHARED")
    if named is None and "DELTABERG_CONFORMANCE" in os.environ:
        named = str(Path(os.environ["DELTABERG_CONFORMANCE"]).parent)
    found = Path(named) if named else _ROOT.parent / "shared"
    return found if (found / "conformance").is_dir() else None


def require_shared() -> Path:
    """Return the folder. Without it, fail if ``CI`` is set, and skip the test otherwise."""
    folder = shared_directory()
    if folder is None:
        reason = "the shared folder is missing: set DELTABERG_SHARED, or put it beside the clone"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
