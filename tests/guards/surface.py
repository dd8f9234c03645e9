"""The public surface as text: the names that docs/api.md lists, their members and signatures, from the live objects.

``python -m tests.guards.surface --write`` renews ``tests/guards/public_surface.txt``. A difference from it is a change
for users: it belongs into docs/api.md and CHANGELOG.md.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args

from tests.support.pages import ROOT

__all__ = ["RECORDED", "Entry", "entries", "members", "surface"]

RECORDED = Path(__file__).with_name("public_surface.txt")
_PAGE = "docs/api.md"
_NAME = re.compile(r"`([A-Za-z]\w*)")
_UNPACKED = re.compile(r"Unpack\[(\w+)\]")


class Entry(NamedTuple):
    """A public name, with the members that the page lists; None for what has none, such as a function."""

    name: str
    members: frozenset[str] | None


def entries() -> list[Entry]:
    """Return what the page lists.

    A heading is a name or a module. Tables of a name have its members in the column "member"; those of a module have a
    name of the module in the column "name", and its members in the column "members".
    """
    listed_entries = []
    for section in re.split(r"^## ", (ROOT / _PAGE).read_text("utf-8"), flags=re.MULTILINE)[1:]:
        heading = re.match(r"`([\w.]+)", section)
        assert heading is not None, f"{_PAGE} has a heading without a name: {section.splitlines()[0]}"
        own: set[str] | None = None
        for columns in _rows(section):
            if "member" in columns:
                own = (own or set()) | set(_NAME.findall(columns["member"]))
            if "name" in columns:
                listed = _NAME.findall(columns["members"])
                (name,) = _NAME.findall(columns["name"])
                listed_entries.append(Entry(f"{heading[1]}.{name}", frozenset(listed) if listed else None))
        if not isinstance(_resolved(heading[1]), ModuleType):
            listed_entries.append(Entry(heading[1], None if own is None else frozenset(own)))
    return listed_entries


def _rows(section: str) -> Iterator[dict[str, str]]:
    """Return the rows of all tables of a section, by the heads of their columns."""
    heads: list[str] = []
    for line in section.splitlines():
        if not line.startswith("|"):
            heads = []
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not heads:
            heads = cells
        elif not line.startswith("|---"):
            yield dict(zip(heads, cells, strict=True))


def _resolved(name: str) -> Any:
    module, _, last = name.rpartition(".")
    if not module:
        return import_module(name)
    found = getattr(_resolved(module), last, None)
    return import_module(name) if found is None else found


def _own_classes(kind: type) -> list[type]:
    """Return a class and its bases, as far as they are ours."""
    return [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "deltaberg"]


def members(kind: type) -> dict[str, Any]:
    """Return the public members of a class by their names, those included that only its instances have."""
    attributes: dict[str, Any] = {}
    for base in reversed(_own_classes(kind)):
        fields = inspect.get_annotations(base)
        assigned = re.findall(r"^ +self\.([a-z]\w*)(?:: [^=\n]+)? = ", inspect.getsource(base), re.MULTILINE)
        for name in (*fields, *assigned, *vars(base)):
            if not name.startswith("_"):
                attributes[name] = inspect.getattr_static(kind, name, None)
    return attributes


def _for_types(module: ModuleType) -> dict[str, Any]:
    """Return what a module imports for type checkers alone."""
    found: dict[str, Any] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module.__file__ or "", "exec"), found)
    return found


def _keys(function: Callable[..., Any], annotation: str) -> list[str]:
    """Return the names of the arguments that a TypedDict stands for; no name, if the annotation is none of it."""
    match = _UNPACKED.fullmatch(annotation)
    if match is None:
        assert "Unpack" not in annotation, f"{annotation} of {function.__qualname__} is not the name of a TypedDict"
        return []
    module = sys.modules[inspect.unwrap(function).__module__]
    known = vars(module).get(match[1]) or _for_types(module)[match[1]]
    return sorted(known.__annotations__)


def _signature(function: Callable[..., Any], *, bound: bool) -> str:
    """Return the arguments of a function: names, kinds and defaults, those of a TypedDict by their names."""
    taken = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    shown: list[inspect.Parameter] = []
    for one in taken:
        keys = _keys(function, str(one.annotation)) if one.kind is one.VAR_KEYWORD else []
        shown += [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=...) for key in keys]
        if not keys:
            default = f"<{one.default.__qualname__}>" if inspect.isfunction(one.default) else one.default
            shown.append(inspect.Parameter(one.name, one.kind, default=default))
    return str(inspect.Signature(shown)).replace("=Ellipsis", "=...")


def _member(name: str, found: Any) -> str:
    if isinstance(found, (classmethod, staticmethod)):
        return f"{name}{_signature(found.__func__, bound=isinstance(found, classmethod))}"
    return f"{name}{_signature(found, bound=True)}" if inspect.isfunction(found) else name


def _made(kind: type) -> str:
    """Return the arguments of a class that users make objects of: dataclasses, and tables."""
    is_made = dataclasses.is_dataclass(kind) or issubclass(kind, tuple) or kind.__name__.endswith("Table")
    return _signature(kind, bound=False) if is_made else ""


def _described(entry: Entry) -> Iterator[str]:
    named = _resolved(entry.name)
    if inspect.isclass(named):
        yield f"{entry.name}{'' if issubclass(named, Exception) else _made(named)}"
        if entry.members is not None:
            known = members(named)
            yield from (f"    {_member(name, known.get(name))}" for name in sorted(entry.members))
    elif get_args(named):
        yield f"{entry.name}: {', '.join(get_args(named))}"
    else:
        yield f"{entry.name}{_signature(named, bound=False) if callable(named) else ''}"


def surface() -> str:
    """Return the public surface as text."""
    return "".join(f"{line}\n" for entry in sorted(entries()) for line in _described(entry))


def main() -> int:
    """Renew the recorded surface, or print the present one."""
    if "--write" in sys.argv[1:]:
        RECORDED.write_text(surface(), "utf-8")
    else:
        print(surface(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
