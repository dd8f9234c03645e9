"""Updates of table metadata: what they change, what they leave alone, and what they refuse."""

from __future__ import annotations

import copy
import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    ConstraintViolationError,
    DeltabergError,
    InvalidArgumentError,
    MetadataChangedError,
    SchemaError,
    TableExistsError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.metadata.metadata_file import read_metadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.metadata.snapshot_refs import SnapshotRef
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.sort_orders import SortField, SortOrder
from deltaberg.iceberg.metadata.specs import PartitionField, PartitionSpec
from deltaberg.iceberg.metadata.write_metadata import (
    catalog_file_name,
    encode_metadata,
    metadata_codec,
    outdated_files,
    version_of,
    with_previous_file,
)
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.updates import requirements as needs
from deltaberg.iceberg.updates import updates as changes
from deltaberg.iceberg.updates.draft import Draft
from deltaberg.iceberg.updates.layout_updates import by_known_ids
from deltaberg.iceberg.updates.new_table import new_metadata
from deltaberg.lossless_json import read_json
from deltaberg.schema.types import Field, List, Primitive, Struct
from tests.iceberg.metadata_json import SNAPSHOT, document, parse, parse_with
from tests.iceberg.metadata_strategies import references, schemas, snapshots
from tests.kernels.json_text import Raw, spell
from tests.support.changed_metadata import changed_json
from tests.support.effort import examples

pytestmark = pytest.mark.one_backend

_NOW = 1_700_000_000_000
_LONG = Primitive("long")
_ID = Field("id", _LONG, nullable=False, id=1)


def _schema(*fields: Field, identifiers: tuple[int, ...] = ()) -> Schema:
    return Schema(Struct((_ID, *fields)), 1, identifiers)


def _snapshot(number: int, parent: int | None = 10, **more: Any) -> Snapshot:
    own: dict[str, Any] = {"sequence_number": 2, "summary": {"operation": "append"}, **more}
    return Snapshot(number, 300, parent_snapshot_id=parent, manifest_list=f"s3://b/{number}.avro", **own)


def _spec(source: int = 1, transform: str = "identity", name: str = "p", field_id: int = 1000) -> PartitionSpec:
    return PartitionSpec(1, (PartitionField((source,), field_id, name, transform),))


def _with_snapshot(version: int = 2, **members: Any) -> dict[str, Any]:
    first = {name: value for name, value in SNAPSHOT.items() if version > 1 or name != "sequence-number"}
    log = [{"snapshot-id": 10, "timestamp-ms": 100}]
    own: dict[str, Any] = {"snapshots": [first], "current_snapshot_id": 10, "snapshot_log": log, **members}
    return document(version, **own)


@pytest.mark.req("ICE-META-18", half="writer")
@examples(20)
@given(st.data(), st.integers(1, 3))
def test_what_is_not_understood_survives(data: st.DataObject, version: int) -> None:
    """Each update leaves every object that it does not name exactly as it was, with the spelling of its numbers."""
    unknown = {"a": [1.0, None], "b": [Raw("1.10"), Raw("1e400"), "\ud800"]}
    snapshot = {**data.draw(snapshots()), "snapshot-id": 10, "timestamp-ms": 100, "sequence-number": 1}
    schema = {**data.draw(schemas()), "schema-id": 0}
    drawn = document(
        version,
        schemas=[schema, {"type": "struct", "schema-id": 3, "fields": [], "x": Raw("1.50")}],
        current_schema_id=0,
        schema=schema,
        snapshots=[snapshot],
        current_snapshot_id=10,
        refs={"b": {**data.draw(references()), "snapshot-id": 10}},
        statistics=[{"snapshot-id": 10, "x": Raw("1e2")}],
        x_unknown=unknown,
    )
    raw = read_json(spell(drawn), plain=True)
    before = copy.deepcopy(raw)
    rows = {"first_row_id": 7, "added_rows": 3} if version == 3 else {}
    own = _snapshot(11, sequence_number=2 if version > 1 else 0, **rows)
    changed = changed_json(
        raw,
        [
            changes.SetProperties({"a": "b"}),
            changes.AddSnapshot(own),
            changes.SetSnapshotRef("main", SnapshotRef(11, "branch")),
            changes.AddSortOrder(SortOrder(1)),
        ],
        now_ms=_NOW,
    )
    assert raw == before
    assert changed["x-unknown"] == before["x-unknown"]
    assert changed["schemas"] == before["schemas"]
    assert changed["snapshots"][0] == before["snapshots"][0]
    assert changed["refs"]["b"] == before["refs"]["b"]
    assert changed["statistics"] == before["statistics"]
    assert changed.get("schema") == (before["schema"] if version == 1 else None)
    assert changed.get("next-row-id") == (10 if version == 3 else None)
    again = read_metadata(encode_metadata(changed))
    assert again.raw == changed
    assert (again.current_snapshot_id, again.refs["main"].snapshot_id) == (11, 11)
    assert again.last_sequence_number == (2 if version > 1 else 0)


@pytest.mark.req("ICE-JSON-10", half="writer")
def test_members_of_the_specification_are_written_as_they_are() -> None:
    number = 3_051_729_675_574_597_004
    raw = document(
        1,
        table_uuid="fb072c92-a02b-11e9-ae9c-1bb7bc9eca94",
        location="s3://b/wh/data.db/table",
        last_updated_ms=1_515_100_955_770,
        last_column_id=22,
        default_spec_id=0,
        properties={"write.format.default": "avro", "commit.retry.num-retries": "4"},
        snapshots=[{**SNAPSHOT, "snapshot-id": number}],
        current_snapshot_id=number,
    )
    found = changed_json(raw, [changes.SetProperties({"a": "1"})], now_ms=1_515_100_955_770)
    assert {name: found[name] for name in raw} == {**raw, "properties": {**raw["properties"], "a": "1"}}
    data = encode_metadata(found)
    assert json.loads(data) == read_metadata(data).raw == found
    assert b'"current-snapshot-id":3051729675574597004' in data.replace(b": ", b":")
    moved = changed_json(raw, [changes.SetSnapshotRef("main", SnapshotRef(number, "branch"))], now_ms=_NOW)
    assert (moved["current-snapshot-id"], moved["last-updated-ms"]) == (number, _NOW)


@pytest.mark.req("ICE-META-14", "ICE-META-15", half="writer")
def test_times_and_the_snapshot_log() -> None:
    raw = _with_snapshot(last_updated_ms=1_000)
    main = SnapshotRef(11, "branch")
    new = changes.AddSnapshot(replace(_snapshot(11), timestamp_ms=2_000))
    changed = changed_json(raw, [new, changes.SetSnapshotRef("main", main)], now_ms=_NOW)
    # A snapshot becomes current at its own time, whatever time it is when the metadata is made.
    own = 2_000
    assert changed["last-updated-ms"] == own
    assert changed["snapshot-log"][1:] == [{"snapshot-id": 11, "timestamp-ms": own}]
    # A clock that runs behind does not turn times around, and a change of a property is no entry.
    now = changed_json(changed, [changes.SetProperties({"a": "b"})], now_ms=_NOW)
    late = changed_json(now, [changes.SetProperties({"a": "c"})], now_ms=5)
    assert (late["last-updated-ms"], late["snapshot-log"]) == (_NOW, changed["snapshot-log"])
    # What becomes current and is replaced within one change was never current.
    both = changed_json(
        raw,
        [
            changes.AddSnapshot(_snapshot(11)),
            changes.SetSnapshotRef("main", main),
            changes.AddSnapshot(_snapshot(12, 11, sequence_number=3)),
            changes.SetSnapshotRef("main", SnapshotRef(12, "branch")),
        ],
        now_ms=_NOW,
    )
    assert [entry["snapshot-id"] for entry in both["snapshot-log"]] == [10, 12]
    # A rollback is an entry; entries up to a removed snapshot go, and so do references to it.
    back = changed_json(both, [changes.SetSnapshotRef("main", SnapshotRef(10, "branch"))], now_ms=_NOW + 1)
    ahead = changed_json(
        back,
        [
            changes.SetSnapshotRef("t", SnapshotRef(12, "tag")),
            changes.SetSnapshotRef("main", SnapshotRef(11, "branch")),
        ],
        now_ms=_NOW + 2,
    )
    assert [entry["snapshot-id"] for entry in ahead["snapshot-log"]] == [10, 12, 10, 11]
    less = changed_json(ahead, [changes.RemoveSnapshots((12, 99))], now_ms=_NOW + 3)
    assert [entry["snapshot-id"] for entry in less["snapshot-log"]] == [10, 11]
    assert (sorted(less["refs"]), len(less["snapshots"])) == (["main"], 2)
    with pytest.raises(ConstraintViolationError, match="the current snapshot cannot be removed"):
        changed_json(less, [changes.RemoveSnapshots((11,))], now_ms=_NOW)
    for version, nothing in ((2, -1), (3, None)):
        row = {"first-row-id": 0, "added-rows": 0}
        empty = changed_json(
            _with_snapshot(version, snapshots=[SNAPSHOT | row]), [changes.RemoveSnapshotRef("main")], now_ms=_NOW
        )
        assert (empty["current-snapshot-id"], empty["snapshot-log"], empty["refs"]) == (nothing, [], {})


@pytest.mark.req("ICE-META-07", "ICE-META-09", half="writer")
@pytest.mark.req("ICE-META-10", half="writer")
def test_upgrades_spell_out_what_version_1_leaves_to_readers() -> None:
    schema = {"type": "struct", "fields": [{"id": 4, "name": "id", "required": True, "type": "long", "x": 1}]}
    spec = [{"name": "a", "transform": "bucket[4]", "source-id": 4}, {"name": "b", "transform": "void", "source-id": 9}]
    raw = _with_snapshot(1, schema=schema, partition_spec=spec, last_column_id=9)
    del raw["table-uuid"]
    same = changed_json(raw, [], now_ms=_NOW)
    assert same["partition-spec"] == [{**spec[0], "field-id": 1000}, {**spec[1], "field-id": 1001}]
    assert same["schemas"] == [{**schema, "schema-id": 0}] == [same["schema"]]
    assert (same["last-partition-id"], same["default-spec-id"], same["default-sort-order-id"]) == (1001, 0, 0)
    upgraded = changed_json(raw, [changes.UpgradeFormatVersion(3)], now_ms=_NOW)
    assert "schema" not in upgraded
    assert "partition-spec" not in upgraded
    assert (upgraded["next-row-id"], upgraded["last-sequence-number"]) == (0, 0)
    assert len(upgraded["table-uuid"]) == 36
    assert metadata_of_json(upgraded).format_version == 3
    listed = _with_snapshot(1, snapshots=[{"snapshot-id": 10, "timestamp-ms": 100, "manifests": ["a"]}])
    with pytest.raises(UnsupportedFeatureError, match="lists its manifests in the metadata"):
        changed_json(listed, [changes.UpgradeFormatVersion(2)], now_ms=_NOW)


@pytest.mark.req("ICE-META-06", "ICE-META-10", half="writer")
def test_ids_are_never_lowered_and_equal_objects_share_one() -> None:
    inner = Struct((Field("x", _LONG, id=24), Field("y", _LONG, id=25)))
    wide = _schema(Field("s", inner, id=23))
    raw = document(last_column_id=22)
    updates = [
        changes.AddSchema(wide),
        changes.SetCurrentSchema(),
        changes.AddSpec(_spec(24, "bucket[4]")),
        changes.SetDefaultSpec(),
        changes.AddSortOrder(SortOrder(1, (SortField((24,), "identity", "asc", "nulls-first"),))),
        changes.SetDefaultSortOrder(),
    ]
    changed = changed_json(raw, updates, now_ms=_NOW)
    numbers = ("last-column-id", "current-schema-id", "last-partition-id", "default-spec-id", "default-sort-order-id")
    assert [changed[name] for name in numbers] == [25, 1, 1000, 1, 1]
    again = changed_json(changed, updates, now_ms=_NOW)
    assert again == changed
    narrow = [
        changes.SetDefaultSortOrder(0),
        changes.SetDefaultSpec(0),
        changes.AddSchema(_schema()),
        changes.SetCurrentSchema(),
        changes.RemovePartitionSpecs((1,)),
        changes.RemoveSchemas((1,)),
    ]
    less = changed_json(changed, narrow, now_ms=_NOW)
    assert [less[name] for name in numbers] == [25, 0, 1000, 0, 0]
    later = changed_json(less, [changes.AddSchema(_schema(Field("z", _LONG, id=26)))], now_ms=_NOW)
    assert (later["last-column-id"], [part["schema-id"] for part in later["schemas"]]) == (26, [0, 1])


def test_what_is_there_is_chosen_by_its_id() -> None:
    raw = changed_json(document(last_column_id=22), [changes.AddSortOrder(_order(1, "asc"))], now_ms=_NOW)
    old, new = _schema(), _schema(Field("z", _LONG, id=23))

    def sent(*updates: changes.Update) -> list[changes.Update]:
        found = by_known_ids(updates, Draft(metadata_of_json(raw), _NOW))
        assert changed_json(raw, found, now_ms=_NOW) == changed_json(raw, updates, now_ms=_NOW)
        return found

    choose, add = changes.SetCurrentSchema(), changes.AddSchema(new)
    assert sent(add, choose, changes.SetLocation("s3://b/t")) == [add, choose, changes.SetLocation("s3://b/t")]
    assert sent(changes.AddSchema(old), choose) == [changes.SetCurrentSchema(0)]
    # The server knows the id of what it was sent before.
    assert sent(add, choose, changes.AddSchema(old), choose, add, choose) == [
        add,
        choose,
        changes.SetCurrentSchema(0),
        add,
        choose,
    ]
    assert sent(changes.AddSortOrder(_order(5, "asc")), changes.SetDefaultSortOrder()) == [
        changes.SetDefaultSortOrder(1)
    ]
    unsorted = changes.AddSortOrder(SortOrder(0))
    assert sent(unsorted, changes.SetDefaultSortOrder()) == [changes.SetDefaultSortOrder(0)]
    spec = PartitionSpec(7, ())
    assert sent(changes.AddSpec(spec), changes.SetDefaultSpec()) == [changes.SetDefaultSpec(0)]
    assert sent(changes.AddSpec(_spec()), changes.SetDefaultSpec()) == [
        changes.AddSpec(_spec()),
        changes.SetDefaultSpec(),
    ]


_TWO_LEVELS = _schema(Field("l", List(Field("element", _LONG, id=3)), id=2))


def _order(number: int, direction: str) -> SortOrder:
    return SortOrder(number, (SortField((1,), "identity", direction, "nulls-first"),))


_REFUSED: list[tuple[Any, type[DeltabergError], str]] = [
    (changes.AssignUUID("other"), ConstraintViolationError, "has the table-uuid"),
    (changes.UpgradeFormatVersion(1), ConstraintViolationError, "cannot be lowered"),
    (changes.UpgradeFormatVersion(4), UnsupportedFeatureError, "unsupported format version 4"),
    (changes.AddSchema(_schema(Field("a", _LONG))), SchemaError, "has no field id"),
    (changes.AddSchema(_schema(Field("a", _LONG, id=2_147_483_448))), SchemaError, "is reserved for metadata columns"),
    (changes.AddSchema(_schema(Field("a", Primitive("variant"), id=2))), SchemaError, "version 2 has no type variant"),
    (changes.AddSchema(_schema(Field("a", _LONG, id=2, default=1))), SchemaError, "version 2 has no default values"),
    (changes.AddSchema(_schema(Field("a", _LONG, id=2), identifiers=(2,))), SchemaError, "may be null"),
    (changes.SetCurrentSchema(), InvalidArgumentError, "no schema was added"),
    (changes.SetCurrentSchema(7), InvalidArgumentError, "the table has no schema 7"),
    (changes.AddSpec(_spec(5)), ColumnNotFoundError, "the column with the id 5"),
    (changes.AddSpec(_spec(1, "bucket[4]", "id")), SchemaError, "has the name of another column"),
    (changes.SetDefaultSpec(7), InvalidArgumentError, "the table has no partition spec 7"),
    (changes.AddSortOrder(_order(0, "asc")), InvalidArgumentError, "means unsorted"),
    (changes.AddSortOrder(_order(1, "up")), InvalidArgumentError, "the direction 'up'"),
    (changes.AddSnapshot(_snapshot(10)), ConstraintViolationError, "has a snapshot 10 already"),
    (changes.AddSnapshot(_snapshot(11, sequence_number=1)), ConstraintViolationError, "is not above 1"),
    (changes.SetSnapshotRef("b", SnapshotRef(99, "tag")), InvalidArgumentError, "no snapshot 99"),
    (changes.SetSnapshotRef("main", SnapshotRef(10, "tag")), InvalidArgumentError, "cannot become a tag"),
    (changes.RemovePartitionSpecs((0,)), ConstraintViolationError, "default partition spec cannot be removed"),
    (changes.RemoveSchemas((0,)), ConstraintViolationError, "current schema cannot be removed"),
]  # fmt: skip


@pytest.mark.req("ICE-SCH-18", "ICE-SORT-02", half="writer")
@pytest.mark.parametrize(("update", "error", "message"), _REFUSED)
def test_what_is_refused(update: changes.Update, error: type[DeltabergError], message: str) -> None:
    with pytest.raises(error, match=message):
        changed_json(_with_snapshot(), [update], now_ms=_NOW)


@pytest.mark.req("ICE-PART-03", half="writer")
def test_sources_are_primitive_and_not_repeated() -> None:
    raw = changed_json(document(), [changes.AddSchema(_TWO_LEVELS), changes.SetCurrentSchema()], now_ms=_NOW)
    for source in (2, 3):
        with pytest.raises(SchemaError, match="not of a primitive type, or is inside a list"):
            changed_json(raw, [changes.AddSpec(_spec(source))], now_ms=_NOW)
    country = Field("loc", Struct((Field("country", Primitive("string"), id=3),)), id=2)
    found = new_metadata(_schema(country), _spec(3), location="/t", now_ms=_NOW)
    assert found["partition-specs"][0]["fields"][0]["source-id"] == 3
    old = document(1)
    with pytest.raises(SchemaError, match="count up from 1000"):
        changed_json(old, [changes.AddSpec(_spec(field_id=1001))], now_ms=_NOW)


def test_row_ids_do_not_overlap() -> None:
    raw = document(3, next_row_id=5)
    for first, added in ((4, 1), (None, 1), (5, None)):
        with pytest.raises(ConstraintViolationError, match="the next row id is 5"):
            changed_json(
                raw, [changes.AddSnapshot(_snapshot(11, None, first_row_id=first, added_rows=added))], now_ms=_NOW
            )


def test_properties_are_text_and_not_reserved() -> None:
    with pytest.raises(InvalidArgumentError, match="is not text"):
        changes.SetProperties({"a": 4})  # type: ignore[dict-item] # it is refused
    for name, value, message in (("format-version", "2", "is reserved"), ("a", 4, "is not text")):
        with pytest.raises(InvalidArgumentError, match=message):
            new_metadata(_schema(), location="/t", properties={name: value}, now_ms=_NOW)  # type: ignore[dict-item]


def test_requirements() -> None:
    base = parse(_with_snapshot())
    updates = [
        changes.AddSchema(_schema()),
        changes.SetCurrentSchema(),
        changes.AddSpec(_spec()),
        changes.SetDefaultSpec(),
        changes.SetDefaultSortOrder(),
        changes.SetSnapshotRef("main", SnapshotRef(10, "branch")),
        changes.SetSnapshotRef("b", SnapshotRef(10, "branch")),
    ]
    held = needs.requirements_of(base, updates)
    assert [requirement.to_json() for requirement in held] == [
        {"type": "assert-table-uuid", "uuid": base.table_uuid},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1},
        {"type": "assert-current-schema-id", "current-schema-id": 0},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
        {"type": "assert-default-spec-id", "default-spec-id": 0},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 10},
        {"type": "assert-ref-snapshot-id", "ref": "b", "snapshot-id": None},
    ]
    needs.check_requirements(base, held)
    wide = Schema(Struct((_ID, Field("b", _LONG, id=2))))
    meanwhile = changed_json(base.raw, [changes.AddSchema(wide), changes.SetCurrentSchema()], now_ms=_NOW)
    with pytest.raises(MetadataChangedError, match="last-assigned-field-id is 2, not 1"):
        needs.check_requirements(metadata_of_json(meanwhile), held)
    for requirement in (needs.AssertRefSnapshotId("main", 9), needs.AssertTableUUID("x")):
        with pytest.raises(CommitConflictError, match=r"main names the snapshot 10, not 9|the table-uuid is"):
            needs.check_requirements(base, [requirement])
    with pytest.raises(TableExistsError, match="there is a table already"):
        needs.check_requirements(base, [needs.AssertCreate()])
    with pytest.raises(CommitConflictError, match="no table any more"):
        needs.check_requirements(None, held)
    needs.check_requirements(None, [needs.AssertCreate()])


@pytest.mark.req("ICE-META-17", half="writer")
def test_the_metadata_log_and_the_names_of_files() -> None:
    keeps = {"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "true"}
    raw = document(properties=keeps)
    before = parse(raw)
    logs = []
    for number in range(1, 5):
        before = metadata_of_json(raw)
        raw = with_previous_file(raw, before, f"v{number}.metadata.json")
        logs.append([entry["metadata-file"][:2] for entry in raw["metadata-log"]])
    assert logs == [["v1"], ["v1", "v2"], ["v2", "v3"], ["v3", "v4"]]
    assert outdated_files(before, metadata_of_json(raw)) == ["v2.metadata.json"]
    kept = {**raw, "properties": {}}
    assert outdated_files(before, metadata_of_json(kept)) == []
    assert gzip.decompress(encode_metadata(raw, "gzip")) == encode_metadata(raw)
    assert json.loads(encode_metadata(raw)) == raw
    name = catalog_file_name(7, "gzip")
    assert (version_of(name), name.startswith("00007-"), name.endswith(".gz.metadata.json")) == (7, True, True)
    with pytest.raises(InvalidArgumentError, match="'zstd'"):
        metadata_codec({"write.metadata.compression-codec": "zstd"})
    # Another engine may have left such a value, which keeps nobody from committing.
    odd = document(properties=keeps | {next(iter(keeps)): "x"})
    assert [entry["metadata-file"] for entry in with_previous_file(odd, parse_with(), "a")["metadata-log"]] == ["a"]
