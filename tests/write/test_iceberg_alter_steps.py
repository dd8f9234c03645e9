"""Several steps of one `alter()`, fields inside lists and maps, places of columns, and names of partition fields."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import create_table, open_table, write_table
from deltaberg.errors import ColumnNotFoundError, ConstraintViolationError, InvalidArgumentError, SchemaError
from deltaberg.iceberg import IcebergTable
from deltaberg.iceberg.alter.alter import altered_metadata
from deltaberg.iceberg.schema import schema
from deltaberg.schema.types import Field
from tests.write.small_iceberg import as_pyiceberg_reads

pytestmark = pytest.mark.one_backend

_ROWS = pa.table({"id": [1, 2], "s": ["a", "b"]})


def _new(root: Path, columns: pa.Schema | None = None, **more: Any) -> IcebergTable:
    table: IcebergTable = create_table(root, columns or _ROWS.schema, format="iceberg", **more)
    return table


def _names(table: IcebergTable) -> list[str]:
    return [part.name for part in table.metadata.specs[table.metadata.default_spec_id].fields]


def test_all_steps_are_one_schema(tmp_path: Path) -> None:
    table = _new(tmp_path / "t")
    table.append(_ROWS)
    change = table.alter()
    for number in range(40):
        change.add(f"c{number}", pa.int64())
    change.rename("s", "t").drop("c3").move("c5", first=True).set({"a": "b"}).rename("c7", "d7").commit()
    # A property stands between the last two steps, so that they are two schemas.
    assert len(table.metadata.schemas) == 3
    names = [child.name for child in table.metadata.current_schema.struct]
    assert (names[0], names[1:3], "c3" in names, "d7" in names) == ("c5", ["id", "t"], False, True)
    assert table.metadata.last_column_id == 42
    assert table.scan(columns=["id", "t"]).to_arrow().to_pylist() == [{"id": 1, "t": "a"}, {"id": 2, "t": "b"}]


@pytest.mark.parametrize(
    "change",
    [
        lambda steps, name: steps.add(f"more_{name}", pa.int64(), default=1),
        lambda steps, name: steps.add(f"s.more_{name}", pa.int64()),
        lambda steps, name: steps.rename(name, f"new_{name}"),
        lambda steps, name: steps.drop(name),
    ],
)
def test_a_step_looks_at_no_column_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any, str], object]
) -> None:
    """Metadata writes all columns out and reads them again, which many steps do together."""
    seen, spent = 0, []
    encoded = schema._encoded_field

    def counted(child: Field) -> dict[str, Any]:
        nonlocal seen
        seen += 1
        return encoded(child)

    monkeypatch.setattr(schema, "_encoded_field", counted)
    for count in (20, 40):
        names = [f"c{number}" for number in range(count)]
        nested = pa.struct([(name, pa.int64()) for name in names])
        columns = pa.schema([("id", pa.int64()), ("s", nested), *((name, pa.int64()) for name in names)])
        own: dict[str, Any] = {"partition_by": "id", "properties": {"format-version": "3"}}
        table = _new(tmp_path / str(count), columns, **own)
        seen, steps = 0, table.alter()
        for name in names:
            change(steps, name)
        steps.commit()
        spent.append(seen)
        assert len(table.metadata.schemas) == 2
    assert spent[1] < 3 * spent[0]


def test_metadata_has_the_steps_before_it(tmp_path: Path) -> None:
    table = _new(tmp_path / "t")
    change = table.alter().add("x", pa.int64()).rename("s", "t")
    assert altered_metadata(change).current_schema.struct.names == ["id", "t", "x"]
    change.add("y", pa.int64()).partition_by("y").rename("y", "z").sort_by("z").identify_by().drop("x")
    with pytest.raises(SchemaError, match="the column z cannot be removed"):
        change.drop("t", "z")
    with pytest.raises(ColumnNotFoundError, match="no column 'nothing'"):
        change.drop("t", "nothing")
    change.drop("t").undrop("t", "x").commit()
    assert table.schema.names == ["id", "t", "x", "z"]
    assert [child.id for child in table.metadata.current_schema.struct] == [1, 2, 3, 4]


def test_steps_that_cancel_out_change_nothing(tmp_path: Path) -> None:
    table = _new(tmp_path / "t")
    table.alter().add("x", pa.int64()).drop("x").commit()
    assert len(table.metadata.schemas) == 1
    table.alter().add("y", pa.string()).commit()
    # No file has the id of the column that never was.
    assert table.metadata.current_schema.struct.fields[-1].id == 3


def test_a_step_that_fails_leaves_those_before_it(tmp_path: Path) -> None:
    table = _new(tmp_path / "t", partition_by="s")
    change = table.alter().add("x", pa.int64())
    with pytest.raises(SchemaError, match="the partition field 's' is made from it"):
        change.drop("s")
    change.add("y", pa.int64()).commit()
    assert [child.name for child in table.metadata.current_schema.struct] == ["id", "s", "x", "y"]
    assert len(table.metadata.schemas) == 2


def test_columns_of_written_files_keep_their_ids(tmp_path: Path) -> None:
    table = _new(tmp_path / "t")
    with table.transaction() as transaction:
        change = transaction.alter().add("x", pa.int64())
        transaction.append(pa.table({"id": [3], "s": ["c"], "x": [7]}))
        change.drop("x").add("y", pa.int64())
    # The file holds values of x under its id, which y must not have.
    assert [(child.name, child.id) for child in table.metadata.current_schema.struct][2:] == [("y", 4)]
    assert table.scan().to_arrow().to_pylist() == [{"id": 3, "s": "c", "y": None}]


def test_a_name_mapping_follows_all_steps(tmp_path: Path) -> None:
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["s"]}]'
    table = _new(tmp_path / "t", properties={"schema.name-mapping.default": mapping})
    table.alter().add("x", pa.int64()).rename("s", "t").add("y", pa.int64()).commit()
    known = table.metadata.name_mapping
    assert known is not None
    found = {name: entry.id for name in ("id", "s", "t", "x", "y") if (entry := known.find(name)) is not None}
    assert found == {"id": 1, "s": 2, "t": 2, "x": 3, "y": 4}
    assert len(table.metadata.schemas) == 2


def test_replaced_tables_keep_the_ids_of_columns(tmp_path: Path) -> None:
    inner = pa.struct([("a", pa.int32()), ("b", pa.string())])
    columns = pa.schema([("id", pa.int32()), ("s", pa.string()), ("n", inner), ("l", pa.list_(inner)), ("gone", inner)])
    table = _new(tmp_path / "t", columns)
    rows = [{"id": 1, "s": "a", "n": {"a": 1, "b": "x"}, "l": [{"a": 2, "b": "y"}], "gone": {"a": 0, "b": ""}}]
    first = table.append(pa.Table.from_pylist(rows, columns)).snapshot_id
    table.alter().create_branch("audit").commit()
    wider = pa.struct([("b", pa.string()), ("a", pa.int64()), ("c", pa.bool_())])
    new = pa.schema([("l", pa.list_(wider)), ("id", pa.int64()), ("s", pa.int64()), ("n", wider), ("new", pa.int64())])
    replaced = create_table(tmp_path / "t", new, format="iceberg", if_exists="replace")
    assert replaced.scan().count() == 0
    # The text s cannot be read as numbers, so that it is another column.
    expected = {
        "l": [{"b": "y", "a": 2, "c": None}],
        "id": 1,
        "s": None,
        "n": {"b": "x", "a": 1, "c": None},
        "new": None,
    }
    branch = open_table(tmp_path / "t", "iceberg", ref="audit")
    assert branch.scan().to_arrow().to_pylist() == [expected]
    replaced.alter().set_current_snapshot(first).commit()
    assert replaced.scan().to_arrow().to_pylist() == [expected]
    assert as_pyiceberg_reads(replaced) == [expected]


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_tables_replaced_by_equal_ones_keep_their_schema(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path / "t", properties={"format-version": version}, partition_by="s")
    table.append(_ROWS)
    table.alter().create_branch("audit").commit()
    before = table.metadata.current_schema
    replaced = create_table(tmp_path / "t", _ROWS.schema, format="iceberg", if_exists="replace", partition_by="s")
    assert replaced.metadata.current_schema.struct == before.struct
    assert replaced.metadata.format_version == int(version)
    rows = open_table(tmp_path / "t", "iceberg", ref="audit").scan().to_arrow().sort_by("id")
    assert rows.to_pylist() == _ROWS.to_pylist()


def test_replacing_never_lowers_the_format_version(tmp_path: Path) -> None:
    _new(tmp_path / "t", properties={"format-version": "3"})
    with pytest.raises(ConstraintViolationError, match="the format version 3, which cannot be lowered to 1"):
        _new(tmp_path / "t", if_exists="replace", properties={"format-version": "1"})


def test_initial_defaults_stay_with_their_columns(tmp_path: Path) -> None:
    table = _new(tmp_path / "t", properties={"format-version": "3"})
    table.append(_ROWS)
    table.alter().add("n", pa.int64(), default=7).create_branch("audit").commit()
    columns = _ROWS.schema.append(pa.field("n", pa.int64()))
    create_table(tmp_path / "t", columns, format="iceberg", if_exists="replace")
    assert open_table(tmp_path / "t", "iceberg", ref="audit").scan(columns=["n"]).to_arrow()["n"].to_pylist() == [7, 7]


def test_fields_inside_lists_and_maps_change(tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False))
    narrow = pa.list_(pa.field("element", pa.float32(), nullable=False))
    columns = pa.schema([("id", pa.int64()), ("m", kind), ("l", narrow)])
    table = _new(tmp_path / "t", columns)
    table.append(pa.Table.from_pylist([{"id": 1, "m": [("a", 1)], "l": [0.5]}], columns))
    change = table.alter().widen("m.value", pa.int64()).widen("l.element", pa.float64())
    change.drop_not_null("m.value").drop_not_null("l.element").commit()
    wide = pa.schema([("id", pa.int64()), ("m", pa.map_(pa.string(), pa.int64())), ("l", pa.list_(pa.float64()))])
    table.append(pa.Table.from_pylist([{"id": 2, "m": [("b", None)], "l": [None, 1 / 3]}], wide))
    got = table.scan().to_arrow().sort_by("id").to_pylist()
    assert got == [{"id": 1, "m": [("a", 1)], "l": [0.5]}, {"id": 2, "m": [("b", None)], "l": [None, 1 / 3]}]
    assert as_pyiceberg_reads(table) == got
    assert table.metadata.raw["schemas"][-1]["fields"][2]["type"]["element-required"] is False
    with pytest.raises(SchemaError, match="the keys of a map cannot be changed"):
        table.alter().widen("m.key", pa.large_string())
    with pytest.raises(ColumnNotFoundError, match=r"there is no column 'l\.value'"):
        table.alter().widen("l.value", pa.float64())
    with pytest.raises(ColumnNotFoundError, match=r"there is no column 'm\.element'"):
        table.alter().add("m.element.x", pa.int64())
    with pytest.raises(SchemaError, match="only columns and fields of structs have names"):
        table.alter().rename("l.element", "x")


def test_structs_keep_a_field(tmp_path: Path) -> None:
    table = _new(tmp_path / "t", pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())]))]))
    with pytest.raises(SchemaError, match="a struct cannot lose its last field") as caught:
        table.alter().drop("s.a")
    assert caught.value.hint == "drop the struct itself"
    with pytest.raises(SchemaError, match="a table cannot lose its last column"):
        table.alter().drop("id", "s")


def test_columns_move_before_others(tmp_path: Path) -> None:
    table = _new(tmp_path / "t", pa.schema([(name, pa.int64()) for name in "abc"]))
    table.alter().move("c", before="b").add("d", pa.int64(), before="a").move("a", after="b").commit()
    assert [child.name for child in table.metadata.current_schema.struct] == ["d", "c", "b", "a"]
    with pytest.raises(InvalidArgumentError, match="a column cannot be moved next to itself"):
        table.alter().move("a", after="a")
    with pytest.raises(InvalidArgumentError, match="a column cannot be moved next to itself"):
        table.alter().move("a", before="A")
    with pytest.raises(InvalidArgumentError, match="exclude each other"):
        table.alter().move("a", before="b", first=True)
    with pytest.raises(InvalidArgumentError, match="behind or before another one"):
        table.alter().move("a")


def test_partition_fields_of_all_specs_have_names_of_their_own(tmp_path: Path) -> None:
    table = _new(tmp_path / "t", partition_by="bucket(4, id)")
    assert _names(table) == ["id_bucket"]
    table.alter().partition_by("bucket(8, id)", "truncate(2, s)").commit()
    assert _names(table) == ["id_bucket_8", "s_trunc_2"]
    table.alter().partition_by("bucket(4, id)", "s").commit()
    # The field that was there before is the same one again.
    spec = table.metadata.specs[table.metadata.default_spec_id]
    assert [(part.name, part.field_id) for part in spec.fields] == [("id_bucket", 1000), ("s", 1003)]
    names = [part.name for known in table.metadata.specs.values() for part in known.fields]
    assert len(set(names)) == len(names) - 1
    table.append(_ROWS)
    assert table.inspect("files").num_rows == 2


def test_partition_fields_get_given_names(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("s", pa.string()), ("s_trunc", pa.string())])
    given = ["bucket(8, id) as shard", "bucket(4, id)", "truncate(2, s) AS prefix"]
    table = _new(tmp_path / "t", columns, partition_by=given)
    assert _names(table) == ["shard", "id_bucket", "prefix"]
    table.append(pa.table({"id": [1], "s": ["abc"], "s_trunc": ["x"]}))
    (partition,) = table.inspect("files")["partition"].to_pylist()
    assert partition["prefix"] == "ab"
    # A field that is there gets another name, and keeps its id.
    table.alter().partition_by("bucket(8, id) as part", "truncate(2, s)").commit()
    spec = table.metadata.specs[table.metadata.default_spec_id]
    assert [(part.name, part.field_id) for part in spec.fields] == [("part", 1000), ("prefix", 1002)]
    with pytest.raises(SchemaError, match="'id_bucket' is that of another partition field"):
        table.alter().partition_by("bucket(2, id) as id_bucket")
    with pytest.raises(SchemaError, match="has the name of another column") as caught:
        _new(tmp_path / "other", columns, partition_by="truncate(2, s)")
    assert caught.value.hint == "give it another name, as in 'bucket(16, id) as shard'"


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_columns_do_not_get_the_names_of_partition_fields(tmp_path: Path, version: str) -> None:
    """iceberg-java could not load the table, not even if only an older spec has the field."""
    nested = pa.struct([("q", pa.int64())])
    columns = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("y", pa.string()), ("s", nested)])
    given = ["bucket(4, id)", "y", "s.q"]
    table = _new(tmp_path / "t", columns, properties={"format-version": version}, partition_by=given)
    for _ in ("a field of the current spec", "a field of an older one"):
        for change in (
            lambda: table.alter().add("id_bucket", pa.int64()),
            lambda: table.alter().rename("x", "id_bucket"),
            lambda: table.alter().rename("id", "id_bucket"),
            lambda: table.alter().rename("y", "z").add("y", pa.string()),
            lambda: table.alter().rename("s", "r").add("s", nested),
            lambda: table.append(pa.table({"id": [1], "id_bucket": [1]}), schema_mode="merge"),
            lambda: _new(tmp_path / "t", columns.append(pa.field("id_bucket", pa.int64())), if_exists="replace"),
        ):
            with pytest.raises(SchemaError, match="is that of a partition field whose values are not those") as caught:
                change()
            assert str(caught.value.hint).startswith("choose another name")
        table.alter().partition_by().commit()
    assert (table.schema.names, len(table.metadata.schemas)) == (columns.names, 1)
    # The values of these fields are those of the column, or nobody can confuse them with those of a column any more.
    table.alter().rename("y", "z").rename("z", "y").drop("id").add("id_bucket", pa.int64()).commit()
    assert table.schema.names == ["x", "y", "s", "id_bucket"]


def test_tables_in_which_columns_are_named_as_partition_fields_are_mended(tmp_path: Path) -> None:
    """Other writers make such tables, which are read and changed as others are."""
    table = _new(tmp_path / "t", pa.schema([("id", pa.int64()), ("x", pa.int64())]), partition_by="bucket(4, id)")
    table.append(pa.table({"id": [1], "x": [2]}))
    path = Path(table.metadata_location.removeprefix("file://"))
    path.write_text(path.read_text().replace('"name":"x"', '"name":"id_bucket"'))
    table = open_table(tmp_path / "t", "iceberg")
    assert table.scan("id_bucket = 2").to_arrow().to_pylist() == [{"id": 1, "id_bucket": 2}]
    table.alter().add("n", pa.int64()).commit()
    table.append(pa.table({"id": [2], "id_bucket": [3], "n": [4]}))
    table.alter().rename("id_bucket", "x").commit()
    with pytest.raises(SchemaError, match="'id_bucket' is that of a partition field"):
        table.alter().rename("x", "id_bucket")
    assert table.scan("x = 3").to_arrow().to_pylist() == [{"id": 2, "x": 3, "n": 4}]


def test_void_fields_give_way_to_columns(tmp_path: Path) -> None:
    """The fields that version 1 keeps must not have the name of a column that came for another one."""
    table = _new(tmp_path / "t", properties={"format-version": "1"}, partition_by="s")
    table.append(_ROWS)
    replaced = create_table(tmp_path / "t", {"id": pa.int64(), "s": pa.int64()}, format="iceberg", if_exists="replace")
    assert _names(replaced) == ["s_1000"]
    replaced.append(pa.table({"id": [1], "s": [2]}))
    assert as_pyiceberg_reads(replaced) == [{"id": 1, "s": 2}]


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_partition_fields_are_not_named_twice(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path / "t", properties={"format-version": version})
    with pytest.raises(SchemaError, match="used twice"):
        table.alter().partition_by("s", "s")


def test_the_width_of_a_partitioning_is_compared(tmp_path: Path) -> None:
    table = _new(tmp_path / "t", partition_by="bucket(4, id)")
    table.alter().partition_by("bucket(8, id)").commit()
    write_table(tmp_path / "t", _ROWS, format="iceberg", mode="append", partition_by="bucket(8, id)")
    message = r"partitioned by id_bucket_8 \(bucket\[8\]\), but id_bucket \(bucket\[4\]\)"
    with pytest.raises(InvalidArgumentError, match=message):
        write_table(tmp_path / "t", _ROWS, format="iceberg", mode="append", partition_by="bucket(4, id)")


def test_lz4_raw_is_a_codec_of_parquet(tmp_path: Path) -> None:
    table = _new(tmp_path / "t", properties={"write.parquet.compression-codec": "lz4_raw"})
    table.append(_ROWS)
    assert table.scan().count() == 2
    with pytest.raises(InvalidArgumentError, match="not a codec of ORC files"):
        table.alter().set({"write.format.default": "orc", "write.orc.compression-codec": "lz4_raw"})


def test_levels_of_manifests_are_checked(tmp_path: Path) -> None:
    table = _new(tmp_path / "t")
    with pytest.raises(InvalidArgumentError, match=r"write\.avro\.compression-level must be .*'junk'") as caught:
        table.alter().set({"write.avro.compression-level": "junk"})
    assert "must be a whole number of 1 to 9, the levels of gzip" in caught.value.message
    table.alter().set({"write.avro.compression-level": "9"}).commit()
    table.append(_ROWS)
    assert table.scan().count() == 2


def test_each_file_is_added_once(tmp_path: Path) -> None:
    pq.write_table(_ROWS, tmp_path / "a.parquet")
    table = _new(tmp_path / "t")
    with pytest.raises(InvalidArgumentError, match="pass every file once"):
        table.add_files([str(tmp_path / "a.parquet"), f"file://{tmp_path}/a.parquet"])
    table.add_files([str(tmp_path / "a.parquet")])
    with pytest.raises(InvalidArgumentError, match="pass every file once"):
        table.add_files([str(tmp_path / "a.parquet")])
    assert table.scan().count() == 2
