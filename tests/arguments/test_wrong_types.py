"""Every argument of everything public, with values of wrong types: each is refused, or means something."""

from __future__ import annotations

import datetime as dt
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import ArgumentNameError, DeltabergError, InvalidArgumentError
from tests.arguments.doors import DOORS, NOWHERE, Door, Opened, argument_names
from tests.support.effort import VARIABLE

pytestmark = pytest.mark.one_backend


#: What terminals obey, and the most characters of an error with its facts and hint.
_CONTROL, _LONGEST = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]"), 8000


class _Odd:
    def __repr__(self) -> str:
        return "odd"


class _Mirror:
    """Has every attribute, and neither items nor truth, as Columns of Spark."""

    def __repr__(self) -> str:
        return "mirror"

    def __getattr__(self, name: str) -> _Mirror:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, _: object) -> _Mirror:
        return self

    def __eq__(self, _: object) -> Any:
        return self

    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a mirror is not iterable")

    def __bool__(self) -> bool:
        raise ValueError("a mirror is neither true nor false")


#: Values that no argument can mean, whatever it is for.
_NONSENSE: dict[str, Any] = {
    "object": _Odd(),
    "mirror": _Mirror(),
    "bytes": b"x",
    "not a number": math.nan,
    "numbers by name": {1: {}},
    "sparse": pd.arrays.SparseArray([1, 0, 0]),
    "half a character": "\ud800",
    "list of null": [None],
    "endless": 10**5000,
    "list of endless": [("a", 10**5000)],
}
#: Values that some arguments take, and others do not.
_ODD: dict[str, Any] = {
    "number": 7,
    "below zero": -1,
    "fraction": 1.5,
    "null by name": {"a": None},
    "long": "x" * 100_000,
    "function": lambda *_: None,
    "flag": True,
    "huge": 2**70,
    "set": {5},
    "empty": "",
    "tuple": (None,),
    "with a zero byte": "a\0b",
    "rows": [pa.table({"id": range(1000)})],
    "day": dt.date(1, 1, 1),
}
#: What takes nonsense all the same: values to compare with, of which each is equal to nothing, and numbers in arrays.
_TAKES = {
    ("col between", "low"): {"not a number"},
    ("col between", "high"): {"not a number"},
    ("col equals_or_both_null", "value"): {"not a number"},
    ("col is_in", "*values"): {"not a number", "numbers by name", "sparse", "list of null"},
    ("col isin", "*values"): {"not a number", "numbers by name", "sparse", "list of null"},
    ("delta vacuum", "keep_versions"): {"sparse"},
}


def _groups() -> dict[str, list[str]]:
    """Return the names of doors, in groups that one test each tries."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in DOORS:
        words = name.split()
        found[" ".join(words[:2]) if len(words) > 2 or words[0] == "col" else words[0]].append(name)
    return found


_GROUPS = _groups()


def _tried(values: dict[str, Any], number: int, count: int) -> Iterator[tuple[str, Any]]:
    """Return some of the values, others for each number; all of them in a thorough run."""
    names = list(values)
    chosen = names if os.environ.get(VARIABLE) == "1" else [names[(number + at) % len(names)] for at in range(count)]
    return ((name, values[name]) for name in chosen)


@pytest.mark.thorough
@pytest.mark.parametrize("group", _GROUPS)
def test_wrong_types_are_refused(tmp_path: Path, group: str) -> None:
    """No error is that of Python or of another library, and no commit leaves what cannot be read."""
    number = 0
    for name in _GROUPS[group]:
        door = DOORS[name]
        opened = door.open(tmp_path)
        for argument in argument_names(opened.function):
            number += 1
            for kind, value in (*_tried(_NONSENSE, number, 2), *_tried(_ODD, number, 1)):
                shown = f"{name}, {argument}: {kind}"
                taken = _is_taken(door, opened, argument, value, shown)
                if taken:
                    assert kind not in _NONSENSE or kind in _TAKES.get((name, argument), ()), f"{shown} is taken"
                    opened = door.open(tmp_path)


@pytest.mark.parametrize(
    ("name", "argument", "shown"),
    [
        ("delta compact", "cluster", "cluster"),
        ("iceberg alter add", "required", "required"),
        ("iceberg alter drop_branch", "name", "the name of a reference"),
        ("iceberg alter drop_tag", "name", "the name of a reference"),
        ("iceberg alter rename_branch", "name", "the name of a reference"),
        ("iceberg changes", "identifier_columns", "identifier_columns"),
        ("iceberg expire_snapshots", "snapshot_ids", "snapshot_ids"),
        ("iceberg publish", "wap_id", "wap_id"),
        ("sql catalog update_namespace_properties", "removals", "removals"),
    ],
)
def test_columns_of_spark_are_not_arguments(tmp_path: Path, name: str, argument: str, shown: str) -> None:
    opened = DOORS[name].open(tmp_path)
    with pytest.raises(InvalidArgumentError, match=f"{shown} must be "):
        opened.call(**{**DOORS[name].arguments(opened), argument: _Mirror()})


def _is_taken(door: Door, opened: Opened, argument: str, value: Any, shown: str) -> bool:
    arguments = door.arguments(opened)
    try:
        if argument.startswith("*"):
            opened.call(value, **arguments)
        else:
            opened.call(**{**arguments, argument: value})
    except DeltabergError as error:
        # An error that cannot be shown helps nobody, nor does one that a terminal obeys, or that shows what holds rows.
        text = str(error)
        is_plain = not _CONTROL.search(text) and "pyarrow.Table" not in text
        assert is_plain, f"{shown}: {text:.300}"
        assert len(text) < _LONGEST, f"{shown}: {text:.300}"
        return False
    except Exception as error:
        raise AssertionError(f"{shown} raises {type(error).__name__}: {error!s:.300}") from error
    if opened.table is not None:
        again = open_table(opened.table.location)
        again.scan().to_arrow()
        again.history()
    return True


@pytest.mark.parametrize("group", _GROUPS)
def test_arguments_that_there_are_not(tmp_path: Path, group: str) -> None:
    """The error names what was called, and says what to write."""
    for name in _GROUPS[group]:
        door = DOORS[name]
        opened = door.open(tmp_path)
        with pytest.raises(InvalidArgumentError, match=NOWHERE) as caught:
            opened.call(**door.arguments(opened), **{NOWHERE: 1})
        assert isinstance(caught.value, ArgumentNameError), name
        verb = opened.function.__name__.replace("__init__", name.split()[-1])
        assert caught.value.message.startswith(f"{verb}() has "), name
        assert caught.value.hint, name
