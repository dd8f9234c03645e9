"""Manifest lists: what they say about manifests, and which manifests a reader does not have to open."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptAvroError, CorruptMetadataError, SpecViolationError
from tests.iceberg.entries import added, entry, latest_list, list_rows, rewrite_avro
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.recorder import Recorder
from tests.support.roads import by_every_road

_COUNTS = ("added_files_count", "existing_files_count", "deleted_files_count")
_ROW_COUNTS = ("added_rows_count", "existing_rows_count", "deleted_rows_count")


def _builder(tmp_path: Path, **options: Any) -> IcebergBuilder:
    return IcebergBuilder(tmp_path / "t", {"id": "long", "s": "string"}, **options)


def _rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": number, "s": str(number)} for number in ids]


def _ids(builder: IcebergBuilder, condition: str | None = None) -> list[int]:
    return sorted(open_table(builder.root).scan(condition, ["id"]).to_arrow().column("id").to_pylist())


def _say(builder: IcebergBuilder, values: dict[str, Any]) -> None:
    """Change what the list says about its manifests."""
    rewrite_avro(latest_list(builder), record=lambda row: row.update(values))


def _without(*numbers: int) -> Any:
    def change(schema: dict[str, Any]) -> None:
        schema["fields"] = [child for child in schema["fields"] if child["field-id"] not in numbers]

    return change


@by_every_road
@pytest.mark.req("ICE-ML-01", half="reader")
def test_fields_are_found_by_id(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    builder.commit(builder.data(_rows(1, 2)))
    before = list_rows(builder)

    def rename(schema: dict[str, Any]) -> None:
        schema["fields"].reverse()
        for child in schema["fields"]:
            child["name"] = _renamed(child["name"])

    def moved(row: dict[str, Any]) -> None:
        for name in list(row):
            row[_renamed(name)] = row.pop(name)

    rewrite_avro(latest_list(builder), schema=rename, record=moved)
    assert list_rows(builder) == before
    assert before[0]["added_files_count"] == 1
    assert _ids(builder) == [1, 2]


def _renamed(name: str) -> str:
    return name.replace("_files_count", "_data_files_count") if name.endswith("_files_count") else name + "_"


@by_every_road
@pytest.mark.req("ICE-ML-03", half="reader")
@pytest.mark.parametrize("number", [500, 501, 502])
def test_required_fields(tmp_path: Path, number: int) -> None:
    builder = _builder(tmp_path)
    builder.commit(builder.data(_rows(1)))
    rewrite_avro(latest_list(builder), schema=_without(number))
    with pytest.raises(CorruptAvroError, match=f"id {number}"):
        _ids(builder)


@by_every_road
@pytest.mark.req("ICE-ML-03", half="reader")
@pytest.mark.parametrize("content", [0, 1])
@pytest.mark.parametrize("condition", [None, "id = 1"])
def test_an_unknown_spec(tmp_path: Path, condition: str | None, content: int) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(1))
    mine = builder.position_deletes([(file, 0)]) if content else file
    manifest = builder.manifest(added(mine), content, partition_spec_id=5)
    builder.commit(*([file] if content else []), manifests=[manifest])
    with pytest.raises(CorruptMetadataError, match="partition spec 5, which the table does not have"):
        _ids(builder, condition)


@by_every_road
@pytest.mark.req("ICE-ML-03", half="reader")
def test_the_length_of_a_manifest(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    number = builder.commit(builder.data(_rows(1)))
    path = Path(list_rows(builder)[0]["manifest_path"])
    found = list_rows(builder)[0]
    assert found["manifest_length"] == path.stat().st_size
    assert (found["partition_spec_id"], found["added_snapshot_id"]) == (0, number)
    open_table(builder.root, validate=True)
    rewrite_avro(latest_list(builder), record=lambda row: row.update(manifest_length=7))
    assert _ids(builder) == [1]
    with pytest.raises(SpecViolationError, match=f"manifest_length of {path} is 7, but it has "):
        open_table(builder.root, validate=True)


@by_every_road
@pytest.mark.req("ICE-ML-04", half="reader")
def test_numbers_of_version_1_are_0(tmp_path: Path) -> None:
    builder = _builder(tmp_path, format_version=1)
    builder.commit(builder.data(_rows(1)))
    found = list_rows(builder)[0]
    assert [found[name] for name in ("content", "sequence_number", "min_sequence_number")] == [0, 0, 0]
    assert _ids(builder) == [1]


@by_every_road
@pytest.mark.req("ICE-ML-04", half="reader")
def test_numbers_of_version_2(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(1, 2))
    builder.commit(file, sequence=3)
    builder.commit(builder.position_deletes([(file, 1)]), sequence=4)
    names = ("content", "sequence_number", "min_sequence_number")
    assert [[row[name] for name in names] for row in list_rows(builder)] == [[0, 3, 3], [1, 4, 4]]
    assert _ids(builder) == [1]


@by_every_road
@pytest.mark.req("ICE-ML-04", half="reader")
@pytest.mark.parametrize("content", [2, -1])
def test_no_other_content(tmp_path: Path, content: int) -> None:
    builder = _builder(tmp_path)
    builder.commit(manifests=[builder.manifest(added(builder.data(_rows(1))), content=0) | {"content": content}])
    with pytest.raises(CorruptMetadataError, match="neither data files nor delete files") as raised:
        _ids(builder)
    assert raised.value.context["file"] == str(latest_list(builder))


@pytest.mark.req("ICE-ML-05", half="reader")
@pytest.mark.req("ICE-ML-06", half="reader")
def test_counts(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    files = [builder.data(_rows(*range(number + 1))) for number in range(4)]
    states = [1, 1, 0, 2]
    entries = [entry(file, status, 1, 1) for file, status in zip(files, states, strict=True)]
    builder.commit(manifests=[builder.manifest(entries)])
    found = list_rows(builder)[0]
    assert [found[name] for name in _COUNTS] == [2, 1, 1]
    assert [found[name] for name in _ROW_COUNTS] == [3, 3, 4]
    assert open_table(builder.root, validate=True).scan().explanation().steps[0].files == 3
    for name, told in (*zip(_COUNTS, (2, 1, 1), strict=True), *zip(_ROW_COUNTS, (3, 3, 4), strict=True)):
        _say(builder, {name: told + 1})
        with pytest.raises(SpecViolationError, match=f"{name} of .* is {told + 1}, but the manifest has {told}"):
            open_table(builder.root, validate=True)
        _say(builder, {name: told})


@by_every_road
@pytest.mark.req("ICE-ML-05", half="reader")
@pytest.mark.req("ICE-ML-06", half="reader")
@pytest.mark.parametrize("how", ["null", "missing"])
def test_unknown_counts_are_not_zero(tmp_path: Path, how: str) -> None:
    builder = _builder(tmp_path)
    builder.commit(builder.data(_rows(1)))
    names = dict.fromkeys((*_COUNTS, *_ROW_COUNTS))

    def unknown(schema: dict[str, Any]) -> None:
        for child in schema["fields"]:
            if child["name"] in names:
                child["type"] = ["null", child["type"]]

    if how == "null":
        rewrite_avro(latest_list(builder), schema=unknown, record=lambda row: row.update(names))
    else:
        rewrite_avro(latest_list(builder), schema=_without(504, 505, 506, 512, 513, 514))
    assert [list_rows(builder)[0][name] for name in names] == [None] * 6
    assert _ids(builder) == [1]
    assert _ids(builder, "id = 1") == [1]


def _summary(lower: bytes | None, upper: bytes | None, null: bool = False, nan: bool | None = None) -> dict[str, Any]:
    return {"contains_null": null, "contains_nan": nan, "lower_bound": lower, "upper_bound": upper}


def _partitioned(tmp_path: Path, kind: str, transform: str, summary: Any, partition: Any) -> IcebergBuilder:
    spec = [{"source-id": 1, "name": "p", "transform": transform}]
    builder = IcebergBuilder(tmp_path / "t", {"v": kind}, specs=[spec])
    file = builder.data([{"v": None}], partition={"p": partition})
    builder.commit(manifests=[builder.manifest(added(file), partitions=summary)])
    return builder


def _opens(builder: IcebergBuilder, recorder: Recorder, condition: str) -> bool:
    """Return whether a scan opens the manifest."""
    table = open_table(builder.root)
    recorder.clear()
    table.scan(condition).files()
    return any(name.startswith("m") for name in recorder.read)


_INT, _LONG = "<i", "<q"


@by_every_road
@pytest.mark.req("ICE-ML-08", half="reader")
@pytest.mark.parametrize(
    ("condition", "opened"),
    [
        ("v < '2017-11-16'", False),
        ("v >= '2017-11-16'", True),
        ("v >= '2017-11-20T23:59:59'", True),
        ("v >= '2017-11-21'", False),
        ("v is null", True),
        ("v is not null", True),
    ],
)
def test_summaries_of_days(tmp_path: Path, recorder: Recorder, condition: str, opened: bool) -> None:
    summary = [_summary(bytes.fromhex("4e440000"), bytes.fromhex("52440000"), null=True)]
    builder = _partitioned(tmp_path, "timestamp", "day", summary, 17_486)
    assert _opens(builder, recorder, condition) is opened


@pytest.mark.req("ICE-ML-08", half="reader")
@pytest.mark.parametrize(
    ("summary", "condition", "opened"),
    [
        (_summary(struct.pack("<d", 1), struct.pack("<d", 2), nan=False), "v = 5", False),
        (_summary(struct.pack("<d", 1), struct.pack("<d", 2), nan=False), "v is null", False),
        (_summary(None, None, null=True, nan=False), "v = 5", False),
        (_summary(None, None, null=True, nan=False), "v is null", True),
        (_summary(None, None, null=True, nan=True), "v > 5", True),
        (_summary(None, None, null=True, nan=None), "v > 5", True),
        (_summary(None, None, nan=True), "isnan(v)", True),
        (_summary(struct.pack("<d", 1), struct.pack("<d", 2), nan=True), "v > 5", True),
        (_summary(None, struct.pack("<d", 2), nan=False), "v = 1", True),
    ],
)
def test_summaries_of_nulls_and_nan(
    tmp_path: Path, recorder: Recorder, summary: dict[str, Any], condition: str, opened: bool
) -> None:
    builder = _partitioned(tmp_path, "double", "identity", [summary], 1.0)
    assert _opens(builder, recorder, condition) is opened


@pytest.mark.req("ICE-ML-08", half="reader")
def test_lists_of_version_1_do_not_speak_of_nan(tmp_path: Path, recorder: Recorder) -> None:
    builder = _partitioned(tmp_path, "double", "identity", [_summary(struct.pack("<d", 1), struct.pack("<d", 2))], 1.0)

    def older(schema: dict[str, Any]) -> None:
        inner = next(child for child in schema["fields"] if child["name"] == "partitions")["type"][1]["items"]
        inner["fields"] = [child for child in inner["fields"] if child["field-id"] != 518]

    rewrite_avro(latest_list(builder), schema=older)
    assert list_rows(builder)[0]["partitions"][0]["contains_nan"] is None
    assert not _opens(builder, recorder, "v = 5")
    assert _opens(builder, recorder, "v > 5")


@by_every_road
@pytest.mark.req("ICE-ML-09", half="reader")
@pytest.mark.parametrize(
    ("kind", "transform", "bound", "inside", "outside"),
    [
        ("long", "bucket[16]", "03000000", "v = 34", "v = 0"),
        ("string", "identity", "6162", "v = 'ab'", "v = 'abc'"),
        ("decimal(9,2)", "truncate[1]", "058c", "v = 14.20", "v = 14.21"),
        ("decimal(9,2)", "truncate[1]", "ff38", "v = -2.00", "v = 2.00"),
        ("long", "identity", "0500000000000000", "v = 5", "v = 6"),
        ("int", "truncate[10]", "0a000000", "v = 15", "v = 25"),
        ("date", "month", "3e020000", "v = '2017-11-16'", "v = '2017-12-16'"),
        ("boolean", "identity", "01", "v = true", "v = false"),
    ],
)
def test_bounds_of_summaries_are_single_values(
    tmp_path: Path, recorder: Recorder, kind: str, transform: str, bound: str, inside: str, outside: str
) -> None:
    data = bytes.fromhex(bound)
    spec = [{"source-id": 1, "name": "p", "transform": transform}]
    builder = IcebergBuilder(tmp_path / "t", {"v": kind}, specs=[spec])
    manifest = builder.manifest([], partitions=[_summary(data, data)], added_files_count=1)
    builder.commit(manifests=[manifest])
    assert _opens(builder, recorder, inside)
    assert not _opens(builder, recorder, outside)


@by_every_road
@pytest.mark.req("ICE-ML-07", half="reader")
def test_a_summary_for_each_partition_field_in_order(tmp_path: Path, recorder: Recorder) -> None:
    spec = [
        {"source-id": 1, "name": "a", "transform": "identity"},
        {"source-id": 2, "name": "b", "transform": "identity"},
    ]
    builder = IcebergBuilder(tmp_path / "t", {"a": "long", "b": "long"}, specs=[spec])
    one, two = struct.pack("<q", 1), struct.pack("<q", 2)
    file = builder.data([{"a": 1, "b": 2}], partition={"a": 1, "b": 2})
    summaries = [_summary(one, one), _summary(two, two)]
    builder.commit(manifests=[builder.manifest(added(file), partitions=summaries)])
    assert [_opens(builder, recorder, c) for c in ("a = 1", "b = 2", "a = 2", "b = 1")] == [True, True, False, False]
    for partitions in (None, summaries[:1], []):
        _say(builder, {"partitions": partitions})
        assert _opens(builder, recorder, "b = 1")
        assert open_table(builder.root).scan("b = 2").count() == 1


@by_every_road
@pytest.mark.req("ICE-ML-12")
def test_manifests_without_live_files_are_not_opened(tmp_path: Path, recorder: Recorder) -> None:
    builder = _builder(tmp_path)
    gone, live = builder.data(_rows(1)), builder.data(_rows(2))
    deletes = builder.position_deletes([(live, 0)])
    manifests = [
        builder.manifest([entry(gone, 2, 1, 1)]),
        builder.manifest(added(live)),
        builder.manifest([entry(deletes, 2, 1, 1)], 1),
    ]
    builder.commit(manifests=manifests)
    recorder.clear()
    assert _ids(builder) == [2]
    opened = [name for name in recorder.read if name.startswith("m")]
    assert opened == [Path(manifests[1]["manifest_path"]).name]


def test_a_manifest_that_stands_in_a_list_twice_is_found_by_validation(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    manifest = builder.manifest(added(builder.data(_rows(1))))
    builder.commit(manifests=[manifest, manifest])
    with pytest.raises(SpecViolationError, match="live 2 times"):
        open_table(builder.root, validate=True)
