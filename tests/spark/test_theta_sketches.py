"""Theta sketches beside those of Java's library, which iceberg-spark makes them by: byte by byte."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltaberg import kernels
from tests.support.java_files import java_of

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend]


def _alpha(spark: Any) -> Any:
    sketches = java_of(spark).org.apache.datasketches
    return sketches.theta.UpdateSketch.builder().setFamily(sketches.common.Family.ALPHA).build()


def _longs(spark: Any, sketch: Any, first: int, stop: int) -> None:
    """Feed numbers to a sketch inside the JVM: a call from here for each of them would take minutes."""
    lang, gateway = java_of(spark).java.lang, spark.sparkContext._gateway
    takes = gateway.new_array(lang.Class, 1)
    takes[0] = lang.Long.TYPE
    types, name = lang.invoke.MethodType, "org.apache.datasketches.theta.Update{}"
    state = lang.Class.forName(name.format("ReturnState"))
    found = lang.invoke.MethodHandles.publicLookup().findVirtual(
        lang.Class.forName(name.format("Sketch")), "update", types.methodType(state, takes)
    )
    bound = found.bindTo(sketch).asType(types.methodType(lang.Void.TYPE, takes))
    consumer = lang.Class.forName("java.util.function.LongConsumer")
    stream = java_of(spark).java.util.stream.LongStream.range(first, stop)
    stream.forEach(lang.invoke.MethodHandleProxies.asInterfaceInstance(consumer, bound))


def _ours(first: int, stop: int) -> bytes:
    sketch = b""
    for start in range(first, stop, 60_000):
        values = pa.array(range(start, min(start + 60_000, stop)), pa.int64()).view(pa.binary(8))
        sketch = kernels.update_sketch(sketch, values)
    return sketch


def _bytes(sketch: Any) -> bytes:
    return bytes(sketch.compact().toByteArray())


@pytest.mark.req("ICE-MNT-19", half="writer")
@pytest.mark.parametrize("values", [[], [b"a"], [b"ab", b"", b"x" * 15, b"x" * 16, b"x" * 33, b"\x00", b"ab"]])
def test_values_of_every_length(spark: Any, values: list[bytes]) -> None:
    sketch = _alpha(spark)
    for value in values:
        sketch.update(bytearray(value))
    assert kernels.update_sketch(b"", pa.array([*values, None], pa.binary())) == _bytes(sketch)


@pytest.mark.req("ICE-MNT-19", half="writer")
@pytest.mark.parametrize("count", [4_000, 4_096, 4_097, 50_000, 1_000_000])
def test_many_values_in_one_order(spark: Any, count: int) -> None:
    sketch = _alpha(spark)
    _longs(spark, sketch, 0, count)
    assert _ours(0, count) == _bytes(sketch)


@pytest.mark.parametrize("counts", [(3_000, 500), (3_000, 3_000), (30_000, 20), (40_000, 70_000, 5)])
def test_sketches_are_united_as_in_java(spark: Any, counts: tuple[int, ...]) -> None:
    union = java_of(spark).org.apache.datasketches.theta.SetOperation.builder().buildUnion()
    ours, first = [], 0
    for count in counts:
        sketch = _alpha(spark)
        _longs(spark, sketch, first, first + count)
        union.union(sketch)
        ours.append(_ours(first, first + count))
        first += count - 7
    assert kernels.unite_sketches(ours) == bytes(union.getResult().toByteArray())
