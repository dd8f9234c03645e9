"""Which kernels run: the compiled ones or their Python twins.

Decided once, on first import of `deltaberg.kernels`, from the environment variable ``DELTABERG_KERNELS``:
``auto`` (the default: compiled where they can be used), ``native`` (or fail) or ``python``.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
from importlib import resources
from types import ModuleType
from typing import NamedTuple

from deltaberg._version import __version__
from deltaberg.errors import InvalidArgumentError, KernelUnavailableError

__all__ = ["Selection", "backend", "native_module", "select"]

_VARIABLE = "DELTABERG_KERNELS"
_CHOICES = ("auto", "native", "python")
_logger = logging.getLogger("deltaberg")


class Selection(NamedTuple):
    """The kernels in use: ``backend`` is ``native`` or ``python``, ``reason`` says why."""

    backend: str
    reason: str
    module: ModuleType


def select() -> Selection:
    """Choose the kernels by the environment."""
    choice = os.environ.get(_VARIABLE, "auto").strip().lower() or "auto"
    if choice not in _CHOICES:
        raise InvalidArgumentError(f"{_VARIABLE} is {choice!r}", hint=f"use one of {', '.join(_CHOICES)}")
    if choice == "python":
        return Selection("python", f"{_VARIABLE}=python", backend("python"))
    try:
        module = native_module()
    except KernelUnavailableError as error:
        if choice == "native":
            raise
        reason = f"{error.message}; {error.context['why']}"
        _logger.info("deltaberg runs its Python kernels: %s", reason)
        return Selection("python", reason, backend("python"))
    reason = f"{_VARIABLE}=native" if choice == "native" else "the compiled module is there"
    return Selection("native", reason, module)


def backend(name: str) -> ModuleType:
    """Give the module of one backend, whatever is selected: ``native`` or ``python``."""
    if name == "native":
        return native_module()
    if name == "python":
        return importlib.import_module("deltaberg.kernels.pure")
    raise InvalidArgumentError(f"no kernels are called {name!r}", hint="use native or python")


def native_module() -> ModuleType:
    """Import the compiled kernels; refuse those of another version."""
    try:
        module = importlib.import_module("deltaberg._native")
    except ImportError as error:
        raise KernelUnavailableError(
            "there is no usable compiled module deltaberg._native",
            hint=f"install a wheel for this platform, or set {_VARIABLE}=python",
            why=_why_pure() or str(error),
        ) from error
    found = getattr(module, "__version__", None)
    if found != __version__:
        raise KernelUnavailableError(
            "the compiled module is of another version than the package",
            hint="reinstall deltaberg",
            why=f"deltaberg is {__version__}, deltaberg._native is {found}",
        )
    return module


def _why_pure() -> str | None:
    """Give the reason that the build wrote into a wheel without compiled module."""
    try:
        text = resources.files("deltaberg").joinpath("_build.json").read_text("utf-8")
    except (OSError, ModuleNotFoundError):
        return None
    reason: str = json.loads(text)["reason"]
    return reason
