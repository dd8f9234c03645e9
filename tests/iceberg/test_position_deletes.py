"""Position deletes: rows that are deleted by the path of their file and their position in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptDataFileError, SchemaError, SpecViolationError
from deltaberg.files.read.task import tasks_of
from deltaberg.table.read.scan import bound_scan
from deltaberg.table.read.sharing import grouped_tasks
from tests.iceberg.entries import added
from tests.support.iceberg_builder import PATH_ID, POS_ID, IcebergBuilder, IcebergFile
from tests.support.recorder import Recorder
from tests.support.roads import Road, by_every_road

_COLUMNS = {"id": "long", "s": "string"}
_ROW_ID = 2147483544
_DELETES = [
    {"id": PATH_ID, "name": "file_path", "required": True, "type": "string"},
    {"id": POS_ID, "name": "pos", "required": True, "type": "long"},
]


def _builder(tmp_path: Path, **options: Any) -> IcebergBuilder:
    return IcebergBuilder(tmp_path / "t", _COLUMNS, **options)


def _rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": number, "s": str(number)} for number in ids]


def _ids(builder: IcebergBuilder, condition: str | None = None, **options: Any) -> list[int]:
    scan = open_table(builder.root, "iceberg").scan(condition, ["id"], **options)
    return sorted(scan.to_arrow().column("id").to_pylist())


def _written(builder: IcebergBuilder, rows: list[dict[str, Any]] | pa.Table, fields: Any = None) -> IcebergFile:
    """Write a position delete file with rows as they are."""
    found = builder.data(rows, fields=fields or _DELETES)
    found.content = 1
    return found


@pytest.mark.req("ICE-DEL-01", half="reader")
@pytest.mark.parametrize("data_format", ["parquet", "avro", "orc"])
@pytest.mark.parametrize("delete_format", ["parquet", "avro", "orc"])
def test_formats(tmp_path: Path, data_format: str, delete_format: str) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(*range(6)), format=data_format)
    builder.commit(file)
    builder.commit(builder.position_deletes([(file, 1), (file, 4)], format=delete_format))
    rows = builder._manifests[builder.snapshots[-1]["snapshot-id"]]
    assert [row["content"] for row in rows] == [0, 1]
    assert _ids(builder) == [0, 2, 3, 5]


@pytest.mark.req("ICE-DEL-01", half="reader")
def test_all_formats_in_one_table(tmp_path: Path, road: Road) -> None:
    builder = _builder(tmp_path)
    formats = ["parquet", "avro", "orc"]
    files = [builder.data(_rows(*range(10 * at, 10 * at + 3)), format=kind) for at, kind in enumerate(formats)]
    builder.commit(*files)
    builder.commit(*[builder.position_deletes([(file, 1) for file in files], format=formats[at]) for at in range(3)])
    assert road.column(open_table(builder.root).scan(), "id") == [0, 2, 10, 12, 20, 22]


@by_every_road
@pytest.mark.req("ICE-DEL-02", half="reader")
@pytest.mark.parametrize("ids", [True, False])
def test_columns_are_found_by_their_reserved_ids(tmp_path: Path, ids: bool) -> None:
    """Columns are found by id, whatever their names are, and by name in a file without ids."""
    names = ["where", "which"] if ids else ["file_path", "pos"]
    fields = [child | {"name": name} for child, name in zip(_DELETES, names, strict=True)]
    builder = _builder(tmp_path)
    file = builder.data(_rows(1, 2))
    schema = [pa.field(names[0], pa.string()), pa.field(names[1], pa.int64())]
    if ids:
        schema = [
            child.with_metadata({"PARQUET:field_id": str(found["id"])})
            for child, found in zip(schema, fields, strict=True)
        ]
    table = pa.Table.from_pylist([dict(zip(names, (file.path, 0), strict=True))], pa.schema(schema[::-1]))
    builder.commit(file, _written(builder, table, fields))
    assert _ids(builder) == [2]


@by_every_road
@pytest.mark.req("ICE-DEL-02", half="reader")
@pytest.mark.parametrize("missing", [0, 1])
def test_a_column_that_is_missing(tmp_path: Path, missing: int) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(1, 2))
    fields = [child for number, child in enumerate(_DELETES) if number != missing]
    builder.commit(file, _written(builder, [{"file_path": file.path, "pos": 0}], fields))
    with pytest.raises(CorruptDataFileError, match=f"no column {_DELETES[missing]['name']}") as raised:
        _ids(builder)
    assert raised.value.context["delete_file"].endswith("00002.parquet")
    assert raised.value.context["file"].endswith("00001.parquet")


@by_every_road
@pytest.mark.req("ICE-DEL-03", half="reader")
@pytest.mark.parametrize(
    ("path", "applies"),
    [
        ("s3://b/t/data/{}", True),
        ("/b/t/data/{}", False),
        ("s3://b/t/data/x/../{}", False),
        ("b/t/data/{}", False),
        ("s3://b/u/data/{}", False),
        ("{}", False),
    ],
)
def test_paths_are_whole_uris(tmp_path: Path, path: str, applies: bool) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(1, 2))
    name = Path(file.path).name
    deletes = _written(builder, [{"file_path": path.format(name), "pos": 0}])
    file.path = f"s3://b/t/data/{name}"
    deletes.path = f"s3://b/t/data/{Path(deletes.path).name}"
    builder.commit(file, deletes)
    table = open_table(builder.root, location_map={"s3://b/t": str(builder.root)})
    assert table.scan(columns=["id"]).to_arrow().column("id").to_pylist() == ([2] if applies else [1, 2])


def test_paths_in_a_table_that_was_moved(tmp_path: Path, road: Road) -> None:
    """The location map applies to the paths in delete files, too, with all of its prefixes."""
    builder = _builder(tmp_path)
    file = builder.data(_rows(1, 2, 3))
    name = Path(file.path).name
    rows = [{"file_path": f"s3://b/t/data/{name}", "pos": 0}, {"file_path": f"hdfs://n/t/data/{name}", "pos": 1}]
    deletes = _written(builder, rows)
    file.path = f"s3://b/t/data/{name}"
    builder.commit(file, deletes)
    root = str(builder.root)
    table = open_table(root, location_map={"s3://b/t": root, "hdfs://n/t": root})
    assert road.column(table.scan(), "id") == [3]


@pytest.mark.req("ICE-DEL-04", half="reader")
@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
@pytest.mark.parametrize("options", [{}, {"split_size": 1}, {"batch_size": 2}, {"memory": 1 << 20}])
def test_positions_count_over_the_whole_file(tmp_path: Path, format: str, options: dict[str, int]) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(*range(10)), row_group_size=5, format=format)
    builder.commit(file, builder.position_deletes([(file, 7)]))
    expected = [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert _ids(builder, None, **options) == expected
    assert _ids(builder, "id >= 5", **options) == expected[5:]
    assert _ids(builder, "id = 7", **options) == []


@pytest.mark.req("ICE-DEL-04", half="reader")
def test_positions_with_row_groups_skipped(tmp_path: Path, road: Road) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(*range(10)), row_group_size=5)
    builder.commit(file, builder.position_deletes([(file, 7)]))
    scan = open_table(builder.root).scan("id >= 6")
    assert road.column(scan, "id") == [6, 8, 9]
    if road.spark is None:
        assert scan.metrics is not None
        assert scan.metrics.row_groups_skipped == 1


def test_rows_need_no_order(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    f1, f2 = builder.data(_rows(*range(10))), builder.data(_rows(20, 21))
    builder.commit(f1, f2)
    builder.commit(builder.position_deletes([(f2, 1), (f1, 9), (f1, 2)]))
    assert _ids(builder) == [0, 1, 3, 4, 5, 6, 7, 8, 20]


@by_every_road
@pytest.mark.req("ICE-DEL-06", half="reader")
def test_deleted_rows_may_be_kept(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(1, 2))
    row = {"type": "struct", "fields": builder.fields[::-1]}
    fields = [*_DELETES, {"id": _ROW_ID, "name": "row", "required": True, "type": row}]
    deletes = _written(builder, [{"file_path": file.path, "pos": 1, "row": {"id": 2, "s": "2"}}], fields)
    builder.commit(file, deletes)
    assert pq.read_table(deletes.path).column("row").to_pylist() == [{"s": "2", "id": 2}]
    assert _ids(builder) == [1]


@pytest.mark.req("ICE-DEL-07")
def test_what_is_deleted_twice_is_deleted_once(tmp_path: Path, road: Road) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(*range(5)))
    builder.commit(file, builder.position_deletes([(file, 3), (file, 3)]))
    builder.commit(builder.position_deletes([(file, 3)]))
    scan = open_table(builder.root).scan()
    assert road.column(scan, "id") == [0, 1, 2, 4]
    assert scan.count() == 4


@by_every_road
@pytest.mark.req("BEY-47")
def test_a_delete_file_that_names_its_data_file(tmp_path: Path, recorder: Recorder) -> None:
    """The delete file applies to no other data file, whatever it contains, and is not opened for one."""
    builder = _builder(tmp_path, specs=[[{"source-id": 2, "name": "s", "transform": "identity"}]])
    f1, f2 = (builder.data(_rows(number, 10 + number), partition={"s": "x"}) for number in (1, 2))
    deletes = builder.position_deletes([(f1, 0), (f2, 0)], referenced_data_file=f1.path)
    builder.commit(f1, f2, deletes)
    assert _ids(builder) == [2, 11, 12]
    for file in (f1, f2):
        file.metrics["lower_bounds"] = {1: int(file is f2).to_bytes(8, "little")}
        file.metrics["upper_bounds"] = {1: (99).to_bytes(8, "little") if file is f2 else (0).to_bytes(8, "little")}
    other = builder.manifest(added(f1, f2)), builder.manifest(added(deletes), 1)
    builder._manifests.clear()
    builder.commit(manifests=list(other))
    recorder.clear()
    assert _ids(builder, "id > 0") == [2, 12]
    assert Path(f2.path).name in recorder.read
    assert Path(deletes.path).name not in recorder.read


def _bounds(lower: str, upper: str) -> dict[str, Any]:
    return {"lower_bounds": {PATH_ID: lower.encode()}, "upper_bounds": {PATH_ID: upper.encode()}}


@by_every_road
@pytest.mark.req("BEY-47")
def test_bounds_that_name_one_data_file(tmp_path: Path, recorder: Recorder) -> None:
    """A delete file whose paths have equal bounds is opened for that data file only."""
    builder = _builder(tmp_path)
    files = [builder.data(_rows(*range(10 * at, 10 * at + 3))) for at in range(4)]
    own = [builder.position_deletes([(file, 1)], metrics=_bounds(file.path, file.path)) for file in files]
    builder.commit(*files, *own)
    scan = open_table(builder.root).scan(columns=["id"])
    tasks = [task for group in grouped_tasks(bound_scan(scan), 1) for task in tasks_of(group)]
    found = {task.location: [file.location for file in task.delete_files] for task in tasks}
    assert found == {file.path: [deletes.path] for file, deletes in zip(files, own, strict=True)}
    assert sorted(scan.to_arrow().column("id").to_pylist()) == [0, 2, 10, 12, 20, 22, 30, 32]
    assert {recorder.read.count(Path(deletes.path).name) for deletes in own} == {1}


@pytest.mark.parametrize("what", ["cut off", "apart", "another's", "not text", "lower alone"])
def test_bounds_that_name_no_data_file(tmp_path: Path, what: str) -> None:
    """A delete file applies to all data files of its partition, unless its bounds prove otherwise."""
    builder = _builder(tmp_path)
    files = [builder.data(_rows(*range(10 * at, 10 * at + 3))) for at in range(3)]
    deletes = builder.position_deletes([(files[0], 1), (files[1], 1)])
    cut = files[0].path[:16]
    deletes.metrics = {
        "cut off": _bounds(cut, cut),
        "apart": _bounds(files[0].path, files[1].path),
        "another's": _bounds(deletes.path, deletes.path),
        "not text": {"lower_bounds": {PATH_ID: b"\xff"}, "upper_bounds": {PATH_ID: b"\xff"}},
        "lower alone": {"lower_bounds": {PATH_ID: files[0].path.encode()}},
    }[what]
    builder.commit(*files, deletes)
    assert _ids(builder) == [0, 2, 10, 12, 20, 21, 22]


def test_bounds_do_not_reach_into_other_partitions(tmp_path: Path) -> None:
    """Bounds that name a data file do not take deletes beyond their partition, but ``referenced_data_file`` does."""
    builder = _builder(tmp_path, specs=[[{"source-id": 2, "name": "s", "transform": "identity"}]])
    file = builder.data(_rows(1, 2, 3), partition={"s": "x"})
    deletes = [builder.position_deletes([(file, at)], metrics=_bounds(file.path, file.path)) for at in (0, 2)]
    for found in deletes:
        found.partition = {"s": "y"}
    deletes[1].more["referenced_data_file"] = file.path
    builder.commit(file, *deletes)
    assert _ids(builder) == [1, 2]


def test_many_delete_files_for_many_data_files(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    files = [builder.data(_rows(*range(10 * number, 10 * number + 10))) for number in range(5)]
    builder.commit(*files)
    builder.commit(*[builder.position_deletes([(file, pos) for file in files]) for pos in (1, 5)])
    expected = [number for number in range(50) if number % 10 not in (1, 5)]
    assert _ids(builder) == expected
    table = open_table(builder.root)
    assert table.scan().count() == 40
    assert (table.scan().min("id"), table.scan().max("id")) == (0, 49)
    assert table.scan(columns=[]).to_arrow().num_rows == 40


@pytest.mark.parametrize("pos", [10, 1 << 31, 1 << 40, (1 << 62) + 3])
def test_positions_past_the_end_delete_nothing(tmp_path: Path, pos: int) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(*range(10)))
    builder.commit(file, builder.position_deletes([(file, pos), (file, 2)]))
    assert _ids(builder) == [0, 1, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("pos", [-1, -(1 << 63)])
def test_negative_positions_are_refused(tmp_path: Path, pos: int) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(1))
    builder.commit(file, builder.position_deletes([(file, pos)]))
    with pytest.raises(CorruptDataFileError, match=f"the position {pos}"):
        _ids(builder)


@pytest.mark.parametrize("row", [{"file_path": None, "pos": 0}, {"file_path": "x", "pos": None}])
def test_rows_without_a_path_or_a_position_delete_nothing(tmp_path: Path, row: dict[str, Any]) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(1, 2, 3))
    builder.commit(file, _written(builder, [row, {"file_path": file.path, "pos": 1}]))
    assert _ids(builder) == [1, 3]
    with pytest.raises(SpecViolationError, match=r"1 rows of the position delete file .* no path or no position"):
        open_table(builder.root, validate=True)


def test_a_position_that_is_text_is_refused(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(1))
    fields = [_DELETES[0], _DELETES[1] | {"type": "string"}]
    builder.commit(file, _written(builder, [{"file_path": file.path, "pos": "0"}], fields))
    with pytest.raises(SchemaError, match="the file stores string"):
        _ids(builder)
