"""Protocol versions and table features (DL-FEAT)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.delta import features
from deltaberg.delta.actions import Protocol
from deltaberg.errors import CorruptLogError, SpecViolationError, UnsupportedFeatureError
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import Action
from tests.support.delta_schemas import field
from tests.support.roads import Road
from tests.support.rows import ID, ids, ids_of


@pytest.mark.req("DL-FEAT-01", half="reader")
@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_fields_of_the_protocol(builder: DeltaBuilder, checkpoint: bool) -> None:
    builder.create(ID, protocol={"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
    lists = (["deletionVectors"], ["deletionVectors", "appendOnly"])
    builder.commit(builder.protocol(3, 7, *lists))
    if checkpoint:
        for version in (0, 1):
            builder.checkpoint(version)
            (builder.log / f"{version:020d}.json").unlink()
    assert open_table(builder.root, version=0).protocol == Protocol(1, 2, None, None)
    assert open_table(builder.root).protocol == Protocol(3, 7, *map(tuple, lists))


@pytest.mark.req("DL-FEAT-02", half="reader")
@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({"readerVersion": 2, "writerVersion": 7, "writerFeatures": ["columnMapping"]}, "minReaderVersion"),
        ({"minReaderVersion": 2, "writerVersion": 7}, "minWriterVersion"),
        ({"minReaderVersion": None, "minWriterVersion": 2}, "minReaderVersion"),
    ],
)
def test_versions_have_their_names(builder: DeltaBuilder, fields: dict[str, object], missing: str) -> None:
    builder.create(ID, protocol={"protocol": fields})
    with pytest.raises(CorruptLogError, match=f"protocol has no {missing}"):
        open_table(builder.root)


_WRONG_LISTS = [
    pytest.param((3, 7, None, []), "no readerFeatures", id="no-readerFeatures"),
    pytest.param((2, 7, [], []), "has readerFeatures", id="readerFeatures-at-2"),
    pytest.param((1, 6, None, []), "has writerFeatures", id="writerFeatures-at-6"),
    pytest.param((1, 7, None, None), "no writerFeatures", id="no-writerFeatures"),
]


@pytest.mark.req("DL-FEAT-03", half="reader")
@pytest.mark.parametrize(("protocol", "message"), _WRONG_LISTS)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_lists_exist_with_versions_three_and_seven(
    builder: DeltaBuilder,
    protocol: tuple[int, int, list[str] | None, list[str] | None],
    message: str,
    checkpoint: bool,
) -> None:
    builder.create(ID, protocol=builder.protocol(*protocol))
    if checkpoint:
        builder.checkpoint()
        (builder.log / f"{0:020d}.json").unlink()
    with pytest.raises(CorruptLogError, match=message):
        open_table(builder.root)


@pytest.mark.req("DL-FEAT-04", half="reader")
@pytest.mark.parametrize("writer", [2, 5, 6])
def test_reader_version_three_needs_writer_version_seven(builder: DeltaBuilder, writer: int) -> None:
    builder.create(ID, protocol=builder.protocol(3, writer, []))
    with pytest.raises(CorruptLogError, match=rf"\(3, {writer}\).*writer version 7"):
        open_table(builder.root)


@pytest.mark.req("DL-FEAT-06", half="reader")
def test_a_reader_feature_is_a_writer_feature(builder: DeltaBuilder) -> None:
    builder.create(ID, protocol=builder.protocol(3, 7, ["deletionVectors"], []))
    with pytest.raises(CorruptLogError, match="deletionVectors"):
        open_table(builder.root)


@pytest.mark.req("DL-FEAT-07", half="reader")
@pytest.mark.parametrize(
    ("lists", "named"),
    [
        ((["appendOnly"], ["appendOnly"]), "appendOnly"),
        (([], ["columnMapping"]), "columnMapping"),
        ((["deletionVectors"], ["deletionVectors", "timestampNtz"]), "timestampNtz"),
    ],
)
def test_a_feature_is_in_the_lists_of_its_kind(
    builder: DeltaBuilder, lists: tuple[list[str], list[str]], named: str
) -> None:
    """No row comes out wrong, so only the validating reader objects."""
    builder.create(ID, builder.add(ids(1)), protocol=builder.protocol(3, 7, *lists))
    assert ids_of(open_table(builder.root)) == [1]
    with pytest.raises(SpecViolationError, match=named):
        open_table(builder.root, validate=True)


@pytest.mark.req("DL-FEAT-07", half="reader")
def test_features_in_the_right_lists_are_no_violation(builder: DeltaBuilder) -> None:
    both = sorted(features.READER_FEATURES)
    protocol = builder.protocol(3, 7, both, [*both, "appendOnly", "someoneElsesWriterFeature"])
    builder.create(ID, builder.add(ids(1)), protocol=protocol)
    assert open_table(builder.root, validate=True).version == 0
    builder.commit(builder.protocol(2, 7, None, ["columnMapping"]), version=1)
    assert open_table(builder.root, validate=True).version == 1


@pytest.mark.req("DL-FEAT-08")
@pytest.mark.parametrize(
    "names", [["fooFeature"], ["deletionVectors", "fooFeature", "barFeature"], ["DeletionVectors"]]
)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_an_unknown_reader_feature_is_refused(builder: DeltaBuilder, names: list[str], checkpoint: bool) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.features(*names))
    if checkpoint:
        builder.checkpoint()
    with pytest.raises(UnsupportedFeatureError, match="upgrade") as caught:
        open_table(builder.root)
    for name in names:
        assert (name in caught.value.message) == (name != "deletionVectors")


@pytest.mark.req("DL-FEAT-08")
def test_an_unknown_reader_version_is_refused(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.protocol(4, 8, [], []))
    with pytest.raises(UnsupportedFeatureError, match=r"(?s)reader version 4.*upgrade"):
        open_table(builder.root)


@pytest.mark.req("DL-FEAT-08")
def test_a_version_before_the_unknown_feature_is_read(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    table = open_table(builder.root)
    builder.commit(builder.features("fooFeature"))
    assert ids_of(open_table(builder.root, version=0)) == [1]
    with pytest.raises(UnsupportedFeatureError, match="fooFeature"):
        table.refresh()
    assert (table.version, ids_of(table)) == (0, [1])


@pytest.mark.req("DL-FEAT-10")
@pytest.mark.parametrize("writer", [7, 8])
def test_unknown_writer_features_do_not_keep_from_reading(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch, writer: int
) -> None:
    """Also without `clustering`, in a build that knows no such feature; this library has no writer to refuse yet."""
    monkeypatch.setattr(features, "WRITER_FEATURES", features.WRITER_FEATURES - {"clustering"})
    names = ["appendOnly", "domainMetadata", "clustering", "fooFeature"]
    protocol = builder.protocol(1, writer, None, names if writer == 7 else None)
    builder.create(ID, builder.add(ids(1)), protocol=protocol)
    assert ids_of(open_table(builder.root)) == [1]


_MAPPED = [
    field("id", "long", delta__columnMapping__id=1, delta__columnMapping__physicalName="col-1"),
    field("name", "string", delta__columnMapping__id=2, delta__columnMapping__physicalName="col-2"),
]
#: A file in which a reader that maps columns finds other values than one that does not.
_AMBIGUOUS = pa.table({"id": [1], "name": ["by name"], "col-1": [2], "col-2": ["by physical name"]})
_BY_NAME, _MAPPED_ROW = {"id": 1, "name": "by name"}, {"id": 2, "name": "by physical name"}


def _mapped_table(builder: DeltaBuilder, protocol: Action) -> None:
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    builder.create(_MAPPED, builder.add(_AMBIGUOUS), configuration=configuration, protocol=protocol)


@pytest.mark.req("DL-FEAT-12")
@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ((1, 2), _BY_NAME),
        ((1, 7, None, ["columnMapping"]), _BY_NAME),
        ((2, 5), _MAPPED_ROW),
        ((2, 7, None, ["columnMapping"]), _MAPPED_ROW),
        ((3, 7, [], []), _BY_NAME),
        ((3, 7, ["deletionVectors"], ["deletionVectors"]), _BY_NAME),
        ((3, 7, ["columnMapping"], ["columnMapping"]), _MAPPED_ROW),
    ],
)
def test_reader_versions_bring_column_mapping(
    builder: DeltaBuilder,
    protocol: tuple[int, int, list[str] | None, list[str] | None],
    expected: dict[str, object],
) -> None:
    _mapped_table(builder, builder.protocol(*protocol))
    assert open_table(builder.root).scan().to_arrow().to_pylist() == [expected]


@pytest.mark.req("DL-FEAT-13", half="reader")
def test_two_spellings_of_one_protocol(builder: DeltaBuilder, road: Road) -> None:
    names = ["columnMapping", "identityColumns"]
    _mapped_table(builder, builder.protocol(2, 7, None, names))
    builder.commit(builder.protocol(3, 7, ["columnMapping"], names))
    older, newer = (open_table(builder.root, version=version) for version in (0, 1))
    assert older.features == newer.features == frozenset(names)
    assert older.active_features == newer.active_features == frozenset(names)
    assert road.rows(older.scan()) == road.rows(newer.scan()) == [_MAPPED_ROW]


_PAIRS = {
    "appendOnly": "delta.appendOnly",
    "changeDataFeed": "delta.enableChangeDataFeed",
    "deletionVectors": "delta.enableDeletionVectors",
    "rowTracking": "delta.enableRowTracking",
    "icebergCompatV1": "delta.enableIcebergCompatV1",
    "icebergCompatV2": "delta.enableIcebergCompatV2",
}


@pytest.mark.req("DL-FEAT-17", half="reader")
@pytest.mark.parametrize("name", _PAIRS)
@pytest.mark.parametrize("supported", [False, True])
@pytest.mark.parametrize("value", [None, "false", "true", "True", "1"])
def test_a_feature_is_active_where_its_property_is_set(
    builder: DeltaBuilder, name: str, supported: bool, value: str | None
) -> None:
    in_reader = [name] if supported and name in features.READER_FEATURES else []
    protocol = builder.protocol(3, 7, in_reader, [name] if supported else [])
    # The properties of all others are set: they must not matter.
    configuration = {known: "true" for known in _PAIRS.values() if known != _PAIRS[name]}
    if value is not None:
        configuration[_PAIRS[name]] = value
    builder.create(ID, configuration=configuration, protocol=protocol)
    table = open_table(builder.root)
    assert table.features == frozenset([name] if supported else [])
    is_set = value in ("true", "True")
    assert table.active_features == frozenset([name] if supported and is_set else [])


@pytest.mark.req("DL-FEAT-17", half="reader")
def test_versions_support_features_without_a_list(builder: DeltaBuilder) -> None:
    builder.create(ID, configuration={"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"})
    table = open_table(builder.root)
    assert table.features == {"appendOnly", "invariants"}
    assert "appendOnly" in table.active_features
    assert "changeDataFeed" not in table.active_features
    builder.commit(builder.protocol(1, 4))
    assert {"appendOnly", "changeDataFeed"} <= table.refresh().active_features


@pytest.mark.req("DL-FEAT-18", half="reader")
def test_the_names_of_features(builder: DeltaBuilder) -> None:
    for_writers = {
        *("appendOnly", "invariants", "checkConstraints", "generatedColumns", "allowColumnDefaults"),
        *("changeDataFeed", "identityColumns", "rowTracking", "domainMetadata"),
        *("icebergCompatV1", "icebergCompatV2", "clustering"),
    }
    for_both = {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"}
    assert for_writers == features.WRITER_FEATURES
    assert for_both == features.READER_FEATURES
    assert len(features.FEATURES) == 16
    assert "AppendOnly" not in features.FEATURES
    builder.create(ID, protocol=builder.features(*for_both, writer_only=sorted(for_writers)))
    assert open_table(builder.root).features == for_writers | for_both
    builder.commit(builder.features(*for_both, "AppendOnly"))
    with pytest.raises(UnsupportedFeatureError, match="AppendOnly"):
        open_table(builder.root)


@pytest.mark.parametrize("versions", [(0, 2), (1, 0), (-1, 2), (0, 0)])
def test_versions_begin_at_one(builder: DeltaBuilder, versions: tuple[int, int]) -> None:
    builder.create(ID, protocol=builder.protocol(*versions))
    with pytest.raises(CorruptLogError, match="begin at 1"):
        open_table(builder.root)


@pytest.mark.parametrize("name", ["timestampNtz", "timestampWithoutTimezone"])
def test_an_old_name_of_a_feature_is_known(builder: DeltaBuilder, name: str) -> None:
    schema = pa.schema([("at", pa.timestamp("us"))])
    rows = pa.table({"at": pa.array([0], pa.timestamp("us"))})
    builder.create(schema, builder.add(rows), protocol=builder.features(name))
    assert open_table(builder.root).scan().to_arrow() == rows
