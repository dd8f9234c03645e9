"""The choice between the compiled kernels and their Python twins.

It is made once, when `deltaberg.kernels` is first imported, and follows the environment variable
``DELTABERG_KERNELS``: ``auto`` (the default) uses the compiled kernels if it can, ``native`` requires them, and
``python`` uses the twins.
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
from deltaberg.hints import shown_value

__all__ = ["Selection", "backend", "native_module", "select"]

_VARIABLE = "DELTABERG_KERNELS"
_CHOICES = ("auto", "native", "python")
_logger = logging.getLogger("deltaberg")


class Selection(NamedTuple):
    """The kernels in use: the ``backend`` (``native`` or ``python``), why it was chosen, and its module."""

    backend: str
    reason: str
    module: ModuleType


def select() -> Selection:
    """Choose the kernels that the environment asks for.

    Raises
    ------
    InvalidArgumentError
        If ``DELTABERG_KERNELS`` has an unknown value.
    KernelUnavailableError
        If it is ``native`` and the compiled module cannot be used.
    """
    choice = os.environ.get(_VARIABLE, "auto").strip().lower() or "auto"
    if choice not in _CHOICES:
        raise InvalidArgumentError(
            f"{_VARIABLE} has the unknown value {choice!r}", hint=f"use {', '.join(_CHOICES[:-1])} or {_CHOICES[-1]}"
        )
    if choice == "python":
        return Selection("python", f"{_VARIABLE}=python", backend("python"))
    try:
        module = native_module()
    except KernelUnavailableError as error:
        if choice == "native":
            raise
        reason = f"{error.message}; {error.context['why']}"
        _logger.info("deltaberg falls back to its Python kernels: %s", reason)
        return Selection("python", reason, backend("python"))
    reason = f"{_VARIABLE}=native" if choice == "native" else "the compiled module is installed"
    return Selection("native", reason, module)


def backend(name: str) -> ModuleType:
    """Return the module of a backend, ``native`` or ``python``, even if the other one is in use."""
    if name == "native":
        return native_module()
    if name == "python":
        return importlib.import_module("deltaberg.kernels.pure")
    raise InvalidArgumentError(f"there is no kernel backend {shown_value(name)}", hint="use native or python")


def native_module() -> ModuleType:
    """Import the compiled kernels, and refuse them if they were built for another version of the package."""
    try:
        module = importlib.import_module("deltaberg._native")
    except ImportError as error:
        raise KernelUnavailableError(
            "the compiled module deltaberg._native cannot be imported",
            hint=f"install a wheel for this platform, or set {_VARIABLE}=python",
            why=_why_pure() or str(error),
        ) from error
    version = getattr(module, "__version__", None)
    if version != __version__:
        raise KernelUnavailableError(
            "the compiled module was built for another version of the package",
            hint="reinstall deltaberg",
            why=f"deltaberg is {__version__}, deltaberg._native is {version}",
        )
    return module


def _why_pure() -> str | None:
    """Return why this wheel has no compiled module, if the build left a note in it."""
    try:
        text = resources.files("deltaberg").joinpath("_build.json").read_text("utf-8")
    except (OSError, ModuleNotFoundError):
        return None
    reason: str = json.loads(text)["reason"]
    return reason
