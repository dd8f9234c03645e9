"""Later features of Delta that tables carry today, the reader's half (BEY)."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, open_table
from deltaberg.delta.log.last_checkpoint import read_last_checkpoint
from deltaberg.errors import SpecViolationError, UnsupportedFeatureError, VersionNotFoundError
from deltaberg.schema.variants.values import variant_to_json
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field, struct_type
from tests.support.recorder import Recorder
from tests.support.roads import Road, by_every_road
from tests.support.rows import ID, ids, ids_of, live_files

_MILLIS = 1_704_067_200_000


def _at(millis: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=millis)


# Type widening


def _widened(name: str, kind: str, first: str, **more: Any) -> dict[str, Any]:
    change = {"fromType": first, "toType": kind, "tableVersion": 1, **more}
    return field(name, kind, delta__typeChanges=[change])


@pytest.mark.req("BEY-01", half="reader")
@pytest.mark.parametrize(
    ("stored", "first", "kind", "expected"),
    [
        (pa.array([34], pa.int32()), "integer", "long", 34),
        (pa.array([-1], pa.int8()), "byte", "short", -1),
        (pa.array([-1], pa.int8()), "byte", "long", -1),
        (pa.array([0.5], pa.float32()), "float", "double", 0.5),
        (pa.array([7], pa.int32()), "integer", "double", 7.0),
        (pa.array([17486], pa.int32()).cast(pa.date32()), "date", "timestamp_ntz", dt.datetime(2017, 11, 16)),
        (pa.array([Decimal("1.5")], pa.decimal128(4, 1)), "decimal(4,1)", "decimal(7,3)", Decimal("1.500")),
        (pa.array([5], pa.int32()), "integer", "decimal(12,2)", Decimal("5.00")),
        (pa.array([2**62], pa.int64()), "long", "decimal(20,0)", Decimal(2**62)),
        # No list has these, but they lose nothing.
        (pa.array([-128], pa.int8()), "byte", "decimal(4,1)", Decimal("-128.0")),
        (pa.array([-(2**15)], pa.int16()), "short", "decimal(5,0)", Decimal(-(2**15))),
        (pa.array([-(2**63)], pa.int64()), "long", "decimal(19,0)", Decimal(-(2**63))),
        (pa.array([-(2**15)], pa.int16()), "short", "float", -32768.0),
    ],
)
def test_types_that_were_widened(
    builder: DeltaBuilder, road: Road, stored: pa.Array, first: str, kind: str, expected: Any
) -> None:
    old = builder.add(pa.table({"x": stored}), stats="full")
    builder.create([field("x", first)], old, protocol=builder.features("typeWidening", "timestampNtz"))
    builder.commit(builder.metadata([_widened("x", kind, first)], configuration={"delta.enableTypeWidening": "true"}))
    table = open_table(builder.root)
    assert road.rows(table.scan()) == [{"x": expected}]
    assert table.scan("x IS NOT NULL").count() == 1


@pytest.mark.req("BEY-01", half="reader")
@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ("long", "integer"),
        ("string", "long"),
        ("double", "float"),
        ("long", "double"),
        ("date", "timestamp"),
        ("decimal(5,2)", "decimal(5,1)"),
        ("decimal(4,1)", "decimal(6,4)"),
        ("integer", "decimal(11,2)"),
        ("integer", "decimal(9,0)"),
        ("byte", "decimal(3,1)"),
        ("short", "decimal(4,0)"),
        ("short", "decimal(5,1)"),
        ("long", "decimal(18,0)"),
        ("integer", "float"),
    ],
)
def test_a_change_that_widens_nothing_is_refused(builder: DeltaBuilder, first: str, kind: str) -> None:
    builder.create([_widened("x", kind, first)], protocol=builder.features("typeWidening"))
    with pytest.raises(UnsupportedFeatureError, match=re.escape(f"from {first} to {kind}")):
        open_table(builder.root).scan().to_arrow()


@pytest.mark.req("BEY-01", half="reader")
@pytest.mark.parametrize(
    ("stored", "first", "kinds"),
    [
        (pa.int8(), "byte", ["short", "integer", "long", "double", "decimal(10,0)", "decimal(12,2)"]),
        (pa.int16(), "short", ["integer", "long", "double", "decimal(10,0)", "decimal(12,2)"]),
        (pa.int32(), "integer", ["long", "double", "decimal(10,0)", "decimal(12,2)"]),
        (pa.int64(), "long", ["decimal(20,0)", "decimal(22,2)"]),
    ],
)
def test_every_listed_widening_of_integers(
    builder: DeltaBuilder, stored: pa.DataType, first: str, kinds: list[str]
) -> None:
    high = 2 ** (stored.bit_width - 1) - 1
    old = builder.add(pa.table({kind: pa.array([high], stored) for kind in kinds}))
    columns = [_widened(kind, kind, first) for kind in kinds]
    builder.create(columns, old, protocol=builder.features("typeWidening"))
    assert open_table(builder.root).scan().to_arrow().to_pylist() == [dict.fromkeys(kinds, high)]


@pytest.mark.req("BEY-01", half="reader")
@pytest.mark.parametrize("checkpointed", [None, False, True])
def test_bounds_of_floats_hold_as_doubles(builder: DeltaBuilder, checkpointed: bool | None) -> None:
    """Writers record the shortest text of a float, which is another double than the value."""
    rows = pa.table({"x": pa.array([0.7, -0.7], pa.float32())})
    stats = {"numRecords": 2, "minValues": {"x": -0.7}, "maxValues": {"x": 0.7}, "nullCount": {"x": 0}}
    builder.create([field("x", "float")], builder.add(rows, stats=stats), protocol=builder.features("typeWidening"))
    builder.commit(builder.metadata([_widened("x", "double", "float")]))
    if checkpointed is not None:
        properties = {"delta.checkpoint.writeStatsAsStruct": str(checkpointed).lower()}
        builder.commit(builder.metadata([_widened("x", "double", "float")], configuration=properties))
        DeltaTable(builder.root).checkpoint()
    table = DeltaTable(builder.root)
    for condition, count in (("x < 0.7", 2), ("x >= 0.7", 0), ("x > -0.7", 2), ("x <= -0.7", 0), ("x > 0.69", 1)):
        assert table.scan(condition).count() == count, condition
    table.delete("x >= 0.7")
    assert DeltaTable(builder.root).scan().count() == 2


@pytest.mark.req("BEY-01", half="reader")
def test_parts_of_nested_types_are_widened(builder: DeltaBuilder, road: Road) -> None:
    array = {"type": "array", "elementType": "long", "containsNull": True}
    change = {"fromType": "integer", "toType": "long", "fieldPath": "element"}
    column = field("a", array, delta__typeChanges=[change])
    inner = struct_type(_widened("y", "long", "short"))
    rows = pa.table({"a": pa.array([[1, None]], pa.list_(pa.int32())), "s": [{"y": 2}]})
    rows = rows.set_column(1, "s", pa.array([{"y": 2}], pa.struct([("y", pa.int16())])))
    builder.create([column, field("s", inner)], builder.add(rows), protocol=builder.features("typeWidening-preview"))
    assert road.rows(open_table(builder.root).scan()) == [{"a": [1, None], "s": {"y": 2}}]


# Variants

_EMPTY = b"\x01\x00\x00"


@pytest.mark.req("BEY-02", half="reader")
@pytest.mark.parametrize("feature", ["variantType", "variantType-preview"])
def test_variants_are_two_binaries(builder: DeltaBuilder, road: Road, feature: str) -> None:
    stored = pa.StructArray.from_arrays(
        [pa.array([b"\x0c\x05", b"\x00"], pa.binary()), pa.array([_EMPTY, _EMPTY], pa.binary())], ["value", "metadata"]
    )
    builder.create([field("v", "variant")], builder.add(pa.table({"v": stored})), protocol=builder.features(feature))
    rows = road.rows(open_table(builder.root).scan())
    assert [variant_to_json(row["v"]["metadata"], row["v"]["value"]) for row in rows] == ["null", "5"]
    assert rows[1]["v"] == {"metadata": _EMPTY, "value": b"\x0c\x05"}


@pytest.mark.req("BEY-03")
def test_shredded_variants_are_put_together(builder: DeltaBuilder, road: Road) -> None:
    stored = pa.StructArray.from_arrays(
        [
            pa.array([_EMPTY] * 3, pa.binary()),
            pa.array([None, b"\x05a", b"\x00"], pa.binary()),
            pa.array([5, None, None], pa.int64()),
        ],
        ["metadata", "value", "typed_value"],
    )
    protocol = builder.features("variantType", "variantShredding")
    builder.create([field("v", "variant")], builder.add(pa.table({"v": stored})), protocol=protocol)
    rows = road.rows(open_table(builder.root).scan())
    assert sorted(variant_to_json(row["v"]["metadata"], row["v"]["value"]) for row in rows) == ['"a"', "5", "null"]


# Times of commits


@by_every_road
@pytest.mark.req("BEY-04", half="reader")
def test_times_in_commits(builder: DeltaBuilder) -> None:
    enabled = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": str(_MILLIS + 2000),
        "delta.enableChangeDataFeed": "true",
    }
    builder.create(ID, millis=_MILLIS)
    builder.commit(builder.add(ids(1)), millis=_MILLIS + 1000)
    protocol = builder.protocol(1, 7, None, ["inCommitTimestamp", "changeDataFeed"])
    late = _MILLIS + 10**9
    builder.commit(
        protocol,
        builder.metadata(ID, configuration=enabled),
        info={"inCommitTimestamp": _MILLIS + 2000},
        millis=late,
    )
    # The clock of the writer ran back by 10 s: it recorded one more than before.
    builder.commit(builder.add(ids(3)), info={"inCommitTimestamp": _MILLIS + 2001}, millis=late - 10_000)
    table = open_table(builder.root, "delta")
    times = [commit.timestamp for commit in table.history()]
    assert times == [_at(_MILLIS + millis) for millis in (2001, 2000, 1000, 0)]
    assert table.timestamp == _at(_MILLIS + 2001)
    for millis, version in ((0, 0), (1999, 1), (2000, 2), (2001, 3)):
        assert open_table(builder.root, "delta", timestamp=_at(_MILLIS + millis)).version == version
    changes = table.changes(3).to_arrow()
    assert changes["_commit_timestamp"].to_pylist() == [_at(_MILLIS + 2001)]


# Features that readers acknowledge or refuse


@by_every_road
@pytest.mark.req("BEY-05", half="reader")
def test_vacuum_protocol_check_is_acknowledged(builder: DeltaBuilder) -> None:
    protocol = builder.features("vacuumProtocolCheck", writer_only=["checkpointProtection", "somethingNew"])
    builder.create(ID, builder.add(ids(1)), protocol=protocol)
    assert ids_of(open_table(builder.root)) == [1]


@by_every_road
@pytest.mark.req("BEY-06", half="reader")
def test_collations_are_kept_and_comparison_is_by_bytes(builder: DeltaBuilder) -> None:
    rows = pa.table({"s": ["a", "B"]})
    column = field("s", "string", __COLLATIONS={"s": "ICU.en_US"})
    column["metadata"] = {"__COLLATIONS": {"s": "ICU.en_US"}}
    stats = {
        "numRecords": 2,
        "minValues": {"s": "B"},
        "maxValues": {"s": "a"},
        "statsWithCollation": {"ICU.en_US.72": {"minValues": {"s": "a"}, "maxValues": {"s": "B"}}},
    }
    protocol = builder.protocol(1, 7, None, ["collations", "domainMetadata"])
    builder.create([column], builder.add(rows, stats=stats), protocol=protocol)
    table = open_table(builder.root)
    (found,) = table.schema
    assert found.metadata["__COLLATIONS"] == {"s": "ICU.en_US"}
    assert [table.scan(text).count() for text in ("s = 'b'", "s = 'B'", "s < 'a'", "s > 'a'")] == [0, 1, 1, 0]


@pytest.mark.req("BEY-07", half="reader")
@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_tables_of_a_catalog_are_refused_by_path(builder: DeltaBuilder, feature: str) -> None:
    builder.create(ID, protocol=builder.features(feature, writer_only=["inCommitTimestamp"]))
    with pytest.raises(UnsupportedFeatureError, match=feature) as caught:
        open_table(builder.root)
    assert "managed by a catalog" in caught.value.message


@by_every_road
@pytest.mark.req("BEY-07", half="reader")
def test_staged_commits_are_not_part_of_a_table(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    staged = builder.log / "_staged_commits"
    staged.mkdir()
    name = f"{1:020d}.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json"
    for folder in (staged, builder.log):
        (folder / name).write_text(json.dumps(builder.add(ids(2))))
    table = open_table(builder.root, "delta")
    assert (table.version, ids_of(table)) == (0, [1])


@pytest.mark.req("BEY-10", half="reader")
def test_the_version_checksum_is_compared(builder: DeltaBuilder) -> None:
    adds = [builder.add(size=100, path="a.parquet"), builder.add(size=50, path="b.parquet")]
    builder.create(ID, *adds)
    open_table(builder.root, "delta", validate=True)
    recorded = {"tableSizeBytes": 150, "numFiles": 2, "numMetadata": 1, "numProtocol": 1}
    checksum = builder.log / f"{0:020d}.crc"
    checksum.write_text(json.dumps(recorded))
    open_table(builder.root, "delta", validate=True)
    for text in (json.dumps({**recorded, "tableSizeBytes": 151}), json.dumps({**recorded, "numFiles": 3}), "{", "[]"):
        checksum.write_text(text)
        assert open_table(builder.root, "delta").version == 0
        with pytest.raises(SpecViolationError, match=r"\.crc"):
            open_table(builder.root, "delta", validate=True)


@by_every_road
@pytest.mark.req("BEY-11", half="reader")
@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_protocol_may_fall(builder: DeltaBuilder, checkpoint: bool) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.features("fooFeature"))
    if checkpoint:
        builder.checkpoint()
    builder.commit(builder.protocol(1, 2))
    table = open_table(builder.root, "delta")
    assert (table.protocol.min_reader_version, ids_of(table)) == (1, [1])
    with pytest.raises(UnsupportedFeatureError, match="fooFeature"):
        open_table(builder.root, "delta", version=0)


@pytest.mark.req("BEY-14")
@pytest.mark.parametrize("kind", ["geometry(OGC:CRS84)", "timestamp_nanos", "interval day to second", "mystery"])
def test_unknown_types_are_named(builder: DeltaBuilder, kind: str) -> None:
    builder.create([field("id", "long"), field("g", kind)], builder.add(ids(1)))
    with pytest.raises(UnsupportedFeatureError) as caught:
        open_table(builder.root).scan().to_arrow()
    assert kind in str(caught.value)
    assert "not supported" in str(caught.value)


@pytest.mark.req("BEY-15", half="reader")
@pytest.mark.parametrize(
    "name", ["coordinatedCommits-preview", "redirectReaderWriter-preview", "adaptiveMetadata-preview"]
)
def test_previews_that_nobody_registered_are_refused(builder: DeltaBuilder, name: str) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.features(name))
    with pytest.raises(UnsupportedFeatureError, match=name):
        open_table(builder.root)


@by_every_road
@pytest.mark.req("BEY-15", half="reader")
@pytest.mark.parametrize("name", ["typeWidening-preview", "variantType-preview"])
def test_registered_previews_are_aliases(builder: DeltaBuilder, name: str) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.features(name))
    assert ids_of(open_table(builder.root)) == [1]


@by_every_road
@pytest.mark.req("BEY-20", half="reader")
def test_partition_values_of_modern_writers(builder: DeltaBuilder) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.timestamp("us", "UTC"))])
    add = builder.add(ids(1), partition={"p": "2024-01-01T00:00:00.123456Z"})
    builder.create(schema, add, partition_by=["p"])
    table = open_table(builder.root, timezone="Asia/Tokyo")
    wanted = dt.datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=dt.timezone.utc)
    assert table.scan().to_arrow()["p"].to_pylist() == [wanted]
    assert table.scan("p = TIMESTAMP '2024-01-01 00:00:00.123456Z'").files().num_rows == 1


@pytest.mark.req("BEY-22", half="reader")
def test_leaf_names_may_repeat_in_other_structs(builder: DeltaBuilder, road: Road) -> None:
    def part(number: int) -> dict[str, Any]:
        x = field("x", "long", delta__columnMapping__id=number + 10, delta__columnMapping__physicalName="x")
        name = f"s{number}"
        return field(
            name, struct_type(x), delta__columnMapping__id=number, delta__columnMapping__physicalName=f"col-{number}"
        )

    rows = pa.table({"col-1": [{"x": 1}], "col-2": [{"x": 2}]})
    configuration = {"delta.columnMapping.mode": "name"}
    builder.create([part(1), part(2)], builder.add(rows), configuration=configuration, protocol=builder.protocol(2, 5))
    table = open_table(builder.root)
    assert road.rows(table.scan()) == [{"s1": {"x": 1}, "s2": {"x": 2}}]
    assert live_files(table)


@by_every_road
@pytest.mark.req("BEY-17", half="reader")
@pytest.mark.parametrize("whole", [False, True])
def test_the_pointer_names_a_v2_checkpoint(builder: DeltaBuilder, recorder: Recorder, whole: bool) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.features("v2Checkpoint"))
    files = [builder.checkpoint(kind="uuid-parquet", sidecars=1)[0] for _ in range(3)]
    for file in files:
        path = str(file) if whole else file.name
        pointer = {
            "version": 0,
            "size": 3,
            "v2Checkpoint": {"path": path, "sizeInBytes": 1, "modificationTime": 1, "sidecarFiles": []},
            "tags": {"unknown": "1", "sidecarNumActions": "7"},
        }
        (builder.log / "_last_checkpoint").write_text(json.dumps(pointer))
        recorder.clear()
        assert ids_of(open_table(builder.root)) == [1]
        assert {name for name in recorder.read if ".checkpoint." in name} == {file.name}
        found = read_last_checkpoint(json.dumps(pointer).encode())
        assert found is not None
        assert found.tags == {"unknown": "1", "sidecarNumActions": "7"}
    files[2].unlink()
    assert ids_of(open_table(builder.root)) == [1]


@by_every_road
@pytest.mark.req("DL-CLEAN-01", half="reader")
def test_a_cleaned_table_is_the_same_table(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(0)))
    for number in range(1, 8):
        builder.commit(builder.add(ids(number)), {"txn": {"appId": "a", "version": number}})
    builder.checkpoint(5)
    before = open_table(builder.root, "delta")
    seen = [ids_of(before), live_files(before), before.transactions, before.version]
    for version in range(5):
        (builder.log / f"{version:020d}.json").unlink()
    after = open_table(builder.root, "delta")
    assert [ids_of(after), live_files(after), after.transactions, after.version] == seen
    assert ids_of(open_table(builder.root, "delta", version=5)) == list(range(6))
    with pytest.raises(VersionNotFoundError, match="no longer available"):
        open_table(builder.root, "delta", version=4)
