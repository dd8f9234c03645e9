"""Files that serve two actions, and statistics that are not text."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from deltaberg import open_table
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field
from tests.support.roads import Road, by_every_road

_EMPTY = b"\x01\x00\x00"


@pytest.mark.req("BEY-23")
def test_a_change_file_that_is_also_a_data_file(builder: DeltaBuilder, road: Road) -> None:
    """The change feed reads it once, as changes; the scan does not see the type of the changes."""
    schema = pa.schema([("id", pa.int64())])
    feed = {"delta.enableChangeDataFeed": "true"}
    protocol = builder.features(writer_only=["changeDataFeed"])
    builder.create(schema, builder.add(pa.table({"id": [1]})), configuration=feed, protocol=protocol)
    both = builder.add(pa.table({"id": [2, 3], "_change_type": ["insert", "insert"]}))
    body = {name: both["add"][name] for name in ("path", "partitionValues", "size")}
    builder.commit(both, {"cdc": {**body, "dataChange": False}})
    table = open_table(builder.root)
    assert road.rows(table.scan()) == [{"id": 1}, {"id": 2}, {"id": 3}]
    found = road.table(table.changes(1, columns=["id", "_change_type", "_commit_version"]))
    assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == [(2, "insert", 1), (3, "insert", 1)]


@by_every_road
@pytest.mark.req("BEY-25")
@pytest.mark.parametrize("text", ["0SSi2000000", "zzzzz", "", "5"])
def test_statistics_of_variants_are_not_compared_as_text(builder: DeltaBuilder, text: str) -> None:
    """Bounds of a variant are bytes in Z85: they are passed over, and hide no file."""
    stored = pa.StructArray.from_arrays(
        [pa.array([b"\x0c\x05", None], pa.binary()), pa.array([_EMPTY, None], pa.binary())],
        ["value", "metadata"],
        mask=pa.array([False, True]),
    )
    bounds = {"v": text, "n": 1}
    stats = {"numRecords": 2, "minValues": bounds, "maxValues": {**bounds, "n": 2}, "nullCount": {"v": 1, "n": 0}}
    rows = pa.table({"v": stored, "n": pa.array([1, 2], pa.int64())})
    add = builder.add(rows, stats=stats)
    assert json.loads(add["add"]["stats"])["minValues"]["v"] == text
    columns = [field("v", "variant"), field("n", "long")]
    builder.create(columns, add, protocol=builder.features("variantType"))
    table = open_table(builder.root)
    assert table.scan("v IS NOT NULL").to_arrow().column("n").to_pylist() == [1]
    assert table.scan("v IS NULL", ["n"]).to_arrow().to_pylist() == [{"n": 2}]
    files = table.scan().files(statistics=True)
    assert files.column("lower_bounds").to_pylist() == [{"n": 1}]
    assert files.column("null_value_counts").to_pylist() == [{"v": 1, "n": 0}]
