"""Protocol versions and table features (DL-FEAT)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.delta import features
from deltaberg.errors import CorruptLogError, SpecViolationError, UnsupportedFeatureError
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import Action
from tests.support.delta_schemas import field
from tests.support.roads import Road, by_every_road
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
    first, second = open_table(builder.root, "delta", version=0).protocol, open_table(builder.root, "delta").protocol
    assert (first.min_reader_version, first.min_writer_version) == (1, 2)
    assert (first.reader_features, first.writer_features) == (None, None)
    assert (second.min_reader_version, second.min_writer_version) == (3, 7)
    assert (second.reader_features, second.writer_features) == tuple(map(tuple, lists))


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


@by_every_road
@pytest.mark.req("DL-FEAT-07", half="reader")
@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ((3, 7, ["appendOnly"], ["appendOnly"]), "appendOnly in readerFeatures"),
        ((3, 7, [], ["columnMapping"]), "columnMapping in writerFeatures"),
        ((3, 7, ["deletionVectors"], ["deletionVectors", "timestampNtz"]), "timestampNtz in writerFeatures"),
        ((3, 7, [], ["typeWidening"]), "typeWidening in writerFeatures"),
        ((3, 7, [], ["variantType"]), "variantType in writerFeatures"),
        ((1, 7, None, ["deletionVectors"]), "deletionVectors in writerFeatures"),
        ((1, 7, None, ["columnMapping"]), "columnMapping in writerFeatures"),
        ((2, 7, None, ["v2Checkpoint"]), "v2Checkpoint in writerFeatures"),
    ],
)
def test_a_feature_is_in_the_lists_of_its_kind(
    builder: DeltaBuilder, protocol: tuple[int, int, list[str] | None, list[str]], message: str
) -> None:
    """No row comes out wrong, so only the validating reader objects."""
    builder.create(ID, builder.add(ids(1)), protocol=builder.protocol(*protocol))
    assert ids_of(open_table(builder.root)) == [1]
    with pytest.raises(SpecViolationError, match=f"lists {message}") as caught:
        open_table(builder.root, validate=True)
    assert len(caught.value.context["violations"]) == 1


@pytest.mark.parametrize(
    ("names", "needed"),
    [
        (["rowTracking"], ["domainMetadata"]),
        (["clustering"], ["domainMetadata"]),
        (["icebergCompatV1"], ["columnMapping"]),
        (["icebergCompatV2"], ["columnMapping"]),
    ],
)
def test_a_feature_is_listed_with_those_that_it_depends_on(
    builder: DeltaBuilder, names: list[str], needed: list[str]
) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.protocol(2, 7, None, names))
    assert ids_of(open_table(builder.root, "delta")) == [1]
    with pytest.raises(SpecViolationError, match=f"lists {names[0]} without {needed[0]}"):
        open_table(builder.root, "delta", validate=True)
    builder.commit(builder.protocol(2, 7, None, [*names, *needed]))
    assert open_table(builder.root, "delta", validate=True).version == 1


@pytest.mark.req("DL-FEAT-07", half="reader")
def test_features_in_the_right_lists_are_no_violation(builder: DeltaBuilder) -> None:
    both = ["columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "v2Checkpoint", "variantType"]
    protocol = builder.protocol(3, 7, both, [*both, "appendOnly", "someoneElsesWriterFeature"])
    builder.create(ID, builder.add(ids(1)), protocol=protocol)
    assert open_table(builder.root, "delta", validate=True).version == 0
    builder.commit(builder.protocol(2, 7, None, ["columnMapping"]), version=1)
    assert open_table(builder.root, "delta", validate=True).version == 1


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


@by_every_road
@pytest.mark.req("DL-FEAT-08")
def test_a_version_before_the_unknown_feature_is_read(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    table = open_table(builder.root, "delta")
    builder.commit(builder.features("fooFeature"))
    assert ids_of(open_table(builder.root, "delta", version=0)) == [1]
    with pytest.raises(UnsupportedFeatureError, match="fooFeature"):
        table.refresh()
    assert (table.version, ids_of(table)) == (0, [1])


@by_every_road
@pytest.mark.req("DL-FEAT-10")
@pytest.mark.parametrize("writer", [7, 8])
def test_unknown_writer_features_do_not_keep_from_reading(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch, writer: int
) -> None:
    """Also without `clustering`, in a build that knows no such feature; this library has no writer to refuse yet."""
    others = {name: feature for name, feature in features.FEATURES.items() if name != "clustering"}
    monkeypatch.setattr(features, "FEATURES", others)
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


@by_every_road
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
    older, newer = (open_table(builder.root, "delta", version=version) for version in (0, 1))
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
    in_reader = [name] if supported and name == "deletionVectors" else []
    protocol = builder.protocol(3, 7, in_reader, [name] if supported else [])
    # The properties of all others are set: they must not matter.
    configuration = {known: "true" for known in _PAIRS.values() if known != _PAIRS[name]}
    if value is not None:
        configuration[_PAIRS[name]] = value
    builder.create(ID, configuration=configuration, protocol=protocol)
    table = open_table(builder.root, "delta")
    assert table.features == frozenset([name] if supported else [])
    is_set = value in ("true", "True")
    assert table.active_features == frozenset([name] if supported and is_set else [])


@pytest.mark.req("DL-FEAT-17", half="reader")
def test_versions_support_features_without_a_list(builder: DeltaBuilder) -> None:
    builder.create(ID, configuration={"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"})
    table = open_table(builder.root, "delta")
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
    later_for_writers = {"inCommitTimestamp", "checkpointProtection", "coordinatedCommits-preview"}
    later_for_both = {
        *("typeWidening", "variantType", "variantShredding", "vacuumProtocolCheck", "timestampWithoutTimezone"),
        *("typeWidening-preview", "variantType-preview", "variantShredding-preview"),
        *("catalogManaged", "catalogOwned", "catalogOwned-preview"),
    }
    assert {name: feature.for_readers for name, feature in features.FEATURES.items()} == {
        **dict.fromkeys(for_writers | later_for_writers, False),
        **dict.fromkeys(for_both | later_for_both, True),
    }
    assert all(name == feature.name for name, feature in features.FEATURES.items())
    assert len(for_writers | for_both) == 16
    builder.create(ID, protocol=builder.features(*for_both, writer_only=sorted(for_writers)))
    assert open_table(builder.root, "delta").features == for_writers | for_both
    builder.commit(builder.features(*for_both, "AppendOnly"))
    with pytest.raises(UnsupportedFeatureError, match="AppendOnly"):
        open_table(builder.root, "delta")


_IMPLIED = {
    2: {"appendOnly", "invariants"},
    3: {"checkConstraints"},
    4: {"changeDataFeed", "generatedColumns"},
    5: {"columnMapping"},
    6: {"identityColumns"},
}


@pytest.mark.parametrize("writer", range(1, 8))
def test_what_versions_imply(builder: DeltaBuilder, writer: int) -> None:
    builder.create(ID, protocol=builder.protocol(1, writer, None, [] if writer == 7 else None))
    implied = {name for version, names in _IMPLIED.items() if version <= writer for name in names}
    assert open_table(builder.root, "delta").features == (set() if writer == 7 else implied)


@pytest.mark.parametrize("mode", [None, "none", "name", "id"])
@pytest.mark.parametrize("reader", [1, 2])
def test_column_mapping_is_active_by_its_mode(builder: DeltaBuilder, mode: str | None, reader: int) -> None:
    configuration = {} if mode is None else {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "2"}
    builder.create(_MAPPED, configuration=configuration, protocol=builder.protocol(reader, 5))
    is_active = reader == 2 and mode in ("name", "id")
    assert ("columnMapping" in open_table(builder.root, "delta").active_features) == is_active


def _documented(feature: features.Feature) -> list[str]:
    versions = [
        f"{kind} {least}"
        for kind, least in (("reader", feature.min_reader), ("writer", feature.min_writer))
        if least is not None
    ]
    return [
        f"`{feature.name}`",
        "readers and writers" if feature.for_readers else "writers",
        ", ".join(versions),
        "" if feature.activated_by is None else f"`{feature.activated_by[0]}` = {' or '.join(feature.activated_by[1])}",
        ", ".join(f"`{name}`" for name in feature.depends_on),
        "no" if feature.needs_catalog else "yes",
        "no" if feature.needs_catalog else "yes",
    ]


@pytest.mark.one_backend
def test_the_documented_features() -> None:
    """The table in the documentation is the one that the code goes by."""
    page = Path(__file__).resolve().parents[2] / "docs" / "delta-features.md"
    lines = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| `")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert found == [_documented(feature) for feature in features.FEATURES.values()]


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
