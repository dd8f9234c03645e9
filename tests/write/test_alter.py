"""Columns, properties, features and clustering that are changed without rewriting rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, col, create_table, write_table
from deltaberg.delta.properties.properties import INTERNAL_PROPERTIES
from deltaberg.errors import InvalidArgumentError, MetadataChangedError, SchemaError, UnsupportedFeatureError
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of

_MAPPED = {"delta.columnMapping.mode": "name"}
_COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.string()), ("s", pa.struct([("x", pa.int64())]))])
_ROW = pa.table({"id": [1], "p": ["a"], "s": [{"x": 1}]}, schema=_COLUMNS)


def _actions(root: Path, version: int) -> dict[str, Any]:
    text = (root / "_delta_log" / f"{version:020d}.json").read_text("utf-8")
    return {name: action for line in text.splitlines() for name, action in json.loads(line).items()}


@pytest.mark.parametrize("mode", ["none", "name"])
def test_columns_are_added(tmp_path: Path, mode: str) -> None:
    table = create_table(tmp_path / "t", _COLUMNS, properties={"delta.columnMapping.mode": mode})
    table.append(_ROW)
    result = table.alter().add("day", pa.date32(), comment="when").add("s.y", pa.timestamp("us")).commit()
    assert result.version == 2
    table.append(pa.table({"id": [2], "s": [{"y": None, "x": 5}]}))
    found = sorted(DeltaTable(tmp_path / "t").scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == [
        {"id": 1, "p": "a", "s": {"x": 1, "y": None}, "day": None},
        {"id": 2, "p": None, "s": {"x": 5, "y": None}, "day": None},
    ]
    assert table.schema.fields[3].metadata["comment"] == "when"
    assert "timestampNtz" in table.features
    if mode == "name":
        assert table.properties["delta.columnMapping.maxColumnId"] == "6"


@pytest.mark.req("DL-CM-12", "DL-CM-13", "DL-CM-09", "DL-CM-10", half="writer")
def test_columns_are_renamed_and_dropped(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _COLUMNS, partition_by="p", properties=_MAPPED)
    table.append(_ROW)
    before = {field.name: field for field in table.schema}
    table.alter().rename("P", "region").rename("s.x", "z").commit()
    assert set(_actions(tmp_path / "t", 2)) == {"commitInfo", "metaData"}
    assert table.partition_columns == ["region"]
    assert table.scan("region = 'a' AND s.z = 1").to_arrow().to_pylist() == [{"id": 1, "region": "a", "s": {"z": 1}}]
    renamed = table.schema.get("region")
    assert renamed is not None
    assert (renamed.id, renamed.physical_name) == (before["p"].id, before["p"].physical_name)
    table.alter().drop("id").commit()
    assert set(_actions(tmp_path / "t", 3)) == {"commitInfo", "metaData"}
    assert table.properties["delta.columnMapping.maxColumnId"] == "4"
    table.alter().add("id", pa.int64()).commit()
    again = table.schema.get("id")
    assert again is not None
    assert (again.id, table.properties["delta.columnMapping.maxColumnId"]) == (5, "5")
    assert again.physical_name != before["id"].physical_name
    assert re.fullmatch("col-[0-9a-f-]{36}", again.physical_name)
    assert table.scan().to_arrow().to_pylist() == [{"region": "a", "s": {"z": 1}, "id": None}]
    table.append(pa.table({"region": ["b"], "s": [{"z": 2}], "id": [7]}))
    assert table.scan("id = 7").count() == 1


@pytest.mark.req("DL-CM-03", "DL-CM-04", half="writer")
@pytest.mark.parametrize(
    ("properties", "versions", "lists"),
    [
        ({}, (2, 5), None),
        ({"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}, (2, 5), None),
        ({"delta.enableInCommitTimestamps": "true"}, (3, 7), ("columnMapping",)),
        ({"delta.enableDeletionVectors": "true"}, (3, 7), ("columnMapping", "deletionVectors")),
    ],
)
def test_column_mapping_is_enabled(
    tmp_path: Path, properties: dict[str, str], versions: tuple[int, int], lists: Any
) -> None:
    table = create_table(tmp_path / "t", _COLUMNS, partition_by="p", properties=properties)
    table.append(_ROW)
    had = table.features
    before = table.protocol
    table.alter().set(_MAPPED).commit()
    assert ("protocol" in _actions(tmp_path / "t", 2)) == (before.min_writer_version != 5)
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == versions
    assert table.protocol.reader_features == lists
    assert had <= table.features
    assert [(field.id, field.physical_name) for field in table.schema] == [(1, "id"), (2, "p"), (3, "s")]
    assert table.schema.fields[2].type.fields[0].id == 4  # type: ignore[attr-defined]
    assert table.properties["delta.columnMapping.maxColumnId"] == "4"
    table.append(_ROW)
    table.alter().rename("s", "t").commit()
    assert DeltaTable(tmp_path / "t").scan().to_arrow().to_pylist() == [{"id": 1, "p": "a", "t": {"x": 1}}] * 2


@pytest.mark.req("DL-FEAT-19", half="writer")
def test_a_feature_raises_the_protocol_and_keeps_what_it_implied(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID)
    table.alter().set({"delta.enableDeletionVectors": "true", "owner": "ada"}).commit()
    assert {"protocol", "metaData"} <= set(_actions(tmp_path / "t", 1))
    found = table.protocol
    assert (found.min_reader_version, found.min_writer_version) == (3, 7)
    assert found.reader_features == ("deletionVectors",)
    assert found.writer_features == ("appendOnly", "deletionVectors", "invariants")
    table.alter().set({"delta.feature.vacuumProtocolCheck": "supported"}).commit()
    assert "metaData" not in _actions(tmp_path / "t", 2)
    assert table.properties == {"delta.enableDeletionVectors": "true", "owner": "ada"}
    table.alter().unset("owner").commit()
    assert table.properties == {"delta.enableDeletionVectors": "true"}


@pytest.mark.req("DL-FEAT-14", half="writer")
def test_an_upgrade_keeps_whatever_history_may_have_used(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.protocol(1, 4))
    table = DeltaTable(builder.root)
    table.alter().set({"delta.enableDeletionVectors": "true"}).commit()
    assert set(table.protocol.writer_features or ()) == {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "deletionVectors",
    }


@pytest.mark.req("DL-SCHEMA-02", half="writer")
def test_what_the_schema_says_of_others_survives(builder: DeltaBuilder) -> None:
    metadata = {"comment": "hi", "x.y": 1}
    column = {"name": "id", "type": "long", "nullable": True, "metadata": metadata, "extra": [1]}
    builder.create([column], builder.add(ids(1)))
    DeltaTable(builder.root).alter().add("x", pa.int8()).commit()
    (first, second) = json.loads(_actions(builder.root, 1)["metaData"]["schemaString"])["fields"]
    assert first == column
    assert second == {"name": "x", "type": "byte", "nullable": True, "metadata": {}}


@pytest.mark.req("DL-CLU-05", half="writer")
def test_clustering_columns(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
    table = create_table(tmp_path / "t", columns, properties={"delta.dataSkippingNumIndexedCols": 2})
    table.append(pa.table({"id": [1], "a": [1], "b": [1]}))
    table.alter().cluster_by("id", "a").commit()
    assert table.clustering_columns == [("id",), ("a",)]
    with pytest.raises(UnsupportedFeatureError, match="no statistics of a column to cluster by"):
        table.alter().cluster_by("b")
    # What the hint says.
    table.alter().set({"delta.dataSkippingStatsColumns": "id,a,b"}).commit()
    table.compute_statistics()
    table.alter().cluster_by("b").commit()
    assert table.clustering_columns == [("b",)]
    table.alter().cluster_by().commit()
    assert table.clustering_columns == []
    partitioned = create_table(tmp_path / "p", columns, partition_by="b")
    with pytest.raises(InvalidArgumentError, match="partitioned table cannot be clustered"):
        partitioned.alter().cluster_by("id")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda alter: alter.add("ID", pa.int8()), SchemaError, "'id' already"),
        (lambda alter: alter.add("s.X", pa.int8()), SchemaError, "'x' already"),
        (lambda alter: alter.add("id.x", pa.int8()), SchemaError, "only be added to a struct"),
        (lambda alter: alter.add("nope.x", pa.int8()), SchemaError, "no column 'nope'"),
        (lambda alter: alter.add("d", pa.duration("s")), SchemaError, "duration"),
        (lambda alter: alter.rename("id", "P"), SchemaError, "'p' already"),
        (lambda alter: alter.rename("id", ""), SchemaError, "name of a column is empty"),
        (lambda alter: alter.rename("nope", "x"), SchemaError, "no column 'nope'"),
        (lambda alter: alter.drop("p"), SchemaError, "partitions the table"),
        (lambda alter: alter.drop("s.x"), SchemaError, "last"),
        (lambda alter: alter.drop("s").drop("id"), SchemaError, "last"),
        (lambda alter: alter.set({"delta.nope": "1"}), InvalidArgumentError, "no property"),
        (
            lambda alter: alter.set({"delta.columnMapping.maxColumnId": "1"}),
            InvalidArgumentError,
            "kept by the library",
        ),
        (lambda alter: alter.set({"delta.columnMapping.mode": "id"}), UnsupportedFeatureError, "from name to id"),
        (
            lambda alter: alter.drop_feature("columnMapping"),
            InvalidArgumentError,
            "cannot be dropped by one commit",
        ),
        (lambda alter: alter.partition_by("id", "id"), SchemaError, "twice"),
        (lambda alter: alter.partition_by("s"), SchemaError, "cannot be a partition column"),
        (lambda alter: alter.partition_by("nope"), SchemaError, "no column 'nope'"),
        (lambda alter: alter.unset("delta.columnMapping.maxColumnId"), InvalidArgumentError, "kept by the library"),
        (lambda alter: alter.unset("delta.apendOnly"), InvalidArgumentError, "Delta has no property delta.apendOnly"),
        (lambda alter: alter.unset("delta.columnMapping.mode"), UnsupportedFeatureError, "only with the names"),
    ],
)
def test_changes_that_are_refused(tmp_path: Path, change: Any, error: type[Exception], message: str) -> None:
    table = create_table(tmp_path / "t", _COLUMNS, partition_by="p", properties=_MAPPED)
    with pytest.raises(error, match=message):
        change(table.alter())
    assert DeltaTable(tmp_path / "t").version == 0


@pytest.mark.parametrize("name", sorted(INTERNAL_PROPERTIES))
def test_properties_of_the_library_are_left_to_it(tmp_path: Path, name: str) -> None:
    """Also where the table has none of them, and beside a name that is misspelled."""
    table = create_table(tmp_path / "t", _COLUMNS, partition_by="p")
    changes: list[Callable[[], Any]] = [
        lambda: table.alter().unset("delta.apendOnly", name),
        lambda: table.alter().set({name: "1"}),
    ]
    for change in changes:
        with pytest.raises(InvalidArgumentError, match=f"the property {name} is kept by the library itself") as caught:
            change()
        assert caught.value.hint == "leave it out"


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_no_change_makes_no_commit(tmp_path: Path, format: Any) -> None:
    table: Any = create_table(tmp_path / "t", _COLUMNS, format=format)
    before = (table.location, repr(table))
    result = table.alter().commit()
    assert not result.committed
    assert (table.refresh().location, repr(table)) == before


@pytest.mark.parametrize("change", [lambda alter: alter.rename("id", "x"), lambda alter: alter.drop("id")])
def test_files_without_column_mapping_have_the_names(tmp_path: Path, change: Any) -> None:
    write_table(tmp_path / "t", _ROW)
    with pytest.raises(UnsupportedFeatureError, match="without column mapping"):
        change(DeltaTable(tmp_path / "t").alter())


def test_a_clustering_column_is_not_dropped(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _COLUMNS, cluster_by="s.x", properties=_MAPPED)
    for name in ("s", "s.x"):
        with pytest.raises(SchemaError, match="clustered by"):
            table.alter().drop(name)


def test_two_changes_at_once(tmp_path: Path) -> None:
    one = create_table(tmp_path / "t", ID)
    other = DeltaTable(tmp_path / "t").alter().add("x", pa.int8())
    one.append(ids(1))
    other.commit()
    late = one.alter().add("y", pa.int8())
    with pytest.raises(MetadataChangedError, match="version 2 was committed meanwhile, and it changed the metadata"):
        late.commit()
    table = DeltaTable(tmp_path / "t")
    assert (table.schema.names, ids_of(table)) == (["id", "x"], [1])


def test_a_step_that_fails_has_changed_nothing(tmp_path: Path) -> None:
    """A block that handles the exception goes on with the table as it was before the step."""
    table = create_table(tmp_path / "t", ID)
    with table.transaction() as transaction:
        with pytest.raises(UnsupportedFeatureError, match="column mapping cannot change"):
            transaction.alter().set({"delta.constraints.c": "id > 0", "delta.columnMapping.mode": "id"})
        transaction.append(ids(-1))
    assert (table.properties, table.protocol.min_writer_version) == ({}, 2)
    alteration = table.alter()
    with pytest.raises(InvalidArgumentError, match="icebergCompatV1"):
        alteration.set({"delta.columnMapping.mode": "name", "delta.enableIcebergCompatV1": "true"}).set(
            {"delta.enableDeletionVectors": "true"}
        )


def test_names_of_the_change_feed_are_reserved(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("_Commit_Version", pa.int64())])
    table = create_table(tmp_path / "t", columns)
    feed = {"delta.enableChangeDataFeed": "true"}
    with pytest.raises(InvalidArgumentError, match="cannot have a column _Commit_Version"):
        table.alter().set(feed).commit()
    with pytest.raises(InvalidArgumentError, match="cannot have a column _Commit_Version"):
        create_table(tmp_path / "u", columns, properties=feed)
    assert table.refresh().version == 0


def test_what_the_history_says(tmp_path: Path) -> None:
    """Each change has the name and the parameters that delta-spark gives to it, whose values these are."""
    properties = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    columns = pa.schema([("id", pa.int64()), ("x", pa.int32()), ("a b", pa.string())])
    table = create_table(tmp_path / "t", columns, properties=properties)
    column = {"name": "x", "nullable": True}
    changes: list[tuple[Any, str, dict[str, Any]]] = [
        (
            lambda alter: alter.add("c", pa.int32(), comment="hi", after="id"),
            "ADD COLUMNS",
            {"columns": [{"column": {"name": "c", "type": "integer", "nullable": True}, "position": "AFTER id"}]},
        ),
        (
            lambda alter: alter.add("s", pa.struct([("u", pa.int8())])),
            "ADD COLUMNS",
            {"columns": [{"column": {"name": "s", "type": "struct", "nullable": True}}]},
        ),
        (
            lambda alter: alter.add("s.v", pa.string(), first=True),
            "ADD COLUMNS",
            {"columns": [{"column": {"name": "s.v", "type": "string", "nullable": True}, "position": "FIRST"}]},
        ),
        (lambda alter: alter.rename("c", "d"), "RENAME COLUMN", {"oldColumnPath": "c", "newColumnPath": "d"}),
        (lambda alter: alter.drop("d"), "DROP COLUMNS", {"columns": ["d"]}),
        (lambda alter: alter.comment("x", "n"), "CHANGE COLUMN", {"column": {**column, "type": "integer"}}),
        (lambda alter: alter.widen("x", pa.int64()), "CHANGE COLUMN", {"column": {**column, "type": "long"}}),
        (
            lambda alter: alter.move("x", first=True),
            "CHANGE COLUMN",
            {"column": {**column, "type": "long"}, "position": "FIRST"},
        ),
        (lambda alter: alter.set({"b": "c"}), "SET TBLPROPERTIES", {"properties": {"b": "c"}}),
        (lambda alter: alter.unset("b"), "UNSET TBLPROPERTIES", {"properties": ["b"], "ifExists": True}),
        (lambda alter: alter.add_constraint("c", "id > 0"), "ADD CONSTRAINT", {"name": "c", "expr": "id > 0"}),
        (
            lambda alter: alter.drop_constraint("c"),
            "DROP CONSTRAINT",
            {"name": "c", "expr": "id > 0", "existed": True},
        ),
        (
            lambda alter: alter.drop_feature("checkConstraints"),
            "DROP FEATURE",
            {"featureName": "checkConstraints", "truncateHistory": False},
        ),
        (
            lambda alter: alter.cluster_by("id"),
            "CLUSTER BY",
            {"oldClusteringColumns": "", "newClusteringColumns": "id"},
        ),
        (lambda alter: alter.cluster_by(), "CLUSTER BY", {"oldClusteringColumns": "id", "newClusteringColumns": ""}),
    ]

    def read(value: str) -> Any:
        try:
            return json.loads(value)
        except ValueError:
            return value

    for change, operation, parameters in changes:
        change(table.alter()).commit()
        info = table.history(1)[0].info
        found = {name: read(value) for name, value in info["operationParameters"].items()}
        for one in (found.get("column"), *(each["column"] for each in found.get("columns", ()) if "column" in each)):
            assert one is None or one.pop("metadata").keys() >= {"delta.columnMapping.id"}
        assert (info["operation"], found) == (
            operation,
            {name: read(value) if isinstance(value, str) else value for name, value in parameters.items()},
        )
    table.alter().set({"b": "c"}).drop("x").commit()
    info = table.history(1)[0].info
    assert info["operation"] == "ALTER TABLE"
    steps = [(one["operation"], one.get("columns")) for one in json.loads(info["operationParameters"]["operations"])]
    assert steps == [("SET TBLPROPERTIES", None), ("DROP COLUMNS", '["x"]')]


def test_names_in_conditions_are_quoted(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", pa.schema([("a b", pa.int64())]), properties=_MAPPED)
    table.append(pa.table({"a b": [1, 2]}))
    table.delete("`a b` = 1")
    info = table.history(1)[0].info
    assert info["operationParameters"] == {"predicate": '["`a b` = 1"]'}
    assert {"scanTimeMs", "rewriteTimeMs"} <= info["operationMetrics"].keys()


def test_words_of_other_types(tmp_path: Path) -> None:
    """What is no text would be recorded as it is, and other engines could not read the table any more."""
    table = create_table(tmp_path / "t", ID, properties={"delta.columnMapping.mode": "name"})
    wrong: list[tuple[Callable[[Any], object], str]] = [
        (lambda alter: alter.set_default("id", 5), "a default value must be text"),
        (lambda alter: alter.set_default("id", True), "a default value must be text"),
        (lambda alter: alter.add_constraint("c", True), "the condition of a constraint must be text"),
        (lambda alter: alter.add_constraint("c", col("id") > 0), "the condition of a constraint must be text"),
        (lambda alter: alter.add_constraint(5, "id > 0"), "the name of a constraint must be text"),
        (lambda alter: alter.drop_constraint(5), "the name of a constraint must be text"),
        (lambda alter: alter.comment("id", 5), "comment must be text"),
        (lambda alter: alter.add("x", pa.int64(), comment=5), "comment must be text"),
        (lambda alter: alter.rename("id", 5), "the name of a column must be text"),
        (lambda alter: alter.widen("id", "decimal(20, 0)"), "the type of the column 'id' is 'decimal"),
        (lambda alter: alter.unset(5), "the name of a property must be text"),
    ]
    for change, message in wrong:
        alteration = table.alter().set({"delta.enableTypeWidening": "true"})
        with pytest.raises(InvalidArgumentError, match=message):
            change(alteration)
    assert DeltaTable(table.location).version == 0


def test_no_column_clusters_twice(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    with pytest.raises(SchemaError, match="a clustering column is given twice"):
        table.alter().cluster_by("a", "b", "A")
    with pytest.raises(SchemaError, match="a clustering column is given twice"):
        create_table(tmp_path / "u", table.arrow_schema, cluster_by=["b", "B"])
    assert not (tmp_path / "u").exists()
