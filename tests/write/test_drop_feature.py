"""Features that a table loses again, and those that stay."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.delta.alter.alter import Alteration
from deltaberg.errors import InvalidArgumentError, ProtocolChangedError, UnsupportedFeatureError
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend

_MAPPED = {"delta.columnMapping.mode": "name"}


@pytest.mark.req("BEY-11", half="writer")
@pytest.mark.parametrize(
    ("name", "make", "release", "message"),
    [
        (
            "checkConstraints",
            lambda alter: alter.add_constraint("c", "id > 0"),
            lambda alter: alter.drop_constraint("c"),
            "makes use of it: c",
        ),
        (
            "allowColumnDefaults",
            lambda alter: alter.set_default("id", "7"),
            lambda alter: alter.set_default("id", None),
            "makes use of it: id",
        ),
        (
            "changeDataFeed",
            lambda alter: alter.set({"delta.enableChangeDataFeed": "true"}),
            lambda alter: alter.unset("delta.enableChangeDataFeed"),
            "while the property delta.enableChangeDataFeed is true",
        ),
        (
            "appendOnly",
            lambda alter: alter.set({"delta.appendOnly": "true"}),
            lambda alter: alter.set({"delta.appendOnly": "false"}),
            "while the property delta.appendOnly is true",
        ),
        (
            "inCommitTimestamp",
            lambda alter: alter.set({"delta.enableInCommitTimestamps": "true"}),
            lambda alter: alter.set({"delta.enableInCommitTimestamps": "false"}),
            "while the property delta.enableInCommitTimestamps is true",
        ),
        ("clustering", lambda alter: alter.cluster_by("id"), lambda alter: alter.cluster_by(), "makes use of it: id"),
    ],
)
def test_a_feature_without_traces(
    tmp_path: Path,
    name: str,
    make: Callable[[Alteration], Alteration],
    release: Callable[[Alteration], Alteration],
    message: str,
) -> None:
    """It is refused while there is a trace, and may share the alteration that takes the last one away."""
    root = tmp_path / "t"
    table = create_table(root, ID)
    make(table.alter()).commit()
    table.append(ids(1))
    with pytest.raises(InvalidArgumentError, match=message):
        table.alter().drop_feature(name)
    stale = DeltaTable(root)
    dropped = release(table.alter()).drop_feature(name)
    assert (dropped.commit().version, name in table.features) == (3, False)
    with pytest.raises(ProtocolChangedError, match=r"version 3 .* changed the protocol"):
        stale.append(ids(2))
    table = DeltaTable(root, validate=True)
    assert (name in table.features, ids_of(table)) == (False, [1])
    assert "delta.clustering" not in table.domain_metadata
    assert [key for key in table.properties if key.startswith("delta.inCommitTimestamp")] == []
    table.append(ids(2))
    assert table.history()[1].operation == "ALTER TABLE"
    with pytest.raises(InvalidArgumentError, match="does not support"):
        table.alter().drop_feature(name)


@pytest.mark.req("BEY-11", half="writer")
def test_the_protocol_falls_to_versions(tmp_path: Path) -> None:
    """The lists of features go if versions without them say the same; else the others stay."""
    root = tmp_path / "t"
    properties = {f"delta.feature.{name}": "supported" for name in ("allowColumnDefaults", "checkConstraints")}
    table = create_table(root, ID, properties=properties)
    assert table.protocol.min_writer_version == 7
    table.alter().drop_feature("checkConstraints").commit()
    assert table.protocol.writer_features == ("allowColumnDefaults", "appendOnly", "invariants")
    assert table.history()[0].operation == "DROP FEATURE"
    table.alter().drop_feature("allowColumnDefaults").commit()
    protocol = DeltaTable(root).protocol
    assert (protocol.min_reader_version, protocol.min_writer_version, protocol.writer_features) == (1, 2, None)
    table.alter().drop_feature("invariants").commit()
    listed = DeltaTable(root).protocol
    assert (listed.min_writer_version, listed.writer_features) == (7, ("appendOnly",))
    table.append(ids(1))
    assert ids_of(DeltaTable(root, version=0)) == []


@pytest.mark.req("BEY-11", half="writer")
def test_only_dropping_a_feature_lowers_the_protocol(tmp_path: Path) -> None:
    """Properties that ask for older versions, other columns and other rows leave it; so do types that were widened."""
    table = create_table(
        tmp_path / "t", pa.schema([("id", pa.int32())]), properties={"delta.enableTypeWidening": "true"}
    )
    table.alter().widen("id", pa.int64()).commit()
    before = table.protocol
    assert (before.min_reader_version, before.min_writer_version) == (3, 7)
    table.alter().set({"delta.minReaderVersion": "1", "delta.minWriterVersion": "2"}).commit()
    with pytest.raises(InvalidArgumentError, match="typeWidening cannot be dropped by one commit"):
        table.alter().unset("delta.enableTypeWidening").drop_feature("typeWidening")
    table.overwrite(ids(1), schema_mode="overwrite")
    assert table.protocol == DeltaTable(tmp_path / "t").protocol == before


def test_readers_of_versions_without_lists(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, properties=_MAPPED)
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (2, 5)
    table.append(ids(1))
    table.alter().drop_feature("generatedColumns").commit()
    assert (table.protocol.min_reader_version, table.protocol.reader_features) == (2, None)
    assert "columnMapping" in table.active_features
    assert ids_of(DeltaTable(tmp_path / "t", validate=True)) == [1]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("deletionVectors", {"properties": {"delta.feature.deletionVectors": "supported"}}),
        ("columnMapping", {"properties": _MAPPED}),
        ("checkpointProtection", {"properties": {"delta.feature.checkpointProtection": "supported"}}),
    ],
)
def test_what_the_history_needs_stays(tmp_path: Path, name: str, make: dict[str, Any]) -> None:
    table = create_table(tmp_path / "t", ID, **make)
    with pytest.raises(InvalidArgumentError, match=f"the feature {name} cannot be dropped by one commit"):
        table.alter().drop_feature(name)


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("generatedColumns", {"metadata": {"delta.generationExpression": "id + 1"}}),
        ("identityColumns", {"metadata": {"delta.identity.start": 1, "delta.identity.step": 1}}),
        ("invariants", {"metadata": {"delta.invariants": '{"expression":{"expression":"r > 0"}}'}}),
        ("invariants", {"nullable": False}),
    ],
)
def test_columns_with_rules(builder: DeltaBuilder, name: str, members: dict[str, Any]) -> None:
    mapped = [
        field(column, "long", delta__columnMapping__id=number, delta__columnMapping__physicalName=column)
        for number, column in enumerate(("id", "r"), start=1)
    ]
    mapped[1] |= {**members, "metadata": {**mapped[1]["metadata"], **members.get("metadata", {})}}
    configuration = {**_MAPPED, "delta.columnMapping.maxColumnId": "2"}
    builder.create(mapped, configuration=configuration, protocol=builder.protocol(2, 6))
    table = DeltaTable(builder.root)
    with pytest.raises(InvalidArgumentError, match="makes use of it: r"):
        table.alter().drop_feature(name)
    table.alter().drop("r").drop_feature(name).commit()
    assert name not in table.features
    table.append(ids(1))
    assert ids_of(DeltaTable(builder.root, validate=True)) == [1]


def test_domains_of_users(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, properties={"delta.feature.domainMetadata": "supported"})
    with table.transaction() as transaction:
        transaction.set_domain("app", "{}")
    with pytest.raises(InvalidArgumentError, match="makes use of it: app"):
        table.alter().drop_feature("domainMetadata")
    with table.transaction() as transaction:
        transaction.set_domain("app", None)
    table.alter().drop_feature("domainMetadata").commit()
    assert table.protocol.min_writer_version == 2


def test_an_unknown_feature_stays(builder: DeltaBuilder) -> None:
    builder.create([field("id", "long")], builder.add(ids(1)), protocol=builder.protocol(1, 7, None, ["unheardOf"]))
    with pytest.raises(UnsupportedFeatureError, match="unheardOf"):
        DeltaTable(builder.root).alter().drop_feature("unheardOf")


@pytest.mark.parametrize("before", [0, 1])
def test_protection_of_the_first_version_alone(tmp_path: Path, before: int) -> None:
    """A log that begins with the last protected version still needs the feature."""
    builder = DeltaBuilder(tmp_path)
    protected = {"delta.requireCheckpointProtectionBeforeVersion": str(before)}
    builder.create(ID, protocol=builder.features("checkpointProtection"), configuration=protected)
    builder.commit()
    with nullcontext() if before == 0 else pytest.raises(UnsupportedFeatureError, match="but its version 0 does"):
        DeltaTable(tmp_path).drop_feature("checkpointProtection", truncate_history=True)
