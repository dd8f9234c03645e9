"""Statistics as text: native and Python agree on every type and value, and on any bytes of a log."""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError
from deltaberg.kernels import pure
from deltaberg.kernels.results import STATS_PLACE
from tests.kernels.json_text import spell
from tests.kernels.twins import Raised, twins
from tests.support.effort import examples

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_INT64 = st.integers(-(2**63), 2**63 - 1)
#: Around the first and the last day of the years that have a text.
_MICROS = (
    _INT64
    | st.integers(-62_135_596_800_000_002, -62_135_596_799_999_998)
    | st.integers(253402300799998990, 253402300800001010)
)
_DAYS = st.integers(-(2**31), 2**31 - 1) | st.integers(-719_164, -719_160) | st.integers(2_932_894, 2_932_898)
_COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), _INT64),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.decimal128(38, 0), st.decimals(-(10**30), 10**30, places=0)),
    (pa.decimal128(20, 4), st.decimals(-(10**15), 10**15, places=4)),
    (pa.decimal128(38, 38), st.integers(1 - 10**38, 10**38 - 1).map(lambda digits: Decimal(f"{digits}e-38"))),
    (pa.string(), _TEXT),
    (pa.large_string(), _TEXT),
    (pa.date32(), _DAYS),
    (pa.timestamp("us"), _MICROS),
    (pa.timestamp("us", tz="UTC"), _MICROS),
    (pa.bool_(), st.booleans()),
    (pa.binary(), st.binary(max_size=3)),
]
_PATHS = [("a",), ("s", "x"), ("s", "t", "y"), ("s", "t", "z"), ("u", "x"), ('ü\n"',), ("",)]


@st.composite
def _found(draw: st.DrawFn) -> tuple[pa.RecordBatch, list[tuple[str, ...]]]:
    rows = draw(st.integers(0, 4))
    paths = [path for path in _PATHS if draw(st.booleans())]
    columns = {}

    def column(kind: pa.DataType, values: st.SearchStrategy[Any]) -> pa.Array:
        drawn = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        if pa.types.is_date32(kind):
            return pa.array(drawn, pa.int32()).cast(kind)
        return pa.array(drawn, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(drawn, kind)

    if draw(st.booleans()):
        columns["numRecords"] = column(pa.int64(), _INT64)
    for index in range(len(paths)):
        kind, values = draw(st.sampled_from(_COLUMNS))
        for side in ("min", "max"):
            if draw(st.integers(0, 4)):
                columns[f"{side}.{index}"] = column(kind, values)
        if draw(st.booleans()):
            columns[f"nullCount.{index}"] = column(pa.int64(), st.integers(0, 9))
    return pa.record_batch([pa.nulls(rows), *columns.values()], names=["other", *columns]), paths


@examples(500)
@given(_found(), st.booleans())
def test_any_columns(found: tuple[pa.RecordBatch, list[tuple[str, ...]]], tight: bool) -> None:
    batch, paths = found
    texts = twins(lambda kernels: kernels.format_stats(batch, paths, tight)).to_pylist()
    assert len(texts) == len(batch)
    counts = batch.select([name for name in batch.schema.names if name.startswith(("other", "nullCount"))])
    for row, text in zip(counts.to_pylist(), texts, strict=True):
        members = json.loads(text)
        assert members.get("tightBounds", False) is tight
        for index, path in enumerate(paths):
            inside: Any = members.get("nullCount")
            for name in path:
                inside = (inside or {}).get(name)
            assert inside == row.get(f"nullCount.{index}")


@examples(300)
@given(st.lists(st.floats() | st.integers(-(2**53), 2**53).map(lambda number: number / 4), max_size=20))
@example(
    [
        -1113178120592002.25,
        9007199254740993.0,
        1e16,
        9999999999999998.0,
        1e-5,
        1e-4,
        5e-324,
        2.0**70,
        -0.0,
        math.inf,
        -math.inf,
        math.nan,
    ]
)
def test_doubles_are_the_shortest_that_are_read_back(numbers: list[float]) -> None:
    batch = pa.record_batch({"min.0": pa.array(numbers, pa.float64())})
    texts = twins(lambda kernels: kernels.format_stats(batch, [("x",)], False)).to_pylist()
    for number, text in zip(numbers, texts, strict=True):
        shown = repr(number) if math.isfinite(number) else '"Infinity"' if number > 0 else '"-Infinity"'
        assert text == ("{}" if math.isnan(number) else f'{{"minValues":{{"x":{shown}}}}}')


def test_many_files_on_several_threads() -> None:
    """In the order of the files."""
    numbers = pa.array(range(50_000))
    batch = pa.record_batch({"numRecords": numbers, "max.0": numbers.cast(pa.string())})
    texts = twins(lambda kernels: kernels.format_stats(batch, [("x",)], False)).to_pylist()
    assert texts[-1] == '{"numRecords":49999,"maxValues":{"x":"49999"}}'
    assert len(set(texts)) == 50_000


def test_types_that_no_statistics_have() -> None:
    batch = pa.record_batch({"min.0": pa.array([[1]])})
    found = twins(lambda kernels: kernels.format_stats(batch, [("x",)], False), messages=False)
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError


_ESCAPES = st.sampled_from(
    [rb"\n", rb"\"", rb"\\", rb"\/", rb"\u00e9", rb"\ud83d\ude00", rb"\ud83d", rb"\u+123", rb"\x", b"\\", b'"']
)


@st.composite
def _places(draw: st.DrawFn) -> tuple[bytes, pa.StructArray]:
    pieces = (
        st.binary(max_size=4) | _TEXT.map(str.encode) | _ESCAPES | _TEXT.map(lambda text: spell(text).encode()[1:-1])
    )
    data, places = b"", []
    for piece in draw(st.lists(st.lists(pieces, max_size=6).map(b"".join), max_size=6)):
        places.append(draw(st.sampled_from([{"offset": len(data), "length": len(piece)}] * 9 + [None])))
        data += piece
    random.Random(len(data)).shuffle(places)
    if not draw(st.integers(0, 9)):
        places.append({"offset": draw(st.integers(-2, len(data))), "length": draw(st.integers(-2, len(data) + 2))})
    return data, pa.array(places, STATS_PLACE)


@examples(600)
@given(_places())
def test_any_bytes(case: tuple[bytes, pa.StructArray]) -> None:
    data, places = case
    found = twins(lambda kernels: kernels.stats_texts(data, places))
    if isinstance(found, Raised):
        assert found.kind is InvalidArgumentError
        return
    assert len(found) == len(places)


@examples(200)
@given(st.lists(_TEXT, max_size=5))
def test_what_was_written_is_read(texts: list[str]) -> None:
    parts = [json.dumps(text, ensure_ascii=index % 2 == 0).encode()[1:-1] for index, text in enumerate(texts)]
    ends = [sum(map(len, parts[: index + 1])) for index in range(len(parts))]
    places = [{"offset": end - len(part), "length": len(part)} for end, part in zip(ends, parts, strict=True)]
    found = pure.stats_texts(b"".join(parts), pa.array(places, STATS_PLACE))
    assert found.to_pylist() == texts
