"""What a scan reports about its files, as an Arrow table and as an explanation, and the checkpoint of a table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.schema.columns import join_name, split_name
from deltaberg.table.read.plan import split_files
from deltaberg.table.read.scan import bound_scan
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids

_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct([("x.y", pa.string()), ("n", pa.int32())])),
        ("list", pa.list_(pa.int64())),
        ("part", pa.int32()),
    ]
)
_STATS = {
    "numRecords": 2,
    "minValues": {"id": 1, "s": {"x.y": "a", "n": -5}},
    "maxValues": {"id": 2, "s": {"x.y": "b"}},
    "nullCount": {"id": 0, "s": {"x.y": 1, "n": 0}, "list": 2},
}


@pytest.fixture
def described(builder: DeltaBuilder) -> DeltaBuilder:
    """Two files, one with statistics and one with a deletion vector."""
    rows = pa.table({"id": [1, 2]}, schema=pa.schema([("id", pa.int64())]))
    one = builder.add(rows, path="one", partition={"part": "1"}, stats=_STATS)
    two = builder.add(rows, path="two", partition={"part": "2"}, vector=builder.vector([1]))
    builder.create(_SCHEMA, one, two, partition_by=["part"], protocol=builder.features("deletionVectors"))
    return builder


def test_statistics_have_a_field_for_each_column(described: DeltaBuilder) -> None:
    files = open_table(described.root).scan().files(statistics=True)
    ordered = [("id", pa.int64()), ("s.`x.y`", pa.string()), ("s.n", pa.int32())]
    assert files.schema.field("lower_bounds").type == pa.struct(ordered)
    assert files.schema.field("upper_bounds").type == pa.struct(ordered)
    counted = ["id", "s.`x.y`", "s.n", "list"]
    assert files.schema.field("null_value_counts").type == pa.struct([(name, pa.int64()) for name in counted])
    by_name = {row["file_path"].rpartition("/")[2]: row for row in files.to_pylist()}
    assert by_name["one"]["lower_bounds"] == {"id": 1, "s.`x.y`": "a", "s.n": -5}
    assert by_name["one"]["upper_bounds"] == {"id": 2, "s.`x.y`": "b", "s.n": None}
    assert by_name["one"]["null_value_counts"] == {"id": 0, "s.`x.y`": 1, "s.n": 0, "list": 2}
    assert set(by_name["two"]["upper_bounds"].values()) == {None}
    assert set(by_name["two"]["null_value_counts"].values()) == {None}


def test_statistics_are_those_of_the_scanned_columns_and_files(described: DeltaBuilder) -> None:
    table = open_table(described.root)
    (row,) = table.scan("part = 1", ["s.n", "part"]).files(statistics=True).to_pylist()
    assert row["lower_bounds"] == {"s.n": -5}
    assert table.scan("part = 1", ["part"]).files(statistics=True)["null_value_counts"].to_pylist() == [{}]
    assert table.scan("part = 3").files(statistics=True).num_rows == 0


def test_a_deletion_vector_has_a_place(described: DeltaBuilder) -> None:
    files = open_table(described.root).scan().files()
    vectors = {row["file_path"].rpartition("/")[2]: row["deletion_vector"] for row in files.to_pylist()}
    (stored,) = described.root.glob("*.bin")
    assert vectors["one"] is None
    # A byte for the version, four for the length and four for the checksum stand around the bitmap.
    size = stored.stat().st_size - 9
    assert vectors["two"] == {"file_path": str(stored), "offset": 1, "size_in_bytes": size, "cardinality": 1}


def test_a_deletion_vector_in_the_log_has_no_file(builder: DeltaBuilder) -> None:
    vector = builder.vector([0, 2], "i")
    builder.create(ID, builder.add(ids(1, 2, 3), vector=vector), protocol=builder.features("deletionVectors"))
    (found,) = open_table(builder.root).scan().files()["deletion_vector"].to_pylist()
    assert found == {"file_path": None, "offset": None, "size_in_bytes": vector["sizeInBytes"], "cardinality": 2}


def test_an_explanation_has_the_numbers_of_the_text(described: DeltaBuilder) -> None:
    scan = open_table(described.root).scan("part <= 2 and id < 2", ["id"], split_size=100)
    explanation = scan.explanation()
    assert [(step.name, step.files) for step in explanation.steps] == [
        ("files", 2),
        ("partition values", 2),
        ("statistics", 2),
    ]
    assert (explanation.columns, explanation.constants) == (("id",), ("part",))
    assert (explanation.residual_files, explanation.deletion_vectors, explanation.deleted_rows, explanation.limit) == (
        2,
        1,
        1,
        None,
    )
    sizes = scan.files()["file_size_in_bytes"].to_pylist()
    tasks = split_files(bound_scan(scan).plan, 100, bound_scan(scan).constants)
    assert explanation.tasks == sum(-(-size // 100) for size in sizes) == tasks.num_rows
    assert f"  tasks:                 {explanation.tasks}\n" in str(explanation)
    assert scan.explain() == str(explanation)


@pytest.mark.parametrize("path", [("a",), ("a.b", "c"), ("a`b",), ("a,b", "`"), (".",)])
def test_joined_names_split_into_their_parts(path: tuple[str, ...]) -> None:
    assert split_name(join_name(path)) == path


@pytest.mark.parametrize(
    ("options", "kind", "count"), [({}, "classic", 1), ({"kind": "multipart", "parts": 2}, "multipart", 2)]
)
def test_a_table_names_its_checkpoint(builder: DeltaBuilder, options: dict[str, object], kind: str, count: int) -> None:
    builder.create(ID, builder.add(ids(0)))
    assert open_table(builder.root, "delta").base_checkpoint is None
    builder.commit(builder.add(ids(1)))
    written = builder.checkpoint(**options)  # type: ignore[arg-type]
    table = open_table(builder.root, "delta")
    assert table.base_checkpoint is not None
    assert (table.base_checkpoint.version, table.base_checkpoint.kind) == (1, kind)
    assert list(table.base_checkpoint.files) == sorted(path.name for path in written)
    assert table.base_checkpoint.size == sum(path.stat().st_size for path in written)
    assert len(written) == count
    builder.commit(builder.add(ids(2)))
    assert table.refresh().base_checkpoint == open_table(builder.root, "delta").base_checkpoint
    assert open_table(builder.root, "delta", version=0).base_checkpoint is None


def test_a_damaged_checkpoint_is_not_the_one_that_was_read(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(0)))
    builder.checkpoint()
    builder.commit(builder.add(ids(1)))
    (damaged,) = builder.checkpoint()
    damaged.write_bytes(b"PAR1")
    found = open_table(builder.root, "delta").base_checkpoint
    assert found is not None
    assert found.version == 0
