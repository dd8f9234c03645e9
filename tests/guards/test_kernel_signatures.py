"""The stub, the compiled kernels, their Python twins and the architecture page name the same kernels and errors."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from deltaberg import errors, kernels
from deltaberg.errors import KernelUnavailableError

pytestmark = pytest.mark.one_backend

_ROOT = Path(__file__).resolve().parents[2]


def _native() -> Any:
    try:
        return kernels.backend("native")
    except KernelUnavailableError as error:
        pytest.skip(str(error))


def _stub() -> dict[str, list[tuple[str, str | None]]]:
    tree = ast.parse((_ROOT / "python" / "deltaberg" / "_native.pyi").read_text("utf-8"))
    signatures = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            signatures[node.name] = _declared(node)
        elif isinstance(node, ast.ClassDef):
            # A class that callers make objects of is a kernel; others are what a kernel returns.
            for one in node.body:
                if isinstance(one, ast.FunctionDef) and one.name == "__init__":
                    signatures[node.name] = _declared(one)[1:]
    return signatures


def _declared(function: ast.FunctionDef) -> list[tuple[str, str | None]]:
    missing: list[ast.expr | None] = [None] * (len(function.args.args) - len(function.args.defaults))
    return [
        (argument.arg, None if default is None else ast.unparse(default))
        for argument, default in zip(function.args.args, [*missing, *function.args.defaults], strict=True)
    ]


def _parameters(function: Any) -> list[tuple[str, str | None]]:
    return [
        (name, None if parameter.default is parameter.empty else repr(parameter.default))
        for name, parameter in inspect.signature(function).parameters.items()
    ]


def test_the_stub_lists_every_kernel() -> None:
    assert set(_stub()) == set(kernels.FUNCTIONS)
    assert set(kernels.FUNCTIONS) == set(kernels.backend("python").__all__)


@pytest.mark.parametrize("name", kernels.FUNCTIONS)
def test_python_kernels_match_the_stub(name: str) -> None:
    assert _parameters(getattr(kernels.backend("python"), name)) == _stub()[name]


@pytest.mark.parametrize("name", kernels.FUNCTIONS)
def test_compiled_kernels_match_the_stub(name: str) -> None:
    assert _parameters(getattr(_native(), name)) == _stub()[name]


def test_the_compiled_module_has_nothing_else() -> None:
    public = {name for name in dir(_native()) if not name.startswith("_")}
    assert public == {*kernels.FUNCTIONS, "ERROR_KINDS"}


def test_the_architecture_lists_every_kernel() -> None:
    page = (_ROOT / "docs" / "architecture.md").read_text("utf-8")
    section = page.partition("\n## Kernels\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(kernels.FUNCTIONS)


def test_every_error_kind_has_a_class() -> None:
    """The binding's match is exhaustive, so every kind has a name; each must be an exception, and only its own."""
    kinds = dict(_native().ERROR_KINDS)
    assert len(set(kinds.values())) == len(kinds)
    for kind, name in kinds.items():
        assert issubclass(getattr(errors, name), errors.DeltabergError), kind
        assert name != "DeltabergError", f"{kind} has no class of its own"
    core, binding = ((_ROOT / "rust" / crate / "src" / "error.rs").read_text("utf-8") for crate in ("core", "python"))
    variants = core.partition("pub enum ErrorKind {")[2].partition("}")[0]
    declared = {line.strip().rstrip(",") for line in variants.splitlines() if line.strip() and "//" not in line}
    assert declared == set(kinds)
    assert "_ =>" not in binding.partition("match kind {")[2].partition("}")[0]
