"""The order of the package: which layer and which folder may import which, and the rules that a tree of sources breaks.

A tree is a mapping of paths inside the package to texts, so that tests plant breaches in memory.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

__all__ = [
    "FOLDERS",
    "LAYERS",
    "circles",
    "crowded_folders",
    "doors",
    "dynamic_imports",
    "folders_that_are_no_packages",
    "foreign_imports",
    "listed_folders",
    "names_that_stand_twice",
    "page_breaches",
    "upward_imports",
]

#: Each layer may import itself and those below. What stands on one line never imports each other. The package itself
#: is ``__init__``.
LAYERS = (
    ("_version", "choices", "coming_from", "engines", "hints", "lists"),
    ("errors", "whole_numbers", "words", "workers"),
    ("missing_names", "telemetry"),
    ("signatures",),
    ("lazy_names",),
    ("lossless_json",),
    ("kernels",),
    ("schema",),
    ("expressions",),
    ("pruning",),
    ("storage",),
    ("files",),
    ("table",),
    ("delta", "iceberg"),
    ("catalogs",),
    ("convert",),
    ("api",),
    ("__init__", "spark"),
    ("cli",),
    ("__main__",),
)
_LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}
#: The folders of each folder that has some, each of which may import those before it.
FOLDERS = {
    "kernels": "pure",
    "kernels/pure": "avro bitmaps log",
    "schema": "variants rows",
    "expressions": "tree compute time build cast functions bind derive",
    "storage": "options",
    "files": "avro formats write read",
    "table": "rows sort commit open read streaming write change merge transaction maintain verbs",
    "table/maintain": "bins verifying cloning",
    "delta": "actions log schema checkpoint data snapshot after_commit scan stream transaction properties rows alter "
    "create change write maintain",
    "delta/maintain": "cleaning cloning",
    "iceberg": "schema metadata updates location partition manifests deletes scan stream inspect transaction rows "
    "create refs alter change write maintain",
    "iceberg/maintain": "cleaning manifest_rewriting rewriting statistics copying",
    "catalogs": "sql rest",
    "spark": "native read write maintain source columns tables",
    "spark/source": "streaming",
    "cli": "rows show commands",
}
#: The most modules that stand beside one another in a folder.
_MOST_MODULES = 14
#: Modules that import by a name which is not written there.
_LOADERS = {"__init__.py", "cli/app.py", "engines.py", "lazy_names.py"}
#: What imports a module by its name.
_BY_NAME = ("import_module", "__import__")
#: Packages, and modules of the standard library, that are imported in some layers only. The longest name decides.
#: Packages that are not listed are imported nowhere.
_OWNERS: dict[str, set[str]] = {
    "typing_extensions": set(),  # only type checkers need it
    "pyspark": {"spark"},
    "obstore": {"storage"},
    "http": {"catalogs/rest"},
    "socket": {"catalogs/rest"},
    "ssl": {"catalogs/rest"},
    "urllib.request": set(),  # requests are sent by urllib3
    "urllib.request.getproxies": {"catalogs/rest"},
    "urllib.request.proxy_bypass": {"catalogs/rest"},
    "urllib3": {"catalogs"},
    "boto3": {"storage"},
    "botocore": {"storage"},
    "py4j": {"spark"},
    "sqlalchemy": {"catalogs"},
    "sqlglot": {"expressions"},
    "yaml": {"catalogs"},
    "opentelemetry": {"telemetry.py"},
    "click": {"cli"},
    "rich": {"cli", "table/rows"},
    "pandas": {"table", "spark"},
    "polars": {"table"},
    "deltaberg._native": {"kernels"},
    "deltaberg.engines.register_engine": {"__init__.py"},
}


class _Import(NamedTuple):
    name: str
    #: Whether the import is run, or only read by type checkers.
    runs: bool


@cache
def _imports(path: str, text: str) -> tuple[_Import, ...]:
    """Return the absolute names that a module imports, wherever in the file, and whether by name or by a call."""
    package = ["deltaberg", *path.split("/")[:-1]]
    tree = ast.parse(text)
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If)
        and "TYPE_CHECKING" in ast.dump(node.test)
        and not isinstance(node.test, ast.UnaryOp)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    loaders = _names_of_loaders(tree)
    imports = []
    for node in ast.walk(tree):
        names: Iterable[str] = ()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and _is_loader(node.func, loaders):
            names = [_constant(argument).rstrip(".") for argument in node.args[:1]]
        imports += [_Import(name, id(node) not in for_types) for name in names]
    return tuple(imports) + (_Import("", True),) * _hides_loader(tree, loaders)


def _names_of_loaders(tree: ast.Module) -> set[str]:
    """Return what a module calls to import by a name, as it has imported it."""
    renamed = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("importlib", "builtins")
        for alias in node.names
        if alias.name in _BY_NAME
    }
    return {*_BY_NAME, *renamed}


def _is_loader(function: ast.expr, loaders: Collection[str]) -> bool:
    return isinstance(function, (ast.Name, ast.Attribute)) and ast.unparse(function).rpartition(".")[2] in loaders


def _hides_loader(tree: ast.Module, loaders: Collection[str]) -> bool:
    """Return whether a module names what imports by a name without calling it, so that calls of it are not seen."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return any(
        (id(node) not in called and isinstance(node, ast.expr) and _is_loader(node, loaders))
        or (isinstance(node, ast.Constant) and node.value in _BY_NAME)
        for node in ast.walk(tree)
    )


def _constant(argument: ast.expr) -> str:
    """Return the text of an argument, as far as it is constant from its beginning."""
    parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
    first = parts[0] if parts else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def dynamic_imports(sources: Mapping[str, str]) -> list[str]:
    """Return the modules that import by a name which nobody can check, besides those that may."""
    return [
        f"{path} imports by a computed name"
        for path, text in sources.items()
        if path not in _LOADERS and any(not name for name, _ in _imports(path, text))
    ]


def foreign_imports(sources: Mapping[str, str]) -> list[str]:
    """Return imports of packages outside of the layers and folders that own them."""
    breaches = []
    for path, text in sources.items():
        for name, runs in _imports(path, text):
            parts = name.split(".")
            prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
            owners = next((_OWNERS[prefix] for prefix in prefixes if prefix in _OWNERS), _owners_by_default(parts[0]))
            if runs and owners is not None and not any(f"{path}/".startswith(f"{owner}/") for owner in owners):
                breaches.append(f"{path} imports {name}")
    return breaches


def _owners_by_default(package: str) -> set[str] | None:
    """Return which layers may import a package that is not listed: None for all of them."""
    return None if package in ("", "deltaberg", "pyarrow") or package in sys.stdlib_module_names else set()


def _is_in(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def _child(path: str, folder: str) -> str:
    """Return the module or the folder that a path belongs to inside of a folder above it."""
    return path[len(folder) + 1 if folder else 0 :].partition("/")[0].removesuffix(".py")


def _children(sources: Mapping[str, str], folder: str) -> dict[str, bool]:
    """Return the modules and folders inside of a folder, and which of them are folders."""
    inside = [path for path in sources if _is_in(path, folder)]
    return {
        child: any(_is_in(path, f"{folder}/{child}".lstrip("/")) for path in inside)
        for child in dict.fromkeys(_child(path, folder) for path in inside)
    }


def _folders(sources: Mapping[str, str]) -> list[str]:
    parts = (path.split("/")[:-1] for path in sources)
    return list(dict.fromkeys("/".join(folders[:length]) for folders in parts for length in range(len(folders) + 1)))


def folders_that_are_no_packages(sources: Mapping[str, str]) -> list[str]:
    """Return the folders that Python and the builds of wheels do not take for packages."""
    return [folder for folder in _folders(sources) if f"{folder}/__init__.py".lstrip("/") not in sources]


def listed_folders(sources: Mapping[str, str]) -> list[str]:
    """Return what the lists of layers and of folders have too little or too much."""
    breaches = []
    if set(_LEVELS) != set(_children(sources, "")):
        breaches.append(f"LAYERS and the package differ: {sorted(set(_LEVELS) ^ set(_children(sources, '')))}")
    nested = {
        folder: {child for child, is_folder in _children(sources, folder).items() if is_folder}
        for folder in _folders(sources)
        if folder
    }
    for folder in sorted({*FOLDERS, *(folder for folder, inner in nested.items() if inner)}):
        differing = nested.get(folder, set()) ^ set(FOLDERS.get(folder, "").split())
        if differing:
            breaches.append(f"FOLDERS and the folders of {folder} differ: {sorted(differing)}")
    return breaches


def upward_imports(sources: Mapping[str, str]) -> list[str]:
    """Return imports against the order of the layers, and of the folders inside of a folder."""
    breaches = []
    orders = {"": _LEVELS}
    orders.update({folder: {name: at for at, name in enumerate(names.split())} for folder, names in FOLDERS.items()})
    for folder, levels in orders.items():
        children = _children(sources, folder)
        for path in (path for path in sources if _is_in(path, folder)):
            own = _child(path, folder)
            for name, _ in _imports(path, sources[path]):
                other = _imported_child(name, folder, children)
                if other is None or other == own or own not in levels:
                    continue
                if levels.get(other, -1) >= levels[own]:
                    breaches.append(f"{path} imports {name}")
    return breaches


def _imported_child(name: str, folder: str, children: Mapping[str, bool]) -> str | None:
    """Return which module or folder inside of a folder an import leads to, or None if it leads elsewhere."""
    package = ".".join(["deltaberg", *folder.split("/")]).rstrip(".")
    if name != package and not name.startswith(f"{package}."):
        return None
    child = name[len(package) + 1 :].partition(".")[0]
    # What is no module is a name that the folder itself gives.
    return {"_native": "kernels", "__version__": "_version"}.get(child, child if child in children else "__init__")


def circles(sources: Mapping[str, str]) -> list[list[str]]:
    """Return modules that import each other while they run, and what stands in one folder and imports each other."""
    modules = {_dotted(path): path for path in sources}
    running: dict[str, set[str]] = defaultdict(set)
    for path, text in sources.items():
        for name, runs in _imports(path, text):
            target = modules.get(name) or modules.get(name.rpartition(".")[0])
            if runs and target is not None and target != path:
                running[path].add(target)
    rings = _components(running)
    for folder in FOLDERS:
        children = _children(sources, folder)
        beside: dict[str, set[str]] = defaultdict(set)
        for path in (path for path in sources if _is_in(path, folder)):
            others = {_imported_child(name, folder, children) for name, _ in _imports(path, sources[path])}
            # The names that a folder gives come from the modules in it.
            if _child(path, folder) != "__init__":
                beside[_child(path, folder)] |= {other for other in others if other} - {_child(path, folder)}
        rings += [[f"{folder}/{child}" for child in circle] for circle in _components(beside)]
        rings += [[f"{folder}/{child}", folder] for child, others in beside.items() if "__init__" in others]
    return rings


def _dotted(path: str) -> str:
    return ".".join(["deltaberg", *path.removesuffix(".py").split("/")]).removesuffix(".__init__")


def _components(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the nodes that lead to themselves or stand between such nodes, in one list, if there are any."""
    left = {node: set(targets) for node, targets in graph.items()}
    while True:
        reached = set().union(*left.values()) if left else set()
        kept = {node: inner for node, targets in left.items() if node in reached and (inner := targets & left.keys())}
        if kept == left:
            return [sorted(left)] if left else []
        left = kept


def doors(sources: Mapping[str, str]) -> set[str]:
    """Return the folders that give names, and not only say what they are for."""
    return {
        path.rpartition("/")[0]
        for path, text in sources.items()
        if path.rpartition("/")[2] == "__init__.py" and len(ast.parse(text).body) > 1
    }


def crowded_folders(sources: Mapping[str, str]) -> list[str]:
    """Return the folders with more modules, or more folders beside one another, than can be overlooked."""
    breaches = []
    for folder in filter(None, _folders(sources)):
        children = _children(sources, folder)
        modules = [child for child, is_folder in children.items() if not is_folder and child != "__init__"]
        if len(modules) > _MOST_MODULES:
            breaches.append(f"{folder} has {len(modules)} modules")
    return breaches


def names_that_stand_twice(sources: Mapping[str, str]) -> list[list[str]]:
    """Return modules and folders of one layer with one name, besides the main module of a folder, which has its name.

    Twins of kernels have the names of what they are twins of.
    """
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in sources:
        *folders, base = path.split("/")
        if not folders or folders[0] == "kernels":
            continue
        name = folders[-1] if base == "__init__.py" else base.removesuffix(".py")
        if name != folders[-1] or (base == "__init__.py" and len(folders) > 1):
            homes[folders[0], name].append(path)
    return [paths for paths in homes.values() if len(paths) > 1]


def _cell(folder: str) -> str:
    """Return the folders of a folder as the page lists them."""
    inner = [(name, _cell(f"{folder}/{name}")) for name in FOLDERS.get(folder, "").split()]
    return ", ".join(f"`{name}` ({cell})" if cell else f"`{name}`" for name, cell in inner)


def page_breaches(page: str, sources: Mapping[str, str]) -> list[str]:
    """Return where the page of the architecture says something else than the lists, or names what is not there."""
    section = page.partition("\n## Layers\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in section.splitlines() if line.startswith("| `")]
    names = [row[0].strip("`") for row in rows]
    hidden = ("__init__", "__main__", "_version")
    expected = [name for layer in LAYERS for name in layer if name not in hidden]
    breaches = [] if names == expected else [f"the rows are {names}, and not {expected}"]
    breaches += [
        f"the folders of {name} are {_cell(name)}"
        for name, row in zip(names, rows, strict=True)
        if row[2] != _cell(name)
    ]
    return breaches + [f"{name} is not there" for name in _named(page) if not _is_there(name, sources)]


def _named(page: str) -> Iterator[str]:
    """Return the modules and folders of the package that a page names."""
    for text in re.findall(r"`([^`\n]+)`", page):
        first, slash, _ = text.partition("/")
        if re.fullmatch(r"[\w/{},]+(\.py)?/?", text) and (first in _LEVELS if slash else text.endswith(".py")):
            yield from _spelled(text)


def _spelled(text: str) -> list[str]:
    """Return the names that one with alternatives in braces stands for."""
    match = re.search(r"\{([^{}]*)\}", text)
    if match is None:
        return [text]
    return [
        name for part in match[1].split(",") for name in _spelled(f"{text[: match.start()]}{part}{text[match.end() :]}")
    ]


def _is_there(name: str, sources: Mapping[str, str]) -> bool:
    path = name.strip("/")
    if "/" in path:
        return any(place in sources for place in (path, f"{path}.py", f"{path}/__init__.py"))
    return any(f"/{source}".endswith(f"/{path}") for source in sources)
