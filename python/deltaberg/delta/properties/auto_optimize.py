"""Whether a table asks its writers for fewer and larger files: ``delta.autoOptimize`` and its parts."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["AUTO_COMPACT", "AUTO_COMPACT_VALUES", "OPTIMIZE_WRITE", "compacts_itself", "optimizes_writes"]

AUTO_COMPACT, OPTIMIZE_WRITE = "delta.autoOptimize.autoCompact", "delta.autoOptimize.optimizeWrite"
#: The older property, which stands for both.
_BOTH = "delta.autoOptimize"
_ON = ("true", "auto", "legacy")
#: What the property may be. The last two are those of Databricks, which choose other sizes than the first one.
AUTO_COMPACT_VALUES = ("false", *_ON)


def compacts_itself(properties: Mapping[str, str]) -> bool:
    """Return whether small files are to be put together after commits.

    Examples
    --------
    >>> compacts_itself({"delta.autoOptimize.autoCompact": "auto"}), compacts_itself({})
    (True, False)
    """
    return _is_on(properties, AUTO_COMPACT)


def optimizes_writes(properties: Mapping[str, str]) -> bool:
    """Return whether rows are to be brought together before they are written, so that few tasks write files."""
    return _is_on(properties, OPTIMIZE_WRITE)


def _is_on(properties: Mapping[str, str], name: str) -> bool:
    return _text(properties, _BOTH) == "true" or _text(properties, name) in _ON


def _text(properties: Mapping[str, str], name: str) -> str:
    return properties.get(name, "false").strip().lower()
