"""The types of columns and the options of calls, made of values of wrong types: refused, or what can be shown."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

import deltaberg
import deltaberg.delta
import deltaberg.iceberg
from deltaberg.errors import ArgumentNameError, DeltabergError, SchemaError
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, List, Map, Primitive, Struct, TextLength
from tests.arguments.test_wrong_types import _NONSENSE, _ODD

pytestmark = pytest.mark.one_backend

_FIELD = Field("a", Primitive("long"), metadata={"b": [1]}, id=7, default=7)
#: Right arguments of the types.
_TYPES: dict[type, dict[str, Any]] = {
    Primitive: {"name": "long"},
    Decimal: {"precision": 10, "scale": 2},
    Fixed: {"length": 4},
    List: {"element": _FIELD},
    Map: {"key": _FIELD, "value": _FIELD},
    Struct: {"fields": (_FIELD,)},
    Field: {"name": "a", "type": Primitive("long")},
    TextLength: {"characters": 4, "is_padded": True},
}
#: What callers make, as opposed to what calls return.
_OPTIONS: dict[type, dict[str, Any]] = {
    one: {}
    for name in deltaberg.__all__
    if inspect.isclass(one := getattr(deltaberg, name)) and name.endswith(("Policy", "Options", "Layout"))
}
#: Nonsense that is a default, metadata or a name all the same: tables are what refuses it.
_TAKES = {
    "default": _NONSENSE.keys() - {"endless", "list of endless"},
    "metadata": {"numbers by name"},
    "name": {"half a character"},
    "physical_name": {"half a character"},
}


@pytest.mark.parametrize("kind", [*_TYPES, *_OPTIONS], ids=lambda kind: kind.__name__)
def test_made_of_wrong_types(kind: type) -> None:
    right = (_TYPES | _OPTIONS)[kind]
    for argument in inspect.signature(kind).parameters:
        for shown, value in {**_NONSENSE, **_ODD, "kind": Primitive, "field": _FIELD}.items():
            try:
                built = kind(**{**right, argument: value})
            except DeltabergError as error:
                # An error that cannot be shown helps nobody.
                _ = str(error)
                continue
            assert shown not in _NONSENSE or shown in _TAKES.get(argument, ()), f"{argument}: {shown} is taken"
            for show in (repr, str):
                assert isinstance(show(built), str), (argument, shown)


def test_all_types_are_tried() -> None:
    own = {kind for kind in DataType.__subclasses__() if kind.__module__ == DataType.__module__}
    assert {kind for kind in _TYPES if issubclass(kind, DataType)} == own
    assert len(_OPTIONS) >= 4


@pytest.mark.parametrize("kind", _TYPES, ids=lambda kind: kind.__name__)
def test_types_are_made_rightly(kind: type) -> None:
    made = kind(**_TYPES[kind])
    assert made == copy.copy(made) == pickle.loads(pickle.dumps(made))
    with pytest.raises(SchemaError, match=r"too long|of the type"):
        kind(**{**_TYPES[kind], next(reversed(inspect.signature(kind).parameters)): 10**5000})


_PUBLIC = sorted(
    {
        one
        for package in (deltaberg, deltaberg.delta, deltaberg.iceberg)
        for name in package.__all__
        if inspect.isclass(one := getattr(package, name)) and not issubclass(one, BaseException)
    },
    key=lambda kind: f"{kind.__module__}.{kind.__qualname__}",
)


@pytest.mark.parametrize("kind", _PUBLIC, ids=lambda kind: kind.__name__)
def test_calls_that_do_not_fit(kind: type) -> None:
    """Whatever callers can name, they may try to make, with arguments of other libraries or too many of them."""
    for args, named in (((), {"nonsense": 1}), ((1,) * 60, {})):
        with pytest.raises(ArgumentNameError, match=r"\w+\(\) (?:has no argument nonsense|takes \d+ arguments?|needs)"):
            kind(*args, **named)
