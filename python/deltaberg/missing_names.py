"""Names that there are not: those of other libraries say what to write instead, others which name is near."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import FrameType, ModuleType
from typing import Any

from deltaberg.coming_from.deltalake_names import DELTALAKE, POLARS
from deltaberg.coming_from.guessed_names import GUESSED
from deltaberg.coming_from.name_table import SAME, Names
from deltaberg.coming_from.pyiceberg_names import PYICEBERG
from deltaberg.coming_from.spark_names import DELTA_SPARK, ICEBERG_SPARK, ON_SPARK
from deltaberg.errors import ImportNameError, UnknownNameError

__all__ = ["LIBRARIES", "missing_name"]

#: The tables of names, by library.
LIBRARIES: Mapping[str, Mapping[str, Names]] = {
    "deltalake": DELTALAKE,
    "polars": POLARS,
    "pyiceberg": PYICEBERG,
    "delta-spark": DELTA_SPARK,
    "iceberg-spark": ICEBERG_SPARK,
}
#: Where a name is looked for that an object of a class lacks, first what is said of its own kind.
_OWNERS: Mapping[str, tuple[str, ...]] = {
    "DeltaTable": ("DeltaTable",),
    "IcebergTable": ("IcebergTable",),
    "Table": ("Table", "Rows", "DeltaTable", "IcebergTable"),
    "Scan": ("Scan", "Rows"),
    "Struct": ("Struct",),
    "Catalog": ("Catalog",),
    "DeltaTransaction": ("DeltaTransaction",),
    "IcebergTransaction": ("IcebergTransaction",),
    "TableTransaction": ("TableTransaction", "IcebergTable.transaction"),
    "TableAlteration": (
        *("Alteration", "DeltaTable.alter", "IcebergTable.update_schema", "IcebergTable.manage_snapshots"),
        *("IcebergTable.update_spec", "IcebergTable.update_sort_order"),
    ),
}
_CODE = re.compile(r"`(\w+)")


def missing_name(owner: Any, name: str) -> Exception:
    """Return the error for a name that an object, a class or a module of ours lacks.

    Names that begin with an underscore are what Python, notebooks and other libraries look for: nobody wrote them.

    Examples
    --------
    >>> import deltaberg
    >>> print(missing_name(deltaberg, "write_deltalake"))
    deltaberg has no write_deltalake, which is a name of deltalake
    hint: write deltaberg.write_table(target, data), which takes the same arguments
    """
    shown = owner.__name__ if isinstance(owner, (ModuleType, type)) else type(owner).__name__
    if name.startswith("_"):
        return AttributeError(f"{shown!r} has no attribute {name!r}", name=name, obj=owner)
    own = [one for one in dir(owner) if not one.startswith("_")]
    library, instead = _instead(_places(owner), name, own)
    whose = f", which is a name of {library}" if library else ""
    if not instead:
        near = get_close_matches(name, own, n=1, cutoff=0.75)
        instead = f"perhaps {near[0]} is meant" if near else f"dir() lists what {shown} has"
    message = f"{shown} has no {name}{whose}"
    if isinstance(owner, ModuleType) and _is_imported(sys._getframe(1)):  # noqa: SLF001 - Python says it nowhere else
        error = ImportNameError(message, hint=instead)
        # Python, too, names the module here that lacks something.
        error.name = shown
        return error
    return UnknownNameError(message, hint=instead)


def _places(owner: Any) -> list[str]:
    """Return the parts of the tables that are about an object, the nearest first."""
    if isinstance(owner, ModuleType):
        return [owner.__name__]
    classes = (owner if isinstance(owner, type) else type(owner)).__mro__
    # The classes of deltaberg.spark have the names of those of delta-spark, and their members.
    ours = (one.__name__ for one in classes if not one.__module__.startswith("deltaberg.spark"))
    return [place for one in ours for place in _OWNERS.get(one, ())]


def _instead(places: Sequence[str], name: str, own: list[str]) -> tuple[str, str]:
    """Return the library that has a name, and what to write instead of it; two empty texts if there is none."""
    for library, said in _said(places, name):
        text = said if "DeltaTable" in places[:1] else said.removeprefix(ON_SPARK)
        code = _CODE.match(text)
        # What is right on tables of one format may name what those of the other lack.
        if text != SAME and (code is None or code[1] in own or code[1] in _ELSEWHERE):
            plain = text.replace("`", "")
            return library, f"write {plain}" if text.startswith("`") else plain
    return "", ""


#: What code may begin with that is no member of the object.
_ELSEWHERE = frozenset({"deltaberg", "duckdb", "pyarrow"})


def _said(places: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    for place in places:
        for library, table in (("", GUESSED), *LIBRARIES.items()):
            text = table.get(place, {}).get(name)
            if text is not None:
                yield library, text


def _is_imported(frame: FrameType | None) -> bool:
    """Return whether the code that asked a module for a name is ``from module import name``.

    Python takes an AttributeError there for a name that cannot be imported, and drops what it says.
    """
    import dis

    while frame is not None and frame.f_globals.get("__name__", "").startswith("deltaberg"):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]
