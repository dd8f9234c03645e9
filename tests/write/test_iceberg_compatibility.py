"""Tables that are compatible with Iceberg: what their protocol, columns and files must be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import InvalidArgumentError
from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.below_verbs import begin
from tests.support.delta_builder import DeltaBuilder
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend

_V1 = {"delta.enableIcebergCompatV1": "true", "delta.columnMapping.mode": "name"}
_V2 = {"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "name"}
_both = pytest.mark.parametrize("properties", [_V1, _V2], ids=["v1", "v2"])
_AP = pa.schema([("p", pa.string()), ("a", pa.int64())])


def _data_file(table: DeltaTable) -> Path:
    (path,) = table.scan().files()["file_path"].to_pylist()
    return Path(path.removeprefix("file://"))


@pytest.mark.req("DL-ICOMP-01", "DL-ICOMP-09")
@_both
def test_enabling_it_raises_the_protocol_in_the_same_commit(builder: DeltaBuilder, properties: dict[str, str]) -> None:
    builder.create(ID, builder.add(ids(1), stats="full"))
    table = DeltaTable(builder.root)
    table.alter().set(properties).commit()
    (protocol,) = named_actions(builder.root, 1, "protocol")
    feature = next(iter(properties)).removeprefix("delta.enable")
    feature = feature[0].lower() + feature[1:]
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (3, 7)
    assert {feature, "columnMapping"} <= set(protocol["writerFeatures"])
    assert "columnMapping" in protocol["readerFeatures"]
    assert feature in table.active_features
    table.append(ids(2))
    assert ids_of(DeltaTable(builder.root)) == [1, 2]


@pytest.mark.req("DL-ICOMP-02")
@_both
def test_it_needs_column_mapping(tmp_path: Path, properties: dict[str, str]) -> None:
    alone = dict([next(iter(properties.items()))])
    with pytest.raises(InvalidArgumentError, match="needs column mapping"):
        create_table(tmp_path / "t", ID, properties=alone)
    assert not (tmp_path / "t").exists()
    table = create_table(tmp_path / "t", ID)
    with pytest.raises(InvalidArgumentError, match="needs column mapping"):
        table.alter().set(alone).commit()
    for mode in ("name", "id"):
        create_table(tmp_path / mode, ID, properties={**properties, "delta.columnMapping.mode": mode}).append(ids(1))


@pytest.mark.req("DL-ICOMP-03", "DL-ICOMP-04")
def test_deletion_vectors(tmp_path: Path) -> None:
    listed = {"delta.feature.deletionVectors": "supported"}
    enabled = {"delta.enableDeletionVectors": "true"}
    for properties in (listed, enabled):
        with pytest.raises(InvalidArgumentError, match="exclude each other"):
            create_table(tmp_path / "t", ID, properties={**_V1, **properties})
    with pytest.raises(InvalidArgumentError, match="exclude each other"):
        create_table(tmp_path / "t", ID, properties={**_V2, **enabled})
    table = create_table(tmp_path / "t", ID, properties={**_V2, **listed})
    table.append(ids(1, 2))
    table.delete("id = 1")
    assert ids_of(table) == [2]
    with pytest.raises(InvalidArgumentError, match="exclude each other"):
        table.alter().set(enabled).commit()


@pytest.mark.req("DL-ICOMP-04")
def test_vectors_of_files_go_before_it_is_enabled(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, properties={"delta.enableDeletionVectors": "true"})
    table.append(ids(1, 2))
    table.delete("id = 1", strategy="merge-on-read")
    enabled = {**_V2, "delta.enableDeletionVectors": "false"}
    with pytest.raises(InvalidArgumentError, match=r"a file has a deletion vector.*\n.*reorg\(\)"):
        table.alter().set(enabled).commit()
    table.reorg()
    table.alter().set(enabled).commit()
    assert ids_of(DeltaTable(tmp_path / "t", validate=True)) == [2]


@pytest.mark.req("DL-ICOMP-05")
@_both
def test_files_hold_the_partition_columns_last(tmp_path: Path, properties: dict[str, str]) -> None:
    table = create_table(tmp_path / "t", _AP, partition_by="p", properties=properties)
    table.append(pa.table({"p": ["x", "x"], "a": [1, 2]}))
    stored = pq.read_table(_data_file(table), partitioning=None)
    assert stored.schema.names == [table.schema.get(name).physical_name for name in ("a", "p")]  # type: ignore[union-attr]
    assert stored.columns[1].to_pylist() == ["x", "x"]
    table.update({"a": "a + 1"}, "a = 1")
    assert pq.read_table(_data_file(table), partitioning=None).columns[1].to_pylist() == ["x", "x"]
    table.append(pa.table({"p": [None, "y"], "a": [5, 6]}))
    table.compact()
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["a"]) == [
        {"p": "x", "a": 2},
        {"p": "x", "a": 2},
        {"p": None, "a": 5},
        {"p": "y", "a": 6},
    ]
    assert table.scan("p = 'y'").count() == 1


@pytest.mark.req("DL-ICOMP-05")
def test_version_1_is_not_enabled_over_files_without_partition_columns(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _AP, partition_by="p")
    table.append(pa.table({"p": ["x"], "a": [1]}))
    with pytest.raises(InvalidArgumentError, match="files lack the partition columns"):
        table.alter().set(_V1).commit()
    table.refresh().alter().set(_V2).commit()
    table.append(pa.table({"p": ["x"], "a": [2]}))
    assert sorted(table.scan().to_arrow()["a"].to_pylist()) == [1, 2]


def _add_and_commit(transaction: Transaction, add: dict[str, Any]) -> None:
    transaction.add_actions([LogAction("add", add)])
    transaction.commit("TEST")


@pytest.mark.req("DL-ICOMP-06")
@_both
def test_files_without_a_row_count(tmp_path: Path, properties: dict[str, str]) -> None:
    table = create_table(tmp_path / "t", ID, properties=properties)
    add = {"path": "f", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    transaction = begin(table)
    transaction.set_transaction("app", 1)
    with pytest.raises(InvalidArgumentError, match="number of its rows"):
        _add_and_commit(transaction, add)
    assert DeltaTable(tmp_path / "t").version == 0
    table.append(ids(1))
    assert json.loads(named_actions(tmp_path / "t", 1, "add")[0]["stats"])["numRecords"] == 1


@pytest.mark.req("DL-ICOMP-07")
@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32()), pa.null()], ids=str)
def test_types_that_version_1_lacks(tmp_path: Path, kind: pa.DataType) -> None:
    table = create_table(tmp_path / "t", ID, properties=_V1)
    with pytest.raises(InvalidArgumentError, match="does not allow columns of the type"):
        table.alter().add("c", kind).commit()
    with pytest.raises(InvalidArgumentError, match="does not allow columns of the type"):
        table.refresh().append(pa.table({"id": [1], "c": pa.nulls(1, kind)}), schema_mode="merge")
    assert DeltaTable(tmp_path / "t").version == 0


@pytest.mark.req("DL-ICOMP-08")
@_both
def test_partition_columns_keep_their_names(tmp_path: Path, properties: dict[str, str]) -> None:
    columns = pa.schema([("part_a", pa.int32()), ("x", pa.int64())])
    other = pa.schema([("part_b", pa.int32()), ("x", pa.int64())])
    wider = pa.schema([("part_a", pa.int64()), ("x", pa.int64())])
    create_table(tmp_path / "t", columns, partition_by="part_a", properties=properties)
    with pytest.raises(InvalidArgumentError, match="keeps the names of its partition columns"):
        create_table(tmp_path / "t", other, partition_by="part_b", properties=properties, if_exists="replace")
    create_table(tmp_path / "t", wider, partition_by="part_a", properties=properties, if_exists="replace")
    table = DeltaTable(tmp_path / "t")
    assert str(table.schema) == "struct<part_a: long, x: long>"
    table.alter().rename("part_a", "part_c").commit()
    table.append(pa.table({"part_c": [1], "x": [2]}))


@pytest.mark.req("DL-ICOMP-09")
def test_both_versions_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="both active"):
        create_table(tmp_path / "t", ID, properties={**_V1, **_V2})
    table = create_table(tmp_path / "t", ID, properties=_V1)
    with pytest.raises(InvalidArgumentError, match="both active"):
        table.alter().set(_V2).commit()
    table.refresh().alter().set({**_V2, "delta.enableIcebergCompatV1": "false"}).commit()
    assert "icebergCompatV2" in table.active_features


@pytest.mark.req("DL-ICOMP-10", "DL-ICOMP-11", half="writer")
@pytest.mark.req("DL-ICOMP-12")
@pytest.mark.parametrize("mode", ["name", "id"])
def test_ids_of_elements_keys_and_values(tmp_path: Path, mode: str) -> None:
    inner = pa.struct([("subcol1", pa.list_(pa.int32()))])
    columns = pa.schema(
        [
            ("col1", pa.list_(pa.list_(pa.int32()))),
            ("col2", pa.map_(pa.int32(), pa.list_(pa.int32()))),
            ("col3", pa.map_(pa.int32(), inner)),
        ]
    )
    table = create_table(tmp_path / "t", columns, properties={**_V2, "delta.columnMapping.mode": mode})
    (metadata,) = named_actions(tmp_path / "t", 0, "metaData")
    first, second, third = json.loads(metadata["schemaString"])["fields"]
    nested = "delta.columnMapping.nested.ids"
    sub = third["type"]["valueType"]["fields"][0]
    names = [field["metadata"]["delta.columnMapping.physicalName"] for field in (first, second, third, sub)]
    wanted = [("element", "element.element"), ("key", "value", "value.element"), ("key", "value"), ("element",)]
    nested_ids = [field["metadata"][nested] for field in (first, second, third, sub)]
    assert [set(ids) for ids in nested_ids] == [
        {f"{name}.{path}" for path in paths} for name, paths in zip(names, wanted, strict=True)
    ]
    own = [field["metadata"]["delta.columnMapping.id"] for field in (first, second, third, sub)]
    every = [*own, *(number for ids in nested_ids for number in ids.values())]
    assert len(set(every)) == len(every) == 12
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == str(max(every))
    rows = pa.table(
        [[[[1, 2], None]], [[(1, [3])]], [[(1, {"subcol1": [4]})]]],
        schema=columns,
    )
    table.append(rows)
    assert table.scan().to_arrow().to_pylist() == rows.to_pylist()
    schema = pq.read_schema(_data_file(table))
    outer = schema.field(0).type.value_field
    pair = schema.field(1).type
    for field, key in (
        (outer, f"{names[0]}.element"),
        (outer.type.value_field, f"{names[0]}.element.element"),
        (pair.key_field, f"{names[1]}.key"),
        (pair.item_field, f"{names[1]}.value"),
        (pair.item_field.type.value_field, f"{names[1]}.value.element"),
    ):
        ids = nested_ids[0] if key.startswith(names[0]) else nested_ids[1]
        assert field.metadata[b"PARQUET:field_id"] == str(ids[key]).encode()
    # A column that comes later gets further ids, and the others keep theirs.
    table.alter().add("col4", pa.list_(pa.int8())).commit()
    (metadata,) = named_actions(tmp_path / "t", 2, "metaData")
    fields = json.loads(metadata["schemaString"])["fields"]
    assert [field["metadata"][nested] for field in fields[:3]] == nested_ids[:3]
    assert min(fields[3]["metadata"][nested].values()) > max(every)


@pytest.mark.req("DL-ICOMP-13")
@pytest.mark.req("DL-ICOMP-14")
def test_types_of_version_2(tmp_path: Path) -> None:
    kinds = {
        **{f"i{bits}": kind for bits, kind in ((8, pa.int8()), (16, pa.int16()), (32, pa.int32()), (64, pa.int64()))},
        "f": pa.float32(),
        "d": pa.float64(),
        "n": pa.decimal128(10, 2),
        "t": pa.string(),
        "b": pa.binary(),
        "o": pa.bool_(),
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "day": pa.date32(),
        "l": pa.list_(pa.int32()),
        "m": pa.map_(pa.string(), pa.int32()),
        "s": pa.struct([("x", pa.int32())]),
    }
    assert len(kinds) == 16
    rows = pa.table({name: pa.nulls(2, kind) for name, kind in kinds.items()})
    table = create_table(tmp_path / "t", rows.schema, properties=_V2)
    table.append(rows)
    schema = pq.ParquetFile(_data_file(table)).schema
    physical = table.schema.get("at").physical_name  # type: ignore[union-attr]
    (at,) = [schema.column(n) for n in range(len(schema.names)) if schema.column(n).path == physical]
    assert at.physical_type == "INT64"
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(at.logical_type)
    for kind in ("void", "variant"):
        wrong = Struct((Field("id", Primitive("long")), Field("c", Primitive(kind))))
        with pytest.raises(InvalidArgumentError, match=f"does not allow columns of the type {kind}"):
            create_table(tmp_path / "u", wrong, properties=_V2)


@_both
def test_types_are_widened_as_iceberg_does(tmp_path: Path, properties: dict[str, str]) -> None:
    kinds = {"i": pa.int32(), "f": pa.float32(), "d": pa.decimal128(4, 2), "day": pa.date32()}
    table = create_table(tmp_path / "t", pa.schema(kinds), properties=properties | {"delta.enableTypeWidening": "true"})
    changes = [
        ("day", pa.timestamp("us")),
        ("i", pa.float64()),
        ("d", pa.decimal128(6, 3)),
        ("i", pa.decimal128(20, 1)),
    ]
    for name, kind in changes:
        with pytest.raises(InvalidArgumentError, match="which Iceberg does not know"):
            table.alter().widen(name, kind).commit()
    table.alter().widen("i", pa.int64()).widen("f", pa.float64()).widen("d", pa.decimal128(9, 2)).commit()
    table.append(pa.table({"i": [1 << 40]}))
    assert DeltaTable(tmp_path / "t").scan().count() == 1
