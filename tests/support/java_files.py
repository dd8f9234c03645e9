"""Parquet and ORC files that Java's own writers write, using the jars of Spark. They support types and layouts that
pyarrow cannot write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.spark_session import REMOTE

__all__ = ["java_of", "write_java_orc", "write_java_parquet"]


def java_of(spark: Any) -> Any:
    """Return access to the Java classes of a session; skip the test if the session is in another process."""
    if os.environ.get(REMOTE) == "1":
        pytest.skip("a Spark Connect client has no Java")
    return spark._jvm


def write_java_parquet(spark: Any, path: Path, message: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of a Parquet message type; a list stands for a repeated field, a mapping for a group."""
    java = java_of(spark)
    parquet = java.org.apache.parquet
    schema = parquet.schema.MessageTypeParser.parseMessageType(message)
    target = java.org.apache.hadoop.fs.Path(str(path))
    writer = parquet.hadoop.example.ExampleParquetWriter.builder(target).withType(schema).build()
    for row in rows:
        group = parquet.example.data.simple.SimpleGroup(schema)
        _fill(spark, group, row)
        writer.write(group)
    writer.close()


def _fill(spark: Any, group: Any, row: Mapping[str, Any]) -> None:
    for name, value in row.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Mapping):
                _fill(spark, group.addGroup(name), part)
            elif isinstance(part, bytes):
                group.append(name, java_of(spark).org.apache.parquet.io.api.Binary.fromConstantByteArray(part))
            elif (
                isinstance(part, int)
                and group.getType().getType(name).asPrimitiveType().toString().split()[1] == "int64"
            ):
                _append_long(spark, group, name, part)
            else:
                group.append(name, part)


def _append_long(spark: Any, group: Any, name: str, value: int) -> None:
    """Call ``append(String, long)``; py4j would convert a small number to an int, and choose the method for ints."""
    java, gateway = java_of(spark), spark.sparkContext._gateway
    types, arguments = gateway.new_array(java.java.lang.Class, 2), gateway.new_array(java.java.lang.Object, 2)
    types[0], types[1] = java.java.lang.Class.forName("java.lang.String"), java.java.lang.Long.TYPE
    arguments[0], arguments[1] = name, value
    group.getClass().getMethod("append", types).invoke(group, arguments)


def write_java_orc(
    spark: Any, path: Path, schema: str, ids: Sequence[int], columns: Sequence[Sequence[Any]], **attributes: str
) -> None:
    """Write columns of an ORC type.

    Parameters
    ----------
    ids
        The attribute ``iceberg.id`` of each column.
    columns
        The values: numbers, bytes, pairs of milliseconds and the nanoseconds of the second for timestamps, pairs of a
        tag and a value for unions. None is null.
    attributes
        Further attributes of all columns, with ``__`` for a dot.
    """
    from py4j.java_gateway import get_field, set_field

    java = java_of(spark)
    orc = java.org.apache.orc
    kind = orc.TypeDescription.fromString(schema)
    for child, number in zip(kind.getChildren(), ids, strict=True):
        child.setAttribute("iceberg.id", str(number))
        for name, value in attributes.items():
            child.setAttribute(name.replace("__", "."), value)
    options = orc.OrcFile.writerOptions(java.org.apache.hadoop.conf.Configuration()).setSchema(kind)
    writer = orc.OrcFile.createWriter(java.org.apache.hadoop.fs.Path(str(path)), options)
    batch = kind.createRowBatch()
    for vector, values in zip(_each(get_field(batch, "cols")), columns, strict=True):
        for row, value in enumerate(values):
            _put(vector, row, value)
    set_field(batch, "size", len(columns[0]))
    writer.addRowBatch(batch)
    writer.close()


def _each(array: Any) -> Iterator[Any]:
    for index in range(len(array)):
        yield array[index]


def _put(vector: Any, row: int, value: Any) -> None:
    from py4j.java_gateway import get_field, set_field

    name = vector.getClass().getSimpleName()
    if value is None:
        set_field(vector, "noNulls", False)
        get_field(vector, "isNull")[row] = True
    elif name == "TimestampColumnVector":
        get_field(vector, "time")[row], get_field(vector, "nanos")[row] = value
    elif name == "UnionColumnVector":
        tag, inner = value
        get_field(vector, "tags")[row] = tag
        _put(get_field(vector, "fields")[tag], row, inner)
    elif isinstance(value, bytes):
        vector.setVal(row, value)
    else:
        get_field(vector, "vector")[row] = value
