"""Tables that are created: their protocol, metadata and columns, and what becomes of a table that is there already."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import (
    CorruptLogError,
    InvalidArgumentError,
    SchemaError,
    TableExistsError,
    UnsupportedFeatureError,
)
from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.delta_builder import DeltaBuilder
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of

_COLUMNS = pa.schema([("id", pa.int64()), ("region", pa.string()), ("score", pa.float64())])


def _action(root: Path, name: str, version: int = 0) -> Any:
    (found,) = named_actions(root, version, name)
    return found


def _protocol(table: DeltaTable) -> tuple[int, int, set[str] | None, set[str] | None]:
    found = table.protocol
    lists = (found.reader_features, found.writer_features)
    readers, writers = (None if names is None else set(names) for names in lists)
    return found.min_reader_version, found.min_writer_version, readers, writers


@pytest.mark.req("DL-SCHEMA-01", "DL-SCHEMA-03", "DL-SCHEMA-04", half="writer")
def test_the_schema_of_the_protocols_example(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("d", pa.int32(), nullable=False)])
    columns = pa.schema(
        [
            pa.field("a", pa.int32(), nullable=False),
            pa.field("b", inner),
            pa.field("c", pa.list_(pa.field("element", pa.int32(), nullable=False))),
            pa.field("e", pa.list_(inner)),
            pa.field("f", pa.map_(pa.string(), pa.string())),
        ]
    )
    create_table(tmp_path / "t", columns)
    d = {
        "type": "struct",
        "fields": [{"name": "d", "type": "integer", "nullable": False, "metadata": {}}],
    }
    f = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    types = [
        ("a", "integer", False),
        ("b", d, True),
        ("c", {"type": "array", "elementType": "integer", "containsNull": False}, True),
        ("e", {"type": "array", "elementType": d, "containsNull": True}, True),
        ("f", f, True),
    ]
    fields = [{"name": name, "type": kind, "nullable": null, "metadata": {}} for name, kind, null in types]
    assert json.loads(_action(tmp_path / "t", "metaData")["schemaString"]) == {"type": "struct", "fields": fields}


@pytest.mark.req("DL-SCHEMA-02", half="writer")
def test_comments_stay_and_other_metadata_of_arrow_does_not(tmp_path: Path) -> None:
    about = {"comment": "the number", "PARQUET:field_id": "7"}
    table = create_table(tmp_path / "t", pa.schema([pa.field("id", pa.int64(), metadata=about)]))
    assert table.schema.fields[0].metadata == {"comment": "the number"}
    reserved = Struct((Field("id", Primitive("long"), metadata={"delta.foo": 1}),))
    with pytest.raises(SchemaError, match=r"reserved key delta\.foo"):
        create_table(tmp_path / "u", reserved)


def test_what_metadata_says(tmp_path: Path) -> None:
    table = create_table(
        tmp_path / "new" / "t",
        _COLUMNS,
        partition_by="REGION",
        properties={"delta.appendOnly": True, "delta.checkpointInterval": 100, "owner": "ada"},
        name="orders",
        description="all of them",
    )
    assert table.version == 0
    assert table.partition_columns == ["region"]
    assert table.properties == {"delta.appendOnly": "true", "delta.checkpointInterval": "100", "owner": "ada"}
    assert (table.metadata.name, table.metadata.description) == ("orders", "all of them")
    assert table.is_append_only
    info = table.history()[0].info
    assert info["operation"] == "CREATE TABLE"
    assert json.loads(info["operationParameters"]["partitionBy"]) == ["region"]
    assert table.scan().to_arrow().schema.names == ["id", "region", "score"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"id": pa.int64()}, "struct<id: long>"),
        (pa.schema([("n", pa.uint32()), ("f", pa.float16())]), "struct<n: long, f: float>"),
        (pa.schema([("at", pa.timestamp("ns", "Asia/Tokyo")), ("d", pa.date64())]), "struct<at: timestamp, d: date>"),
        (pa.schema([("t", pa.dictionary(pa.int8(), pa.large_string()))]), "struct<t: string>"),
        (pa.schema([("b", pa.binary(3)), ("x", pa.decimal256(10, 2))]), "struct<b: binary, x: decimal(10,2)>"),
        (pa.schema([("l", pa.list_(pa.int8(), 2))]), "struct<l: array<byte>>"),
    ],
)
def test_forms_of_a_schema(tmp_path: Path, given: Any, found: str) -> None:
    assert str(create_table(tmp_path / "t", given).schema) == found
    other = create_table(tmp_path / "u", DeltaTable(tmp_path / "t").schema)
    assert str(other.schema) == found


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("more", [{"delta.enableTypeWidening": "true"}, {"delta.enableIcebergCompatV2": "true"}])
def test_the_columns_of_another_table_become_its_own(tmp_path: Path, more: dict[str, str], mapped: bool) -> None:
    """At every depth they have neither the ids, the names in files, nor the changes of types of the other table."""
    inner = pa.struct([("x", pa.int32())])
    given = pa.schema([pa.field("id", pa.int32(), metadata={"comment": "c"}), ("s", inner), ("l", pa.list_(inner))])
    mode = {"delta.columnMapping.mode": "name"}
    other = create_table(tmp_path / "other", given, properties={**mode, **more})
    if "delta.enableTypeWidening" in more:
        other.alter().widen("id", pa.int64()).widen("s.x", pa.int64()).widen("l.element.x", pa.int64()).commit()
    table = create_table(tmp_path / "t", other.schema, properties=mode if mapped else {})
    assert str(table.schema) == str(other.schema)
    text = table.metadata.schema_string or ""
    assert ("delta." in text) == mapped
    assert not any(word in text for word in ("typeChanges", "nested.ids", *_names_in_files(other)))
    assert '"comment":"c"' in text
    rows = pa.table({"id": [1], "s": [{"x": 1}], "l": [[{"x": 2}]]}, table.arrow_schema)
    table.append(rows)
    assert DeltaTable(tmp_path / "t", validate=True).scan().to_arrow().equals(rows)


def _names_in_files(table: DeltaTable) -> set[str]:
    return set(re.findall(r"col-[0-9a-f-]{36}", table.metadata.schema_string or ""))


@pytest.mark.parametrize("given", ["id bigint", 3, None, ["id"]])
def test_what_is_no_schema(tmp_path: Path, given: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"schema .* describes no columns"):
        create_table(tmp_path / "t", given)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "at least one column"),
        ([("a", pa.int8()), ("A", pa.int8())], "same name when case is ignored"),
        ([("a b", pa.int8())], r"contains ' '"),
        ([("s", pa.struct([("x=y", pa.int8())]))], r"contains '='.*column: s\.x=y"),
        ([("", pa.int8())], "empty name"),
        ([("t", pa.time64("us"))], r"no type in tables|no type time"),
        ([("d", pa.duration("s"))], "duration"),
        ([("s", pa.struct([]))], "at least one field"),
    ],
)
@pytest.mark.req("DL-SCHEMA-17", half="writer")
def test_columns_that_are_refused(tmp_path: Path, columns: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        create_table(tmp_path / "t", pa.schema(columns))
    assert not (tmp_path / "t").exists()


# Protocol


@pytest.mark.req("DL-FEAT-05", "DL-FEAT-03", half="writer")
@pytest.mark.parametrize(
    ("properties", "protocol"),
    [
        ({}, (1, 2, None, None)),
        ({"delta.enableChangeDataFeed": "true"}, (1, 4, None, None)),
        ({"delta.columnMapping.mode": "id"}, (2, 5, None, None)),
        (
            {"delta.enableDeletionVectors": "true"},
            (3, 7, {"deletionVectors"}, {"deletionVectors", "appendOnly", "invariants"}),
        ),
        (
            {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"},
            (
                3,
                7,
                {"deletionVectors", "columnMapping"},
                {"deletionVectors", "columnMapping", "appendOnly", "invariants"},
            ),
        ),
        (
            {"delta.enableInCommitTimestamps": "true"},
            (1, 7, None, {"inCommitTimestamp", "appendOnly", "invariants"}),
        ),
        (
            {"delta.enableRowTracking": "true"},
            (1, 7, None, {"rowTracking", "domainMetadata", "appendOnly", "invariants"}),
        ),
        (
            {"delta.feature.vacuumProtocolCheck": "supported"},
            (3, 7, {"vacuumProtocolCheck"}, {"vacuumProtocolCheck", "appendOnly", "invariants"}),
        ),
        ({"delta.checkpointPolicy": "v2"}, (3, 7, {"v2Checkpoint"}, {"v2Checkpoint", "appendOnly", "invariants"})),
        ({"delta.minReaderVersion": "1", "delta.minWriterVersion": "3"}, (1, 3, None, None)),
    ],
)
def test_the_lowest_protocol(tmp_path: Path, properties: dict[str, str], protocol: Any) -> None:
    table = create_table(tmp_path / "t", _COLUMNS, properties=properties)
    assert _protocol(table) == protocol
    requests = ("delta.feature.", "delta.minReader", "delta.minWriter")
    assert {name for name in properties if not name.startswith(requests)} <= set(table.properties)
    assert not any(name.startswith(requests) for name in table.properties)


@pytest.mark.req("DL-SCHEMA-12", half="writer")
@pytest.mark.parametrize(
    "kind", [pa.timestamp("us"), pa.struct([("x", pa.timestamp("us"))]), pa.list_(pa.timestamp("us"))]
)
def test_a_timestamp_without_zone_needs_its_feature(tmp_path: Path, kind: pa.DataType) -> None:
    table = create_table(tmp_path / "t", pa.schema([("id", pa.int64()), ("at", kind)]))
    assert _protocol(table)[2:] == ({"timestampNtz"}, {"timestampNtz", "appendOnly", "invariants"})


@pytest.mark.req("DL-CLU-01", "DL-CLU-02", "DL-CLU-03", "DL-DOM-10", half="writer")
@pytest.mark.parametrize("mode", ["none", "name"])
def test_a_clustered_table(tmp_path: Path, mode: str) -> None:
    columns = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int64())]))])
    mapping = {"delta.columnMapping.mode": mode}
    table = create_table(tmp_path / "t", columns, cluster_by=["id", "s.x"], properties=mapping)
    assert {"clustering", "domainMetadata"} <= table.features
    inner = table.schema.fields[1].type.fields[0]  # type: ignore[attr-defined]
    physical = [(table.schema.fields[0].physical_name,), (table.schema.fields[1].physical_name, inner.physical_name)]
    assert table.clustering_columns == physical
    domain = _action(tmp_path / "t", "domainMetadata")
    assert (domain["domain"], domain["removed"]) == ("delta.clustering", False)
    assert json.loads(domain["configuration"]) == {"clusteringColumns": [list(path) for path in physical]}
    assert (mode == "none") == (physical == [("id",), ("s", "x")])


@pytest.mark.req("DL-CLU-08", half="writer")
def test_clustering_excludes_partitioning(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="partitioned or clustered, not both"):
        create_table(tmp_path / "t", _COLUMNS, partition_by="region", cluster_by="id")


@pytest.mark.req("DL-CM-02", half="writer")
def test_columns_get_ids_and_physical_names_at_every_depth(tmp_path: Path) -> None:
    inner = pa.struct([("d", pa.int32())])
    columns = pa.schema([("e", pa.list_(inner)), ("m", pa.map_(pa.string(), inner)), ("e2", inner)])
    table = create_table(tmp_path / "t", columns, properties={"delta.columnMapping.mode": "name"})
    text = _action(tmp_path / "t", "metaData")["schemaString"]
    metadata = []

    def collect(tree: Any) -> None:
        for value in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else []:
            collect(value)
        if isinstance(tree, dict) and "nullable" in tree:
            metadata.append(tree["metadata"])

    collect(json.loads(text))
    numbers = [one["delta.columnMapping.id"] for one in metadata]
    names = [one["delta.columnMapping.physicalName"] for one in metadata]
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6]
    assert len(set(names)) == 6
    assert all(name.startswith("col-") and len(name) == 40 for name in names)
    assert table.properties["delta.columnMapping.maxColumnId"] == "6"


@pytest.mark.req("DL-CM-18", half="writer")
def test_column_mapping_allows_every_name(tmp_path: Path) -> None:
    columns = pa.schema([("a b;c=(x)", pa.int64()), ("t\tn\n{,}", pa.string())])
    table = create_table(tmp_path / "t", columns, properties={"delta.columnMapping.mode": "name"})
    table.append(pa.table([[1], ["x"]], schema=columns))
    assert DeltaTable(tmp_path / "t").scan().to_arrow().to_pylist() == [{"a b;c=(x)": 1, "t\tn\n{,}": "x"}]


@pytest.mark.req("DL-RT-02", half="writer")
def test_row_tracking_gets_names_for_its_hidden_columns(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, properties={"delta.enableRowTracking": "true"})
    hidden = [
        table.properties[f"delta.rowTracking.materialized{name}ColumnName"] for name in ("RowId", "RowCommitVersion")
    ]
    assert len(set(hidden)) == 2
    table.append(ids(1, 2))
    table.append(ids(3))
    rows = table.scan(columns=["id", "_metadata"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["_metadata"]["row_id"]) for row in rows) == [(1, 0), (2, 1), (3, 2)]
    assert table.row_id_high_water_mark == 2


# Refused properties


@pytest.mark.req("DL-CM-11", half="writer")
@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"delta.columnMapping.maxColumnId": "9"}, "kept by the library itself"),
        ({"delta.rowTracking.materializedRowIdColumnName": "x"}, "kept by the library itself"),
        ({"delta.apendOnly": "true"}, "Delta has no property delta.apendOnly"),
        ({"delta.appendOnly": "yes"}, "'yes'"),
        ({"delta.columnMapping.mode": "foo"}, "'foo'"),
        ({"delta.checkpointInterval": 0}, "'0'"),
        ({"delta.logRetentionDuration": "2 months"}, "'2 months'"),
        ({"delta.feature.deletionVectors": "maybe"}, "'maybe'"),
        ({"delta.minWriterVersion": "8"}, "'8'"),
        ({"delta.targetFileSize": "large"}, "'large'"),
        ({"delta.universalFormat.enabledFormats": "hoodie"}, "'hoodie'"),
        ({"delta.universalFormat.enabledFormats": "hudi, iceberg"}, "not compatible with Iceberg"),
        (
            {"delta.universalFormat.enabledFormats": "hudi", "delta.enableDeletionVectors": "true"},
            "no place for deletion vectors",
        ),
        # What Python reads as a number or a word, and other engines do not.
        ({"delta.checkpointInterval": "1_0"}, "'1_0'"),
        ({"delta.checkpointInterval": "+5"}, "'[+]5'"),
        ({"delta.checkpointInterval": "3000000000"}, "'3000000000'"),
        ({"delta.checkpointPolicy": "V2"}, "'V2'"),
        ({"owner": None}, "None"),
        ({"": "x"}, "the name of a property is empty"),
        ({3: "x"}, "the name of a property must be text, not 3"),
    ],
)
def test_properties_that_are_refused(tmp_path: Path, properties: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        create_table(tmp_path / "t", _COLUMNS, properties=properties)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("kind", [pa.int8(), pa.list_(pa.int16()), pa.timestamp("us")])
def test_hudi_has_fewer_types(tmp_path: Path, kind: pa.DataType) -> None:
    """delta-spark commits nothing to a table that shall be offered as one of Hudi, but has a type that Hudi lacks."""
    hudi = {"delta.universalFormat.enabledFormats": "hudi"}
    columns = pa.schema([("id", pa.int64()), ("x", kind)])
    with pytest.raises(InvalidArgumentError, match="names hudi, which does not allow columns of the type"):
        create_table(tmp_path / "t", columns, properties=hudi)
    table = create_table(tmp_path / "fits", {"id": pa.int64()}, properties=hudi)
    with pytest.raises(InvalidArgumentError, match="names hudi, which does not allow columns of the type"):
        table.alter().add("x", kind).commit()
    assert table.append(pa.table({"id": [1]})).committed


def test_properties_are_recorded_without_blanks(tmp_path: Path) -> None:
    """delta-spark takes no blank for a part of true, of a number or of a policy."""
    given = {"delta.appendOnly": " TRUE", "delta.checkpointInterval": " 10 ", "owner": " ada "}
    table = create_table(tmp_path / "t", _COLUMNS, properties=given)
    assert table.properties == {"delta.appendOnly": "TRUE", "delta.checkpointInterval": "10", "owner": " ada "}
    table.alter().set({"delta.appendOnly": "false\n"}).commit()
    assert table.properties["delta.appendOnly"] == "false"


@pytest.mark.req("DL-FEAT-09", half="writer")
@pytest.mark.parametrize(
    ("properties", "feature"),
    [
        ({"delta.feature.fooFeature": "supported"}, "fooFeature"),
        ({"delta.feature.catalogManaged": "supported"}, "catalogManaged"),
    ],
)
def test_features_that_are_refused_by_name(tmp_path: Path, properties: dict[str, str], feature: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        create_table(tmp_path / "t", _COLUMNS, properties=properties)
    assert caught.value.context["feature"] == feature
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["nope"], "no column 'nope'"),
        (["id", "ID"], "given twice"),
        (["id", "region", "score"], "all columns are partition columns"),
        (["s.x"], "field of a struct"),
        (["s"], "cannot be partitioned"),
    ],
)
def test_partition_columns_that_are_refused(tmp_path: Path, names: list[str], message: str) -> None:
    columns = (
        _COLUMNS
        if "s" not in names and "s.x" not in names
        else _COLUMNS.append(pa.field("s", pa.struct([("x", pa.int64())])))
    )
    with pytest.raises(SchemaError, match=message):
        create_table(tmp_path / "t", columns, partition_by=names)
    assert not (tmp_path / "t").exists()


# A table that is there already


@pytest.mark.parametrize("mapped", [False, True])
def test_a_table_is_replaced(tmp_path: Path, mapped: bool) -> None:
    mapping = {"delta.columnMapping.mode": "name"} if mapped else {}
    old = create_table(tmp_path / "t", ID, properties={"delta.enableDeletionVectors": True, "owner": "ada", **mapping})
    old.append(ids(1, 2))
    new = create_table(
        tmp_path / "t", _COLUMNS, partition_by="region", properties=mapping, if_exists="replace", description="new"
    )
    assert new.version == 2
    assert new.scan().to_arrow().num_rows == 0
    assert new.schema.names == ["id", "region", "score"]
    assert (new.partition_columns, new.metadata.description) == (["region"], "new")
    assert "owner" not in new.properties
    assert new.metadata.id == old.metadata.id
    assert "deletionVectors" in new.features
    assert ids_of(DeltaTable(tmp_path / "t", version=1)) == [1, 2]
    assert new.history()[0].operation == "REPLACE TABLE"
    if mapped:
        assert {field.id for field in new.schema} == {2, 3, 4}
        assert new.properties["delta.columnMapping.maxColumnId"] == "4"


def test_a_clustered_table_is_replaced_by_one_that_is_not(tmp_path: Path) -> None:
    create_table(tmp_path / "t", ID, cluster_by="id")
    new = create_table(tmp_path / "t", ID, if_exists="replace")
    assert new.clustering_columns == []


def test_formats_are_not_mixed(tmp_path: Path, iceberg_path: str) -> None:
    with pytest.raises(InvalidArgumentError, match="a table of the format iceberg already"):
        create_table(iceberg_path, ID, format="delta")
    with pytest.raises(TableExistsError, match="there is a table already"):
        create_table(iceberg_path, ID)
    with pytest.raises(InvalidArgumentError, match="format must be 'delta' or 'iceberg', not 'hudi'"):
        create_table(tmp_path / "t", ID, format="hudi")  # type: ignore[call-overload]
    assert not (tmp_path / "t").exists()


@pytest.mark.req("DL-FEAT-02", half="writer")
def test_the_protocol_as_it_is_written(tmp_path: Path) -> None:
    create_table(
        tmp_path / "t", ID, properties={"delta.feature.deletionVectors": "supported", "delta.appendOnly": "true"}
    )
    assert _action(tmp_path / "t", "protocol") == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["appendOnly", "deletionVectors", "invariants"],
    }


def test_a_damaged_table_is_not_replaced(builder: DeltaBuilder) -> None:
    """What cannot be read may still matter to somebody."""
    builder.create(ID, builder.add(ids(1)))
    (builder.log / f"{0:020d}.json").write_text("nonsense")
    with pytest.raises(CorruptLogError, match="version: 0, line: 1"):
        create_table(builder.root, ID, if_exists="replace")


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="two columns have the same name"):
        create_table(tmp_path / "t", pa.schema([("a", pa.int32()), ("a", pa.int32())]))
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("described", ["an Iceberg table", "Arrow"])
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_the_doc_of_a_column_becomes_its_comment(
    tmp_path: Path, format: Literal["delta", "iceberg"], described: str
) -> None:
    inner = pa.struct([pa.field("a", pa.int64(), metadata={"doc": "inside"})])
    columns = pa.schema([pa.field("id", pa.int64(), metadata={"doc": "a key"}), pa.field("s", inner)])
    schema: Any = columns
    if described == "an Iceberg table":
        schema = create_table(tmp_path / "from", columns, format="iceberg").schema
        assert schema.get("id").metadata["doc"] == "a key"
    table: Any = create_table(tmp_path / "t", schema, format=format)
    word, other = ("comment", "doc") if format == "delta" else ("doc", "comment")
    (found,) = (field for field in table.schema.get("s").type)
    for field, text in ((table.schema.get("id"), "a key"), (found, "inside")):
        assert field.metadata.get(word) == text
        assert other not in field.metadata
