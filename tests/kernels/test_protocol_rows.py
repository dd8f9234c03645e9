"""Rules of the protocol that concern a single kernel, with the examples of the requirements."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import InvalidPartitionValueError
from tests.kernels.twins import backends

pytestmark = pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__.rpartition(".")[2])

_Action = dict[str, dict[str, Any]]


def _add(path: str, vector: str | None = None) -> _Action:
    body = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    return {"add": {**body, **_vector(vector)}}


def _remove(path: str, vector: str | None = None) -> _Action:
    return {"remove": {"path": path, "dataChange": True, **_vector(vector)}}


def _vector(name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    return {"deletionVector": {"storageType": "i", "pathOrInlineDv": name, "sizeInBytes": 1, "cardinality": 1}}


def _replay(kernels: ModuleType, *commits: list[_Action]) -> Any:
    """Replay commits, given oldest first and from version 0 on."""
    texts = [(version, "\n".join(map(json.dumps, actions)).encode()) for version, actions in enumerate(commits)]
    return kernels.replay(reversed(texts))


def _keys(table: pa.Table) -> list[tuple[str, str | None]]:
    vectors = (vector and vector["pathOrInlineDv"] for vector in table.column("deletionVector").to_pylist())
    return sorted(zip(table.column("path").to_pylist(), vectors, strict=True), key=repr)


@pytest.mark.req("DL-REC-01", half="reader")
def test_the_latest_protocol_wins(kernels: ModuleType) -> None:
    def protocol(writer: int) -> _Action:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": writer}}

    commits = [[protocol(2), {"metaData": {"id": "a"}}], [_add("f")], [{"metaData": {"id": "b"}}], [protocol(4)]]
    before, after = _replay(kernels, *commits[:3]), _replay(kernels, *commits)
    assert (before.protocol[0], json.loads(before.protocol[1])["minWriterVersion"]) == (0, 2)
    assert (after.protocol[0], json.loads(after.protocol[1])["minWriterVersion"]) == (3, 4)
    assert json.loads(after.metadata[1]) == {"id": "b"}


@pytest.mark.req("DL-REC-02", half="reader")
def test_the_latest_transaction_wins(kernels: ModuleType) -> None:
    def progress(app_id: str, version: int) -> _Action:
        return {"txn": {"appId": app_id, "version": version}}

    found = _replay(kernels, [], [progress("s1", 1), progress("s2", 5)], [progress("s1", 2)]).transactions
    versions = dict(zip(found.column("appId").to_pylist(), found.column("version").to_pylist(), strict=True))
    assert versions == {"s1": 2, "s2": 5}


@pytest.mark.req("DL-REC-04", half="reader")
def test_a_file_that_comes_back(kernels: ModuleType) -> None:
    found = _replay(kernels, [], [_add("f")], [_remove("f")], [_add("f")])
    assert (_keys(found.adds), _keys(found.removes)) == ([("f", None)], [])


@pytest.mark.req("DL-REC-05", half="reader")
def test_tombstones_beside_a_live_file(kernels: ModuleType) -> None:
    found = _replay(
        kernels, [], [_add("f")], [_remove("f"), _add("f", "00000")], [_remove("f", "00000"), _add("f", "11111")]
    )
    assert _keys(found.adds) == [("f", "11111")]
    assert _keys(found.removes) == [("f", "00000"), ("f", None)]


@pytest.mark.req("DL-REC-06", half="reader")
def test_a_path_is_live_once(kernels: ModuleType) -> None:
    found = _replay(kernels, [], [_add("f", "00000")], [_add("f", "11111")])
    assert _keys(found.adds) == [("f", "11111")]


@pytest.mark.req("DL-REC-09", half="reader")
def test_a_remove_of_nothing(kernels: ModuleType) -> None:
    found = _replay(kernels, [], [_add("f")], [_remove("g")])
    assert (_keys(found.adds), _keys(found.removes)) == ([("f", None)], [("g", None)])


@pytest.mark.req("DL-REC-10", half="reader")
def test_spellings_of_one_file(kernels: ModuleType) -> None:
    for spelled, removed in (("file:/x/f", "/x/f"), ("file:///x/f%20g", "/x/f g"), ("/x/f", "file:///x/f")):
        found = _replay(kernels, [_add(spelled), _add("/x/%2520")], [_remove(removed), _remove("/x/%20")])
        assert _keys(found.adds) == [("/x/%2520", None)]


def _value(kernels: ModuleType, text: str | None, primitive: str) -> Any:
    maps = pa.array([[("p", text)]], pa.map_(pa.string(), pa.string()))
    column = kernels.parse_partition_values(maps, [("p", primitive)]).column(0)
    if pa.types.is_struct(column.type):
        column = column.field("value")
    return (column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column)[0].as_py()


@pytest.mark.req("DL-PART-01", half="reader")
def test_empty_is_null(kernels: ModuleType) -> None:
    for primitive in ("integer", "string", "binary", "timestamp", "decimal(10,2)"):
        assert _value(kernels, "", primitive) is None
        assert _value(kernels, None, primitive) is None


@pytest.mark.req("DL-PART-03", half="reader")
def test_numbers(kernels: ModuleType) -> None:
    assert _value(kernels, "-128", "byte") == -128
    assert _value(kernels, "9223372036854775807", "long") == 9223372036854775807
    assert _value(kernels, "1.50", "decimal(10,2)") == Decimal("1.50")
    assert _value(kernels, "1.0E10", "double") == 1e10
    assert math.isnan(_value(kernels, "NaN", "double"))
    assert _value(kernels, "Infinity", "float") == math.inf
    for text, primitive in (("128", "byte"), ("1.5", "long"), ("1.505", "decimal(10,2)"), ("x", "double")):
        with pytest.raises(InvalidPartitionValueError, match='of column "p" is not a valid'):
            _value(kernels, text, primitive)


@pytest.mark.parametrize("primitive", ["float", "double"])
def test_numbers_without_digits_in_any_spelling(kernels: ModuleType, primitive: str) -> None:
    """Writers take them from their own languages: delta-rs writes inf, Java Infinity."""
    for text in ("inf", "Inf", "+inf", "infinity", "INFINITY", "+Infinity"):
        assert _value(kernels, text, primitive) == math.inf, text
        assert _value(kernels, "-" + text.lstrip("+"), primitive) == -math.inf, text
    for text in ("nan", "NaN", "NAN"):
        assert math.isnan(_value(kernels, text, primitive)), text
    for text in ("-nan", "+NaN", "infinit", "in", "--inf", "inf "):
        with pytest.raises(InvalidPartitionValueError, match='of column "p" is not a valid'):
            _value(kernels, text, primitive)


def test_bounds_without_digits(kernels: ModuleType) -> None:
    """NaN bounds nothing, however it is spelled."""
    texts = [
        json.dumps({"minValues": {"x": low}, "maxValues": {"x": high}})
        for low, high in (("-inf", "inf"), ("nan", "NAN"))
    ]
    found = kernels.parse_stats(pa.array(texts), [(("x",), "double")])
    assert found.column("min.0").to_pylist() == [-math.inf, None]
    assert found.column("max.0").to_pylist() == [math.inf, None]


@pytest.mark.req("DL-PART-04", half="reader")
def test_dates(kernels: ModuleType) -> None:
    assert str(_value(kernels, "1970-01-01", "date")) == "1970-01-01"
    assert str(_value(kernels, "2017-12-10", "date")) == "2017-12-10"


@pytest.mark.req("DL-PART-05", half="reader")
def test_timestamps(kernels: ModuleType) -> None:
    assert _value(kernels, "1970-01-01 00:00:00", "timestamp") == 0
    assert _value(kernels, "1970-01-01 00:00:00.123456", "timestamp") == 123456
    assert _value(kernels, "1970-01-01 00:00:00.1", "timestamp") == 100000


@pytest.mark.req("DL-PART-09", half="reader")
def test_booleans(kernels: ModuleType) -> None:
    assert _value(kernels, "true", "boolean") is True
    assert _value(kernels, "false", "boolean") is False
    assert _value(kernels, "TRUE", "boolean") is True


@pytest.mark.req("DL-PART-10", half="reader")
def test_binary(kernels: ModuleType) -> None:
    text = json.loads('"\\u0001\\u0002\\u0003"')
    assert _value(kernels, text, "binary") == b"\x01\x02\x03"


def test_numbers_written_with_many_zeros(kernels: ModuleType) -> None:
    """Python itself refuses to read numbers of so many digits."""
    zeros = "0" * 5000
    assert _value(kernels, f"-{zeros}7", "long") == -7
    assert _value(kernels, f"1e{zeros}2", "decimal(10,2)") == 100


def test_reconcile_takes_absent_text_as_empty(kernels: ModuleType) -> None:
    vector = pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int32())])

    def batch(kind: str | None) -> pa.RecordBatch:
        row = {"storageType": kind, "pathOrInlineDv": "a", "offset": None}
        return pa.record_batch({"path": pa.array(["f"]), "deletionVector": pa.array([row], vector)})

    assert kernels.reconcile([], [batch(None)], [batch("")], "remove").to_pylist() == [False]
