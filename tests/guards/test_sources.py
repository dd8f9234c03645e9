"""Rules for every source file: its length, its name, and its `__all__`; and one version everywhere."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import deltaberg
from deltaberg import errors

pytestmark = pytest.mark.one_backend

_ROOT = Path(__file__).resolve().parents[2]
_MOST_LINES = 500
#: The classes of tables, each of which stands whole in one file: their docstrings do not count.
_FACES = ("table/verbs/table.py", "delta/table.py", "iceberg/table.py")
_NO_NAMES = {"utils", "util", "helpers", "common", "misc"}


def _sources(*suffixes: str) -> list[Path]:
    folders = ["python", "rust", "tests", "benches", "build_backend"]
    found = [path for folder in folders for path in (_ROOT / folder).rglob("*") if path.suffix in suffixes]
    assert len(found) > 30
    return found


def _modules() -> list[str]:
    found = pkgutil.walk_packages(deltaberg.__path__, "deltaberg.")
    names = [module.name for module in found if module.name.rpartition(".")[2] not in ("_native", "__main__")]
    return ["deltaberg", *names]


def _length(path: Path) -> int:
    text = path.read_text("utf-8")
    lines = len(text.splitlines())
    if path not in {_ROOT / "python" / "deltaberg" / face for face in _FACES}:
        return lines
    documented = (ast.FunctionDef, ast.ClassDef, ast.Module)
    bodies = [node.body[0] for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    docstrings = [one for one in bodies if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)]
    return lines - sum((one.end_lineno or one.lineno) - one.lineno + 1 for one in docstrings)


def test_no_file_is_two_rooms() -> None:
    lengths = {path: _length(path) for path in _sources(".py", ".pyi", ".rs")}
    assert not [f"{path.relative_to(_ROOT)}: {lines}" for path, lines in lengths.items() if lines > _MOST_LINES]


def test_no_module_is_a_drawer() -> None:
    assert not [path for path in _sources(".py", ".rs") if path.stem in _NO_NAMES]


def _untold(source: str) -> list[int]:
    """Return the lines that expect an error of ours, or any, and look neither at its text nor at the error."""
    broad = {"DeltabergError", "Exception", "BaseException"}
    ours = {name for name, value in vars(errors).items() if inspect.isclass(value)} | broad
    lines = []
    for node in ast.walk(ast.parse(source)):
        for item in node.items if isinstance(node, ast.With) else ():
            call = item.context_expr
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.raises":
                names = {name.id for name in ast.walk(call.args[0]) if isinstance(name, ast.Name)}
                if (names <= ours or names & broad) and not call.keywords and item.optional_vars is None:
                    lines.append(call.lineno)
    return lines


def test_every_expected_error_is_told_from_others() -> None:
    """A class alone does not say that the reason is the right one: the text is expected, or the error looked at."""
    assert _untold("with pytest.raises(SchemaError):\n    f()") == [1]
    assert _untold("with pytest.raises((KeyError, DeltabergError)):\n    f()") == [1]
    assert not _untold("with pytest.raises(SchemaError, match='no'):\n    f()")
    untold = {str(path.relative_to(_ROOT)): _untold(path.read_text("utf-8")) for path in _sources(".py")}
    assert not {path: lines for path, lines in untold.items() if lines}


def test_every_module_says_what_it_is_for() -> None:
    for path in _sources(".py"):
        text = path.read_text("utf-8")
        assert not text.strip() or ast.get_docstring(ast.parse(text)), path.relative_to(_ROOT)
    for path in _sources(".rs"):
        assert path.read_text("utf-8").startswith(("//!", "#![")), path.relative_to(_ROOT)


@pytest.mark.parametrize("name", _modules())
def test_the_public_names_exist_and_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    # A folder without a door has no names.
    listed = getattr(module, "__all__", None)
    if listed is None:
        assert hasattr(module, "__path__")
        return
    assert list(listed) == sorted(set(listed), key=lambda one: (not one.isupper(), not one[0].isupper(), one))
    for public in listed:
        found = getattr(module, public)
        needs_words = inspect.isclass(found) or inspect.isroutine(found)
        assert not needs_words or found.__doc__, f"{name}.{public} has no docstring"


def test_the_tree_of_exceptions_is_drawn() -> None:
    drawn = dict(re.findall(r"[─│ ]*(\w+Error)(?: \((\w+)\))?", errors.__doc__ or ""))
    assert set(drawn) == {name for name in errors.__all__ if inspect.isclass(getattr(errors, name))}
    for name, builtin in drawn.items():
        bases = {base.__name__ for base in getattr(errors, name).__mro__}
        assert not builtin or builtin in bases, f"{name} is not a {builtin}"


def test_versions_agree() -> None:
    version = deltaberg.__version__
    project = (_ROOT / "pyproject.toml").read_text("utf-8")
    assert re.search(r'^version = "(.+)"$', project, re.MULTILINE).group(1) == version  # type: ignore[union-attr]
    workspace = (_ROOT / "Cargo.toml").read_text("utf-8")
    assert re.search(r'^version = "(.+)"$', workspace, re.MULTILINE).group(1) == version  # type: ignore[union-attr]
    lock = (_ROOT / "Cargo.lock").read_text("utf-8")
    assert re.search(rf'name = "deltaberg-core"\nversion = "{re.escape(version)}"', lock)
    changes = (_ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## (\S+)", changes, re.MULTILINE).group(1) in ("Unreleased", version)  # type: ignore[union-attr]


def _scripts(path: Path) -> list[ast.Module]:
    """Return the texts of a file that are programs, such as those that a test runs in a process of its own."""
    programs = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            try:
                program = ast.parse(node.value)
            except SyntaxError:
                continue
            if not all(isinstance(one, (ast.Import, ast.ImportFrom)) for one in program.body):
                programs.append(program)
    return programs


def _missing_imports(program: ast.Module) -> list[str]:
    missing = []
    for node in ast.walk(program):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("deltaberg", "tests"):
            for one in node.names:
                try:
                    hasattr(importlib.import_module(str(node.module)), one.name) or importlib.import_module(
                        f"{node.module}.{one.name}"
                    )
                except ImportError:
                    missing.append(f"{node.module}.{one.name}")
    return missing


def test_programs_in_texts_import_what_there_is() -> None:
    """Neither mypy nor most runs see the programs that slow tests give to other processes."""
    assert _missing_imports(ast.parse("from deltaberg.schema import Field\nprint(Field)")) == ["deltaberg.schema.Field"]
    # The guards plant breaches in texts.
    paths = [path for path in _sources(".py") if path.parent != Path(__file__).parent]
    programs = [(path, program) for path in paths for program in _scripts(path)]
    assert len(programs) > 20
    assert [(path.name, missing) for path, program in programs if (missing := _missing_imports(program))] == []
