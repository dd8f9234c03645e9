"""Tables that pyiceberg writes are read as pyiceberg reads them: all columns, every snapshot, and under filters."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from deltaberg import open_table
from deltaberg.errors import VersionNotFoundError
from deltaberg.table.read.scan import bound_scan
from tests.support.canon import canonical_lines
from tests.support.filter_cases import check_filters
from tests.support.roads import Road

pytestmark = pytest.mark.slow

_UTC = dt.timezone.utc
_KINDS: dict[str, Any] = {
    "id": LongType(),
    "flag": BooleanType(),
    "i": IntegerType(),
    "l": LongType(),
    "f": FloatType(),
    "d": DoubleType(),
    "dec9": DecimalType(9, 2),
    "dec18": DecimalType(18, 0),
    "dec38": DecimalType(38, 10),
    "day": DateType(),
    "tod": TimeType(),
    "ts": TimestampType(),
    "tstz": TimestamptzType(),
    "s": StringType(),
    "u": UUIDType(),
    "fx": FixedType(5),
    "bin": BinaryType(),
}
_NESTED: dict[str, Any] = {
    "list": ListType(101, IntegerType(), element_required=False),
    "structs": ListType(
        102,
        StructType(
            NestedField(103, "x", IntegerType()),
            NestedField(104, "y", ListType(105, StringType(), element_required=False)),
        ),
        element_required=False,
    ),
    "map": MapType(106, StringType(), 107, DoubleType(), value_required=False),
    "deep": MapType(
        108, IntegerType(), 109, StructType(NestedField(110, "v", TimestamptzType())), value_required=False
    ),
    "st": StructType(
        NestedField(111, "a", IntegerType()),
        NestedField(112, "b", StructType(NestedField(113, "c", StringType()), NestedField(114, "u", UUIDType()))),
    ),
}
_UUIDS = [uuid.UUID(int=number).bytes for number in (0, 1, 1 << 64, (1 << 128) - 1)]
_VALUES: dict[str, list[Any]] = {
    "flag": [True, False],
    "i": [-(2**31), -1, 0, 7, 2**31 - 1],
    "l": [-(2**63), -11, 0, 10, 2**63 - 1],
    "f": [-1.5, -0.0, 0.0, 0.1, float("nan"), float("inf")],
    "d": [-1e300, -0.0, 0.0, 0.1, float("nan"), float("-inf")],
    "dec9": [Decimal("-9999999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("10.65")],
    "dec18": [Decimal(-(10**17)), Decimal(0), Decimal(10**17)],
    "dec38": [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0.0000000001"), Decimal(3)],
    "day": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    "tod": [dt.time(0), dt.time(12, 30, 15, 1), dt.time(23, 59, 59, 999_999)],
    "ts": [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        dt.datetime(1970, 1, 1),
        dt.datetime(2024, 2, 29, 13, 5, 6, 7),
    ],
    "tstz": [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, _UTC),
        dt.datetime(1970, 1, 1, tzinfo=_UTC),
        dt.datetime(2024, 2, 29, 13, 5, 6, 7, _UTC),
    ],
    "s": ["", "abc", "abcd", "so uth/%=&+", "üñ—☃", "𐍈" * 20],
    "u": _UUIDS,
    "fx": [b"\0" * 5, b"ab\xffde", b"\xff" * 5],
    "bin": [b"", b"\0", b"abc", b"\xff" * 20],
    "list": [[], [1, None, 3]],
    "structs": [[], [{"x": 1, "y": ["a", None]}, None, {"x": None, "y": None}]],
    "map": [[], [("a", 0.5), ("b", None)]],
    "deep": [[], [(1, {"v": dt.datetime(2024, 1, 1, tzinfo=_UTC)}), (2, None)]],
    "st": [{"a": 1, "b": {"c": "x", "u": _UUIDS[1]}}, {"a": None, "b": None}, {"a": 2, "b": {"c": None, "u": None}}],
}
#: Each transform on every type that pyiceberg partitions by it: it fails with identities of UUIDs and buckets of times.
_PARTITIONS = [
    *[(name, "identity") for name in _VALUES if name not in (*_NESTED, "u")],
    *[(name, "bucket[3]") for name in ("i", "l", "dec9", "dec38", "day", "ts", "tstz", "s", "u", "fx", "bin")],
    *[(name, "truncate[3]") for name in ("i", "l", "dec9", "dec38", "s", "bin")],
    *[(name, unit) for name in ("day", "ts", "tstz") for unit in ("year", "month", "day")],
    *[(name, "hour") for name in ("ts", "tstz")],
]


def _schema(*names: str) -> Schema:
    kinds = {**_KINDS, **_NESTED}
    return Schema(*[NestedField(number, name, kinds[name]) for number, name in enumerate(names or kinds, start=1)])


def _rows(rng: random.Random, table: Any, first: int, count: int) -> pa.Table:
    """Return rows of the table's columns, an eighth of the values null."""
    arrow = table.schema().as_arrow()
    values = {}
    for field in arrow:
        chosen: list[Any] = list(range(first, first + count))
        if field.name != "id":
            chosen = [None if rng.random() < 0.125 else rng.choice(_VALUES[field.name]) for _ in chosen]
        plain = pa.array(chosen, _plain_type(field.type))
        # Large bytes are not truncated by pyiceberg.
        values[field.name] = plain if pa.types.is_binary(plain.type) else plain.cast(field.type)
    return pa.table(values)


def _create(catalog: SqlCatalog, request: Any, schema: Schema, *partitions: tuple[str, str], **properties: str) -> Any:
    fields = [
        PartitionField(schema.find_field(name).field_id, 1000 + number, parse_transform(text), f"p{number}")
        for number, (name, text) in enumerate(partitions)
    ]
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    return catalog.create_table(
        f"db.{name}", schema, partition_spec=PartitionSpec(*fields), properties={"format-version": "2", **properties}
    )


def _plain(table: pa.Table) -> pa.Table:
    """Return pyiceberg's rows with types as deltaberg names them: no extension types, nothing large."""
    return table.cast(pa.schema([field.with_type(_plain_type(field.type)) for field in table.schema]))


def _plain_type(kind: Any) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([child.with_type(_plain_type(child.type)) for child in kind])
    if pa.types.is_map(kind):
        item = kind.item_field.with_type(_plain_type(kind.item_type))
        return pa.map_(kind.key_field.with_type(_plain_type(kind.key_type)), item)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


def _same(peer: pa.Table, found: pa.Table) -> None:
    peer = _plain(peer)
    assert found.schema.names == peer.schema.names
    assert [_plain_type(kind) for kind in found.schema.types] == peer.schema.types
    assert canonical_lines(found) == canonical_lines(peer)


def _same_snapshots(table: Any) -> None:
    """Compare every snapshot, and what the newest metadata says of them."""
    ours = open_table(table.location(), "iceberg")
    assert ours.metadata_location.endswith(table.metadata_location.rpartition("/")[2])
    assert [one.snapshot_id for one in ours.snapshots] == [one.snapshot_id for one in table.snapshots()]
    _same(table.scan().to_arrow(), ours.scan().to_arrow())
    for snapshot in table.snapshots():
        peer = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        past = open_table(table.location(), "iceberg", snapshot_id=snapshot.snapshot_id)
        _same(peer, past.scan().to_arrow())
        assert past.scan().count() == peer.num_rows
    assert {name: (ref.snapshot_id, ref.type) for name, ref in ours.refs.items()} == {
        name: (ref.snapshot_id, str(ref.snapshot_ref_type.value)) for name, ref in table.refs().items()
    }


@pytest.mark.parametrize("version", ["1", "2"])
def test_types(catalog: SqlCatalog, request: Any, rng: random.Random, road: Road, version: str) -> None:
    table = _create(catalog, request, _schema(), **{"format-version": version})
    for first in (0, 20, 40):
        table.append(_rows(rng, table, first, 20))
    ours = open_table(table.location(), "iceberg", validate=True)
    assert ours.format_version == int(version)
    if road.name == "local":
        _same(table.scan().to_arrow(), ours.scan().to_arrow())
        check_filters(ours, rng)
    else:
        # Spark has no type for times of day.
        _same_on_spark(table, road, [name for name in ours.schema.names if name != "tod"])


def _same_on_spark(table: Any, road: Road, columns: list[str] | None = None) -> None:
    """Compare the newest rows by the road through Spark, which gives UUIDs as text."""
    ours = open_table(table.location()).scan(columns=columns)
    lines = canonical_lines(_plain(table.scan().to_arrow()).select(bound_scan(ours).output.names))
    for number in _UUIDS:
        lines = [line.replace(f'"x:{number.hex()}"', f'"s:{uuid.UUID(bytes=number)}"') for line in lines]
    assert canonical_lines(road.table(ours)) == sorted(lines)


@pytest.mark.parametrize(
    ("source", "transform"),
    # A third of them has each transform, and each type almost.
    [pytest.param(*pair, marks=() if at % 3 == 0 else pytest.mark.full) for at, pair in enumerate(_PARTITIONS)],
)
def test_transforms(catalog: SqlCatalog, request: Any, rng: random.Random, source: str, transform: str) -> None:
    names = ["id", *dict.fromkeys((source, "s", "d"))]
    version = "1" if _PARTITIONS.index((source, transform)) % 2 else "2"
    table = _create(catalog, request, _schema(*names), (source, transform), **{"format-version": version})
    for first in (0, 15):
        rows = _rows(rng, table, first, 15)
        if source in ("f", "d"):
            # pyiceberg finds no row of a partition of NaN, and fails; it mixes the two zeros in their partitions.
            odd = pc.or_(pc.is_nan(rows[source]), pc.equal(rows[source], 0))
            rows = rows.filter(pc.invert(odd.fill_null(False)))
        table.append(rows)
    ours = open_table(table.location(), "iceberg")
    _same(table.scan().to_arrow(), ours.scan().to_arrow())
    assert str(ours.spec.fields[0].transform) == transform
    assert check_filters(ours, rng) > 0


def test_schema_evolution(catalog: SqlCatalog, request: Any, rng: random.Random, road: Road) -> None:
    """Add, drop, rename, reorder and promote columns, in structs too; each snapshot keeps the schema of its time."""
    table = _create(catalog, request, _schema("id", "i", "f", "dec9", "s", "st", "structs", "deep"))
    table.append(_rows(rng, table, 0, 10))
    with table.update_schema() as update:
        update.update_column("i", LongType()).update_column("f", DoubleType())
        update.update_column("dec9", DecimalType(20, 2))
        update.rename_column("s", "text").rename_column("st.b", "inner")
        update.add_column(("st", "added"), DateType())
        update.add_column(("structs", "element", "z"), DoubleType())
        update.rename_column("deep.value.v", "at")
    with table.update_schema() as update:
        update.move_first("text").move_after("st.added", "st.a")
    _more(table, rng, 10)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("text").delete_column("st.inner.c")
        update.add_column("when", TimestamptzType())
    _more(table, rng, 20)
    with table.update_schema() as update:
        # A column that comes back under its old name is another column.
        update.add_column("text", StringType()).rename_column("when", "s")
    _more(table, rng, 30)
    if road.name == "local":
        _same_snapshots(table)
        check_filters(open_table(table.location()), rng)
    else:
        _same_on_spark(table, road)


def _more(table: Any, rng: random.Random, first: int) -> None:
    """Append rows of the schema as it is now, whose nested values may be of older ones."""
    arrow = pa.schema([field.with_type(_plain_type(field.type)) for field in table.schema().as_arrow()])
    chosen = {field.name: _evolved(field.name, field.type) for field in arrow}
    values = {
        name: pa.array([None if rng.random() < 0.125 else rng.choice(known) for _ in range(10)], arrow.field(name).type)
        for name, known in chosen.items()
        if name != "id"
    }
    values["id"] = pa.array(range(first, first + 10), pa.int64())
    table.append(pa.table([values[name] for name in arrow.names], arrow).cast(table.schema().as_arrow()))


def _evolved(name: str, kind: pa.DataType) -> list[Any]:
    wider: dict[str, list[Any]] = {
        "i": [2**40, -(2**40), None],
        "dec9": [Decimal("123456789012345678.91")],
        "f": [1e200, float("nan")],
        "st": [{"a": 5, "added": dt.date(2020, 2, 2), "inner": {"c": "new", "u": None}}, None],
        "structs": [[{"x": 9, "y": ["q"], "z": 0.25}, {"x": 8, "y": [], "z": None}], None],
        "deep": [[(3, {"at": dt.datetime(2025, 1, 1, tzinfo=_UTC)})], []],
    }
    return wider.get(name, _VALUES["tstz"] if pa.types.is_timestamp(kind) else _VALUES["s"])


@pytest.mark.parametrize("version", ["1", "2"])
def test_spec_evolution(catalog: SqlCatalog, request: Any, rng: random.Random, version: str) -> None:
    schema = _schema("id", "i", "s", "ts", "u")
    table = _create(catalog, request, schema, **{"format-version": version})
    table.append(_rows(rng, table, 0, 12))
    changes: list[Any] = [
        lambda update: update.add_field("i", parse_transform("bucket[2]"), "bucket"),
        lambda update: update.add_field("ts", parse_transform("month"), "month"),
        lambda update: update.remove_field("bucket"),
        lambda update: update.add_identity("s").rename_field("month", "in_month"),
        lambda update: update.remove_field("s").remove_field("in_month"),
        lambda update: update.add_field("u", parse_transform("bucket[2]"), "of_u"),
    ]
    for number, change in enumerate(changes, start=1):
        with table.update_spec() as update:
            change(update)
        table.append(_rows(rng, table, 12 * number, 12))
        if number == 3:
            table.delete("i = 7 or s = 'abcd'")
    _same_snapshots(table)
    ours = open_table(table.location(), "iceberg")
    assert len(ours.metadata.specs) == len(table.specs()) > 4
    assert check_filters(ours, rng) > 0


@pytest.mark.parametrize(
    "partitions",
    [[], [("s", "identity")], [("ts", "month"), ("i", "bucket[2]")]],
    ids=["unpartitioned", "by text", "by month and bucket"],
)
def test_deletes_and_overwrites(
    catalog: SqlCatalog, request: Any, rng: random.Random, partitions: list[tuple[str, str]]
) -> None:
    table = _create(catalog, request, _schema("id", "i", "s", "ts", "f"), *partitions)
    for first in (0, 20):
        table.append(_rows(rng, table, first, 20))
    table.delete("id < 5 or s is null")
    table.overwrite(_rows(rng, table, 40, 5), overwrite_filter="i >= 0")
    table.upsert(_rows(rng, table, 42, 6), join_cols=["id"])
    if partitions == [("s", "identity")]:
        table.dynamic_partition_overwrite(_rows(rng, table, 50, 3))
    _same_snapshots(table)
    check_filters(open_table(table.location()), rng)
    table.delete("id >= 0")
    _same_snapshots(table)
    assert open_table(table.location()).scan().count() == 0


def test_merged_manifests(catalog: SqlCatalog, request: Any, rng: random.Random) -> None:
    properties = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    table = _create(catalog, request, _schema("id", "i", "s"), ("s", "truncate[1]"), **properties)
    for first in range(0, 40, 8):
        table.append(_rows(rng, table, first, 8))
    table.delete("id in (3, 11, 12)")
    assert len(table.current_snapshot().manifests(table.io)) < 5
    _same_snapshots(table)
    assert check_filters(open_table(table.location()), rng) > 0


def test_snapshots_branches_and_tags(catalog: SqlCatalog, request: Any, rng: random.Random) -> None:
    table = _create(catalog, request, _schema("id", "i", "s"))
    for first in (0, 5, 10):
        table.append(_rows(rng, table, first, 5))
    first, second, _ = (snapshot.snapshot_id for snapshot in table.snapshots())
    table.manage_snapshots().create_tag(first, "begin").create_branch(second, "side").commit()
    table.append(_rows(rng, table, 100, 4), branch="side")
    with table.update_schema() as update:
        update.add_column("later", IntegerType()).rename_column("s", "text")
    table.delete("id = 12")
    _same_snapshots(table)
    for ref in ("begin", "side", "main"):
        ours = open_table(table.location(), "iceberg", ref=ref)
        assert ours.snapshot_id == table.snapshot_by_name(ref).snapshot_id
        peer = table.scan().use_ref(ref).to_arrow()
        assert ours.scan(columns=["id", "i"]).count() == peer.num_rows
        found = ours.scan(columns=["id", "i"]).to_arrow()
        assert canonical_lines(found) == canonical_lines(_plain(peer).select(["id", "i"]))
    # A branch is read with the schema of the table, a tag with that of its snapshot.
    assert open_table(table.location(), "iceberg", ref="side").schema.names == ["id", "i", "text", "later"]
    assert open_table(table.location(), "iceberg", ref="begin").schema.names == ["id", "i", "s"]
    for entry in table.history():
        at = entry.timestamp_ms
        moment = dt.datetime.fromtimestamp(at // 1000, _UTC) + dt.timedelta(milliseconds=at % 1000)
        peer_snapshot = table.snapshot_as_of_timestamp(at)
        assert open_table(table.location(), "iceberg", timestamp=moment).snapshot_id == peer_snapshot.snapshot_id
    before = table.history()[0].timestamp_ms / 1000 - 1
    with pytest.raises(VersionNotFoundError, match="no snapshot was current at"):
        open_table(table.location(), "iceberg", timestamp=dt.datetime.fromtimestamp(before, _UTC))


def test_rollback_and_expiry(catalog: SqlCatalog, request: Any, rng: random.Random) -> None:
    table = _create(catalog, request, _schema("id", "s"))
    for first in (0, 5, 10):
        table.append(_rows(rng, table, first, 5))
    oldest, middle, _ = (snapshot.snapshot_id for snapshot in table.snapshots())
    table.manage_snapshots().rollback_to_snapshot(middle).commit()
    _same_snapshots(table)
    assert open_table(table.location(), "iceberg").snapshot_id == middle
    table.append(_rows(rng, table, 20, 5))
    table.maintenance.expire_snapshots().by_id(oldest).commit()
    _same_snapshots(table)
    with pytest.raises(VersionNotFoundError, match="it was expired, or never existed"):
        open_table(table.location(), "iceberg", snapshot_id=oldest)


def test_files_without_ids(catalog: SqlCatalog, request: Any, tmp_path: Path, rng: random.Random, road: Road) -> None:
    """Files that pyiceberg registers have no field ids: the name mapping of the table gives them."""
    table = _create(catalog, request, _schema("id", "s", "i", "list", "st"), ("s", "identity"))
    for number, text in enumerate(("a", "b")):
        rows = _rows(rng, table, 10 * number, 10)
        rows = rows.set_column(1, "s", pa.array([text] * 10)).set_column(2, "i", rows["i"].cast(pa.int32()))
        plain = pa.schema([field.remove_metadata().with_type(_bare(field.type)) for field in _plain(rows).schema])
        path = tmp_path / f"{text}.parquet"
        pq.write_table(_plain(rows).cast(plain), path)
        table.add_files([f"file://{path}"])
    with table.update_schema() as update:
        update.rename_column("i", "number").add_column("more", LongType())
    if road.name == "local":
        _same_snapshots(table)
        check_filters(open_table(table.location()), rng)
    else:
        _same_on_spark(table, road)


def _bare(kind: pa.DataType) -> pa.DataType:
    """Return a type whose children have no ids."""
    if pa.types.is_struct(kind):
        return pa.struct([child.remove_metadata().with_type(_bare(child.type)) for child in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.remove_metadata().with_type(_bare(kind.value_type)))
    return kind


def test_empty_tables(catalog: SqlCatalog, request: Any) -> None:
    # pyarrow makes no empty arrays of UUIDs.
    table = _create(catalog, request, _schema(*[name for name in _KINDS if name != "u"]))
    ours = open_table(table.location(), "iceberg")
    assert ours.snapshot is None
    _same(table.scan().to_arrow(), ours.scan().to_arrow())
    table.append(table.schema().as_arrow().empty_table())
    _same_snapshots(table)
