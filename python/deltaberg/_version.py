"""The version of the package; `Cargo.toml` and ``pyproject.toml`` hold the same one, and a test compares them."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
