"""Log entries for random tests: actions of every kind, some of them wrong, on few files so that they interact."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from tests.kernels.json_text import Members, spell, values

__all__ = ["commits", "entries"]

_PATHS = [
    "a",
    "b.parquet",
    "p=1/c%20d",
    "p=1/c d",
    "/x/f",
    "file:/x/f",
    "file:///x/f",
    "file://localhost/x/f",
    "file:x",
    "s3://b/k",
    "s3a://b/k",
    "s3n://b/k%25",
    "ü%C3%BC",
    "%c3%bc%c3%bc",
    "😀",
    '"stats"',
    "stats",
    "\\%",
    "%zz%2",
    "\x7f",
    "",
    "\n",
    "x" * 70,
]
_VECTORS: list[dict[str, Any]] = [
    {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40, "cardinality": 6},
    {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 5, "sizeInBytes": 40, "cardinality": 6},
    {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "sizeInBytes": 40},
    {"storageType": "p", "pathOrInlineDv": "s3://t/ü.bin", "sizeInBytes": -1, "cardinality": 1 << 62},
    {"storageType": "p", "pathOrInlineDv": "s3://t/d.bin", "offset": None, "sizeInBytes": 1, "cardinality": 1, "x": []},
]
_STATS = [
    "{}",
    '{"numRecords":3}',
    ' { "numRecords" : 4 , "x" : [ -1.5e3, {"y":"z"} ] } ',
    '{"numRecords":1,"a":{"numRecords":9},"numRecords":2}',
    '{"numRecords":5}x',
    '{"numRecords":5',
    '{"numRecords":05}',
    '{"numRecords":-1}',
    '{"numRecords":2.0}',
    '{"numRecords":"7"}',
    '[{"numRecords":8}]',
    '{"numRecords":1,"minValues":{"ü":"\\"😀"}}',
    "",
    "no JSON",
    "\ud800",
    "\\",
    "x" * 64,
]


def _maps() -> st.SearchStrategy[Any]:
    keys = st.sampled_from(["p", "q", "ü", "stats", "\n", ""])
    return st.lists(st.tuples(keys, st.none() | st.text(max_size=5)), max_size=3, unique_by=lambda pair: pair[0]).map(
        Members
    )


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def _file(draw: st.DrawFn, required: dict[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
    body = {name: draw(value) for name, value in required.items()}
    vectors = st.sampled_from(_VECTORS).map(lambda vector: {"cardinality": 1, **vector})
    body |= draw(
        _optional(
            stats=st.sampled_from(_STATS) | st.none(),
            tags=_maps() | st.none(),
            deletionVector=vectors | st.none(),
            baseRowId=st.integers(0, 5) | st.none(),
            defaultRowCommitVersion=st.integers(-1, 5),
            clusteringProvider=st.text(max_size=3),
            extendedFileMetadata=st.booleans(),
            partitionValues=_maps(),
            size=st.integers(-(1 << 63), (1 << 63) - 1),
            deletionTimestamp=st.integers(0, 1 << 50) | st.none(),
            unknown=values(),
        )
    )
    return body


def _adds() -> st.SearchStrategy[dict[str, Any]]:
    return _file(
        {
            "path": st.sampled_from(_PATHS),
            "partitionValues": _maps(),
            "size": st.integers(0, 1 << 40),
            "modificationTime": st.integers(0, 1 << 50),
            "dataChange": st.booleans(),
        }
    )


def _bodies() -> st.SearchStrategy[tuple[str, Any]]:
    removes = _file({"path": st.sampled_from(_PATHS), "dataChange": st.booleans()})
    transactions = st.fixed_dictionaries(
        {"appId": st.sampled_from(["s1", "s2", "ü"]), "version": st.integers(-5, 5)},
        optional={"lastUpdated": st.integers(0, 9) | st.none()},
    )
    domains = st.fixed_dictionaries(
        {
            "domain": st.sampled_from(["d1", "delta.x"]),
            "configuration": st.text(max_size=4),
            "removed": st.booleans(),
        }
    )
    named = {"add": _adds(), "remove": removes, "txn": transactions, "domainMetadata": domains}
    named |= {"protocol": _optional(a=values()), "metaData": _optional(id=values(), schemaString=st.text(max_size=9))}
    named |= {"commitInfo": _optional(x=values()), "cdc": _optional(path=st.just("c")), "new": values()}
    kinds = ["add"] * 6 + ["remove"] * 4 + list(named)
    return st.sampled_from(kinds).flatmap(lambda name: st.tuples(st.just(name), named[name]))


@st.composite
def _actions(draw: st.DrawFn, sound: bool) -> Any:
    name, body = draw(_bodies())
    if sound or not isinstance(body, dict) or draw(st.integers(0, 5)):
        return {name: body}
    # One thing is wrong, or only odd: a value, a key twice, a key that is missing, more than one action.
    pairs = list(body.items())
    place = draw(st.integers(0, max(len(pairs) - 1, 0)))
    what = draw(st.sampled_from(["value", "twice", "missing", "two", "null"]))
    if what == "value" and pairs:
        pairs[place] = (pairs[place][0], draw(values()))
    elif what == "twice" and pairs:
        pairs.append(draw(st.sampled_from([pairs[place], (pairs[place][0], draw(values()))])))
    elif what == "missing" and pairs:
        del pairs[place]
    elif what == "null":
        return {name: None}
    members = [(name, Members(pairs))]
    if what == "two":
        other, inner = draw(_bodies())
        members.append((other, inner))
    return Members(members)


@st.composite
def entries(draw: st.DrawFn, sound: bool = False) -> bytes:
    """Draw a log entry; a sound one is valid, but for values of unknown fields and conflicts between its lines."""
    lines = draw(st.lists(_actions(sound), max_size=6))
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    text = [spell(line, None if rng.random() < 0.3 else rng) for line in lines]
    text += [rng.choice(["", " ", "\r", "\t"]) for _ in range(draw(st.integers(0, 2)))]
    return "\n".join(text).encode("utf-8", "surrogatepass") + (b"\n" if draw(st.booleans()) else b"")


def commits(sound: bool = False) -> st.SearchStrategy[list[tuple[int, bytes]]]:
    """Draw commits, newest first."""
    return st.lists(entries(sound), min_size=1, max_size=4).map(
        lambda found: [(len(found) - index, data) for index, data in enumerate(found)]
    )
