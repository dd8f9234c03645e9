"""Names of a package that are loaded when they are first asked for, so that a read need not load what writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    Parameters
    ----------
    package
        The name of the package.
    homes
        The module below the package that each name comes from.
    """

    def load(name: str) -> Any:
        if name not in homes:
            from deltaberg.missing_names import missing_name

            raise missing_name(sys.modules[package], name)
        from deltaberg.signatures import check_construction

        found = getattr(import_module(f"{package}.{homes[name]}"), name)
        # Inside of the package, classes are mostly made before anybody asks for them here, by calls that fit.
        check_construction(found)
        setattr(sys.modules[package], name, found)
        return found

    return load
