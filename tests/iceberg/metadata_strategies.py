"""Strategies for the JSON objects of table metadata, with members that no version of the specification knows.

Some numbers are `Raw`, with a spelling of their own: `tests.kernels.json_text.spell` writes these objects as text.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import strategies as st

from tests.kernels.json_text import Raw

__all__ = ["partition_specs", "references", "schemas", "snapshots", "sort_orders"]

_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
#: Numbers that Python would spell in another way.
_SPELLED = ["1.10", "-0", "1e3", "1E+2", "-0.0", "0.30000000000000000001", "5e-324"]
_OUT_OF_RANGE = ["1e400", "9" * 500, "9" * 5000]
_ANYTHING = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(-(1 << 70), 1 << 70), _FLOATS, _TEXT),
        st.sampled_from([Raw(text) for text in [*_SPELLED, *_OUT_OF_RANGE]] + ["\ud800"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT | st.just("\udc00"), inner, max_size=3),
    max_leaves=5,
)
_UNKNOWN = st.dictionaries(_TEXT.map("x-{}".format), _ANYTHING, max_size=2)
#: Types that are not nested, and texts of defaults of theirs.
_TYPES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": _INT64,
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False) | st.just(Raw("1.50")),
    "double": _FLOATS | st.integers(-5, 5) | st.sampled_from([Raw(text) for text in _SPELLED]),
    "decimal(9,2)": st.sampled_from(["14.20", "-14.2", "1E+3", "0"]),
    "decimal(38, 0)": st.sampled_from(["9" * 38, "0"]),
    "decimal( 5,5 )": st.just("0.12345"),
    "date": st.dates().map(str),
    "time": st.sampled_from(["22:31:08.123456", "22:31:08", "22:31:08.5"]),
    "timestamp": st.sampled_from(["2017-11-16T22:31:08.123456", "1969-12-31T23:59:59.5"]),
    "timestamptz": st.sampled_from(["2017-11-16T22:31:08.123456+00:00", "2017-11-16T22:31:08-07:30"]),
    "timestamp_ns": st.just("2017-11-16T22:31:08.123456789"),
    "timestamptz_ns": st.just("2017-11-16T22:31:08.123456789+00:00"),
    "string": _TEXT,
    "uuid": st.uuids().flatmap(lambda value: st.sampled_from([str(value), str(value).upper()])),
    "fixed[4]": st.binary(min_size=4, max_size=4).flatmap(
        lambda value: st.sampled_from([value.hex(), value.hex().upper()])
    ),
    "fixed[ 1 ]": st.just("0f"),
    "binary": st.binary(max_size=4).map(bytes.hex),
    "geometry": st.none(),
    "geometry(srid:4326)": st.none(),
    "geography(OGC:CRS84, karney)": st.none(),
    "variant": st.none(),
    "unknown": st.none(),
}


def _optional(found: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects with any of these members left out."""
    return st.sets(st.sampled_from(sorted(found))).map(
        lambda names: {name: value for name, value in found.items() if name in names}
    )


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """Return schemas of nested types."""
    ids = count(1)

    def type_of(depth: int) -> Any:
        kind = draw(st.sampled_from(["plain", "plain", "struct", "list", "map"] if depth else ["plain"]))
        if kind == "plain":
            return draw(st.sampled_from(sorted(_TYPES)))
        own: dict[str, Any] = {"type": kind, **draw(_UNKNOWN)}
        if kind == "struct":
            return own | {"fields": fields(depth - 1)}
        for name in ("element",) if kind == "list" else ("key", "value"):
            own[f"{name}-id"] = next(ids)
            own[name] = type_of(depth - 1)
            if name != "key":
                own[f"{name}-required"] = draw(st.booleans())
        return own

    def fields(depth: int) -> list[dict[str, Any]]:
        names = draw(st.lists(_TEXT, max_size=3, unique=True))
        return [field(name, depth) for name in names]

    def field(name: str, depth: int) -> dict[str, Any]:
        own = {"id": next(ids), "name": name, "required": draw(st.booleans()), "type": type_of(depth)}
        defaults = _TYPES[own["type"]] if isinstance(own["type"], str) else st.none()
        more = {
            "doc": draw(st.none() | _TEXT),
            "initial-default": draw(st.none() | defaults),
            "write-default": draw(st.none() | defaults),
        }
        return own | draw(_optional(more)) | draw(_UNKNOWN)

    numbers = {
        "schema-id": draw(st.none() | st.integers(0, 99)),
        "identifier-field-ids": draw(st.none() | st.lists(st.integers(1, 9), max_size=2)),
    }
    return {"type": "struct", "fields": fields(2), **draw(_optional(numbers)), **draw(_UNKNOWN)}


@st.composite
def _sources(draw: st.DrawFn) -> dict[str, Any]:
    """Return the members that name source columns: of one, of several, or of one in both spellings."""
    number = draw(st.integers(1, 9))
    several = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    return draw(
        st.sampled_from(
            [
                {"source-id": number},
                {"source-ids": several},
                {"source-id": several[0], "source-ids": several},
                {"source-id": number, "source-ids": draw(st.sampled_from([None, []]))},
            ]
        )
    )


_TRANSFORMS = st.sampled_from(["identity", "void", "year", "day", "bucket[16]", "truncate[4]", "zorder", "BUCKET[4]"])


@st.composite
def partition_specs(draw: st.DrawFn) -> dict[str, Any]:
    """Return partition specs."""
    fields = []
    numbers = draw(st.lists(st.integers(2000, 2009), max_size=3, unique=True))
    for number in numbers:
        own = {"name": draw(_TEXT), "transform": draw(_TRANSFORMS), **draw(_sources())}
        ids: dict[str, Any] = draw(st.sampled_from([{}, {"field-id": None}, {"field-id": number}]))
        fields.append({**own, **ids, **draw(_UNKNOWN)})
    return {"spec-id": draw(st.integers(0, 99)), "fields": fields, **draw(_UNKNOWN)}


@st.composite
def sort_orders(draw: st.DrawFn) -> dict[str, Any]:
    """Return sort orders."""
    directions = st.sampled_from(["asc", "desc"])
    nulls = st.sampled_from(["nulls-first", "nulls-last"])
    fields = [
        {
            "transform": draw(_TRANSFORMS),
            "direction": draw(directions),
            "null-order": draw(nulls),
            **draw(_sources()),
            **draw(_UNKNOWN),
        }
        for _ in range(draw(st.integers(0, 3)))
    ]
    return {"order-id": draw(st.integers(1, 99)), "fields": fields, **draw(_UNKNOWN)}


@st.composite
def snapshots(draw: st.DrawFn) -> dict[str, Any]:
    """Return snapshots of version 2 and up."""
    more = {
        "sequence-number": draw(st.none() | st.integers(0, 1 << 40)),
        "parent-snapshot-id": draw(st.none() | _INT64),
        "manifests": draw(st.none() | st.lists(_TEXT, max_size=2)),
        "summary": draw(st.none() | st.dictionaries(_TEXT, _TEXT, max_size=3)),
        "schema-id": draw(st.none() | st.integers(0, 9)),
        "first-row-id": draw(st.none() | st.integers(0, 1 << 40)),
        "added-rows": draw(st.none() | st.integers(0, 1 << 40)),
        "key-id": draw(st.none() | _TEXT),
    }
    own = {"snapshot-id": draw(_INT64), "timestamp-ms": draw(_INT64), "manifest-list": draw(_TEXT)}
    return {**own, **draw(_optional(more)), **draw(_UNKNOWN)}


@st.composite
def references(draw: st.DrawFn) -> dict[str, Any]:
    """Return branches and tags."""
    more = {
        "min-snapshots-to-keep": draw(st.none() | st.integers(0, 99)),
        "max-snapshot-age-ms": draw(st.none() | _INT64),
        "max-ref-age-ms": draw(st.none() | _INT64),
    }
    kind = draw(st.sampled_from(["branch", "tag", "BRANCH", "Tag"]))
    return {"snapshot-id": draw(_INT64), "type": kind, **draw(_optional(more)), **draw(_UNKNOWN)}
