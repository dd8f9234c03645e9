"""The forms of checkpoints that the package writes: multi-part, named by UUID, JSON, with sidecars (DL-CKPT)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable
from deltaberg.choices import CheckpointFormat, CheckpointNaming
from deltaberg.delta import CheckpointLayout
from deltaberg.delta.actions.table_actions import Protocol
from deltaberg.delta.after_commit.checkpoints import write_checkpoint
from deltaberg.delta.checkpoint.layout import check_layout
from deltaberg.delta.checkpoint.part_numbers import part_numbers, spark_hash
from deltaberg.delta.data.deletion_vectors import unique_id
from deltaberg.delta.log.last_checkpoint import read_last_checkpoint
from deltaberg.errors import InvalidArgumentError, StorageError
from deltaberg.storage.local import LocalOutput
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of, numbered_commits
from tests.support.written_checkpoints import actions_in, forget_before, of_kind, state_of

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_LAYOUTS = {
    "classic": CheckpointLayout(),
    "multipart": CheckpointLayout(naming="multipart", parts=3),
    "classic-v2": CheckpointLayout(spec=2),
    "classic-v2-sidecars": CheckpointLayout(spec=2, files_per_sidecar=3),
    "uuid-parquet": CheckpointLayout(spec=2, naming="uuid"),
    "uuid-parquet-sidecars": CheckpointLayout(spec=2, naming="uuid", files_per_sidecar=3),
    "uuid-json": CheckpointLayout(spec=2, naming="uuid", format="json"),
    "uuid-json-sidecars": CheckpointLayout(spec=2, naming="uuid", format="json", files_per_sidecar=3),
    "uuid-embedded": CheckpointLayout(spec=2, naming="uuid", files_per_sidecar=3, embed=True),
}
_every_layout = pytest.mark.parametrize("layout", _LAYOUTS.values(), ids=_LAYOUTS)
_every_second = pytest.mark.parametrize(
    "layout",
    [layout for layout in _LAYOUTS.values() if layout.spec == 2],
    ids=[n for n in _LAYOUTS if "v2" in n or "uuid" in n],
)


def _rich(builder: DeltaBuilder, *, modern: bool = True) -> None:
    """Build a table whose last version has every kind of action: ids 0 to 9, some deleted, some by vectors."""
    features = ["deletionVectors", *(["v2Checkpoint"] if modern else [])]
    adds = [builder.add(ids(number), stats="full", path=f"f{number}.parquet") for number in range(10)]
    builder.create(
        ID,
        *adds[:6],
        {"txn": {"appId": "a", "version": 1}},
        {"domainMetadata": {"domain": "mine", "configuration": "{}", "removed": False}},
        protocol=builder.features(*features, writer_only=["domainMetadata"]),
        configuration={"delta.deletedFileRetentionDuration": "interval 100000 days"},
    )
    masked = {"add": {**adds[1]["add"], "deletionVector": builder.vector([0]), "unknown": {"x": 1.50}}}
    builder.commit(*adds[6:], builder.remove(adds[0]), builder.remove(adds[1]), masked)


def _write(builder: DeltaBuilder, layout: CheckpointLayout) -> list[Path]:
    snapshot = DeltaTable(builder.root)._snapshot
    return [builder.log / name for name in write_checkpoint(snapshot, layout).files]


def _tombstones(table: DeltaTable) -> list[str]:
    return sorted(map(repr, table.tombstones.drop_columns(["version", "pathAdded"]).to_pylist()))


@pytest.mark.req("DL-CKPT-08", "DL-CKPT-09", "DL-CKPT-27", "DL-CKPT-36", "DL-CKPT-40", half="writer")
@_every_layout
def test_each_form_is_the_table(builder: DeltaBuilder, layout: CheckpointLayout) -> None:
    _rich(builder, modern=layout.naming != "multipart")
    before = DeltaTable(builder.root)
    paths = _write(builder, layout)
    stem = f"{1:020d}.checkpoint"
    if layout.naming == "multipart":
        assert [path.name for path in paths] == [f"{stem}.{part:010d}.0000000003.parquet" for part in (1, 2, 3)]
    elif layout.naming == "uuid":
        assert re.fullmatch(rf"{stem}\.{_UUID}\.{layout.format}", paths[0].name)
    else:
        assert paths[0].name == f"{stem}.parquet"
    marks = of_kind([action for path in paths for action in actions_in(path)], "checkpointMetadata")
    assert [mark["version"] for mark in marks] == ([1] if layout.spec == 2 else [])
    forget_before(builder.log, 1)
    for pointed in (True, False):
        if not pointed:
            (builder.log / "_last_checkpoint").unlink()
        table = DeltaTable(builder.root, validate=True)
        assert table.base_checkpoint is not None
        assert list(table.base_checkpoint.files) == [path.name for path in paths]
        assert state_of(table) == state_of(before)
        assert _tombstones(table) == _tombstones(before)
        assert ids_of(table) == list(range(2, 10))
        assert ids_of(table, filter="id = 7") == [7]
        assert len(table.scan(filter="id = 7").files()) == 1


def test_a_second_checkpoint_is_made_from_every_form(builder: DeltaBuilder) -> None:
    """Each checkpoint is made from the one before, in another form, and nothing is lost on the way."""
    _rich(builder)
    stats = {path: action["add"]["stats"] for (path, _), action in builder.live().items()}
    before = state_of(DeltaTable(builder.root))
    for name, layout in _LAYOUTS.items():
        if layout.naming == "multipart":
            continue
        paths = _write(builder, layout)
        for other in builder.log.glob("*.checkpoint.*"):
            if other not in paths:
                other.unlink()
        (builder.log / f"{0:020d}.json").unlink(missing_ok=True)
        table = DeltaTable(builder.root)
        assert state_of(table) == before, name
        sidecars = [builder.log / "_sidecars" / one["path"] for one in of_kind(actions_in(paths[0]), "sidecar")]
        adds = [add for path in sidecars or paths for add in of_kind(actions_in(path), "add")]
        assert {add["path"]: add["stats"] for add in adds} == stats, name


@pytest.mark.req("DL-CKPT-13", half="writer")
@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("naming", ["classic", "multipart", "uuid"])
def test_the_matrix_of_specifications_and_names(
    builder: DeltaBuilder, spec: Literal[1, 2], naming: CheckpointNaming
) -> None:
    parts = 2 if naming == "multipart" else 1
    if (spec, naming) in ((1, "uuid"), (2, "multipart")):
        with pytest.raises(InvalidArgumentError, match=r"follows specification [12]"):
            CheckpointLayout(spec=spec, naming=naming, parts=parts)
        return
    _rich(builder, modern=spec == 2)
    _write(builder, CheckpointLayout(spec=spec, naming=naming, parts=parts))
    forget_before(builder.log, 1)
    assert ids_of(DeltaTable(builder.root)) == list(range(2, 10))


@pytest.mark.req("DL-CKPT-11", "DL-CKPT-37")
def test_tables_with_version_2_have_no_parts_but_any_classic_checkpoint(builder: DeltaBuilder) -> None:
    _rich(builder)
    with pytest.raises(InvalidArgumentError, match=r"must not have multi-part checkpoints.*version: 1"):
        _write(builder, CheckpointLayout(naming="multipart", parts=2))
    assert not list(builder.log.glob("*checkpoint*"))
    (path,) = _write(builder, CheckpointLayout())
    assert {"sidecar", "checkpointMetadata"}.isdisjoint(pq.read_schema(path).names)
    assert DeltaTable(builder.root).checkpoint().kind == "classic"


@pytest.mark.req("DL-CKPT-35", half="writer")
@pytest.mark.parametrize(
    ("protocol", "allowed"),
    [
        (Protocol(1, 2), False),
        (Protocol(3, 7, ("v2Checkpoint",), ("v2Checkpoint",)), True),
        (Protocol(1, 7, None, ("v2Checkpoint",)), False),
        (Protocol(3, 7, (), ()), False),
    ],
)
def test_specification_2_needs_its_feature(protocol: Protocol, allowed: bool) -> None:
    layout = CheckpointLayout(spec=2)
    if allowed:
        check_layout(layout, protocol)
        return
    with pytest.raises(InvalidArgumentError, match="needs the table feature v2Checkpoint"):
        check_layout(layout, protocol)


def test_a_sidecar_holds_fifty_thousand_actions(builder: DeltaBuilder) -> None:
    """By the property alone; a row group of the writer, which has more, is divided."""
    policy = {"delta.checkpointPolicy": "v2"}
    builder.create(ID, protocol=builder.features("v2Checkpoint"), configuration=policy)
    names = [f"{number}.parquet" for number in range(170_000)]
    add = '{"add":{"path":"%s","partitionValues":{},"size":1,"modificationTime":0,"dataChange":true}}'
    builder.commit_text("\n".join(add % name for name in names))
    made = DeltaTable(builder.root).checkpoint()
    sidecars = of_kind(actions_in(builder.log / made.files[0]), "sidecar")
    paths = [pq.read_table(builder.log / "_sidecars" / one["path"])["add"].combine_chunks() for one in sidecars]
    assert [len(some) for some in paths] == [50_000, 50_000, 50_000, 20_000]
    found = pa.concat_arrays([some.field("path") for some in paths])
    assert sorted(found.to_pylist()) == sorted(names)
    assert sorted(DeltaTable(builder.root).live_files["path"].to_pylist()) == sorted(names)


@pytest.mark.req("DL-CKPT-28", "DL-CKPT-29", "DL-CKPT-30", "DL-CKPT-31", "DL-CKPT-32", half="writer")
@pytest.mark.parametrize("form", ["parquet", "json"])
@pytest.mark.parametrize("most", [30, 100, 1000])
def test_sidecars_hold_the_files_and_nothing_else(builder: DeltaBuilder, form: CheckpointFormat, most: int) -> None:
    adds = [builder.add(path=f"{number}.parquet", stats="none") for number in range(100)]
    builder.create(ID, *adds, {"txn": {"appId": "a", "version": 1}}, protocol=builder.features("v2Checkpoint"))
    layout = CheckpointLayout(spec=2, naming="uuid", format=form, files_per_sidecar=most)
    (first,), (second,) = _write(builder, layout), _write(builder, layout)
    folder = builder.log / "_sidecars"
    seen: set[str] = set()
    for path in (first, second):
        main = actions_in(path)
        assert not of_kind(main, "add")
        assert not of_kind(main, "remove")
        assert {"protocol", "metaData", "txn", "checkpointMetadata", "sidecar"} == {kind for kind, _ in main}
        sidecars = of_kind(main, "sidecar")
        assert len(sidecars) == -(-100 // most)
        paths = []
        for sidecar in sidecars:
            assert re.fullmatch(rf"{_UUID}\.parquet", sidecar["path"])
            file = folder / sidecar["path"]
            assert sidecar["sizeInBytes"] == file.stat().st_size
            assert sidecar["modificationTime"] == file.stat().st_mtime_ns // 1_000_000
            assert pq.read_schema(file).names == ["add", "remove"]
            paths += [add["path"] for add in of_kind(actions_in(file), "add")]
        assert sorted(paths) == sorted(add["add"]["path"] for add in adds)
        names = {sidecar["path"] for sidecar in sidecars}
        assert seen.isdisjoint(names)
        seen |= names
        tags = of_kind(main, "checkpointMetadata")[0]["tags"]
        assert (tags["sidecarNumActions"], tags["numOfAddFiles"]) == ("100", "100")
        assert tags["sidecarSizeInBytes"] == str(sum(sidecar["sizeInBytes"] for sidecar in sidecars))
    assert {path.name for path in folder.iterdir()} == seen


_ADD = '{"add":{"path":"f","partitionValues":{},"size":1,"modificationTime":2,"dataChange":true,"x":1e3}}'


@pytest.mark.req("DL-CKPT-33", "DL-CKPT-34", half="writer")
@pytest.mark.parametrize("sidecars", [None, 5])
def test_json_checkpoints_keep_what_is_not_understood(builder: DeltaBuilder, sidecars: int | None) -> None:
    """The lines are those of the commits: unknown members and the spelling of numbers survive."""
    builder.commit_text(
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["v2Checkpoint"],'
        '"writerFeatures":["v2Checkpoint"],"own":1.50}}\n'
        + json.dumps(builder.metadata(ID, later={"a": None}))
        + f"\n{_ADD}\n"
    )
    layout = CheckpointLayout(spec=2, naming="uuid", format="json", files_per_sidecar=sidecars)
    (path,) = _write(builder, layout)
    lines = path.read_text("utf-8").splitlines()
    assert [next(iter(json.loads(line))) for line in lines] == [
        "checkpointMetadata",
        "protocol",
        "metaData",
        "add" if sidecars is None else "sidecar",
    ]
    assert '"own":1.50' in lines[1]
    assert '"later":{"a":null}' in lines[2]
    if sidecars is None:
        assert lines[3] == _ADD


@_every_layout
def test_checkpoints_keep_members_that_the_protocol_does_not_know(
    layout: CheckpointLayout, builder: DeltaBuilder
) -> None:
    later: dict[str, Any] = {
        "text": "ü",
        "flag": False,
        "whole": -(1 << 63),
        "real": 2.5,
        "nested": {"weights": [1.5, None], "names": [], "none": {}, "deep": [{"a": "x"}, {"a": "y"}]},
    }
    metadata = builder.metadata(ID, configuration={"a": "1"}, **later)
    protocol = builder.features("deletionVectors" if layout.naming == "multipart" else "v2Checkpoint")
    protocol["protocol"]["later"] = later
    builder.commit(protocol, metadata, builder.add(ids(1, 2)))
    _write(builder, layout)
    (builder.log / f"{0:020d}.json").unlink()
    table = DeltaTable(builder.root)
    assert ids_of(table) == [1, 2]
    assert json.loads(table.metadata.action.to_json()) == metadata
    assert json.loads(table.protocol.action.to_json()) == protocol
    table.alter().set({"own": "2"}).commit()
    metadata["metaData"]["configuration"]["own"] = "2"
    assert json.loads(table.metadata.action.to_json()) == metadata


def test_members_without_a_type_of_parquet_are_left_out(builder: DeltaBuilder) -> None:
    mixed: Any = {
        "mixed": [1, "a"],
        "huge": 1 << 70,
        "NAME": "spark knows one name",
        "deep": [{"a": 1}, {"b": 1}],
        "kept": 1,
    }
    builder.commit(builder.protocol(1, 2), builder.metadata(ID, **mixed), builder.add(ids(1)))
    _write(builder, CheckpointLayout())
    (builder.log / f"{0:020d}.json").unlink()
    found = json.loads(DeltaTable(builder.root).metadata.action.to_json())["metaData"]
    assert {name: found.get(name) for name in mixed} == {**dict.fromkeys(mixed), "kept": 1}
    assert pl.read_delta(str(builder.root))["id"].to_list() == [1]


@pytest.mark.req("DL-CKPT-12")
def test_parts_are_spark_s_partitions(builder: DeltaBuilder) -> None:
    assert spark_hash([pa.array(["f1", "f2", "f3", "f4"])]).to_pylist() == [
        -1838154678,
        82859002,
        -569084225,
        -1781016391,
    ]
    assert part_numbers([pa.array(["f1", "f2", "f3", "f4"])], 3).to_pylist() == [0, 1, 1, 2]
    vector = pa.array(["uvBn[lx{q8@P<9BNH/isA@1", None])
    assert spark_hash([pa.array(["f1", "f2"]), vector]).to_pylist() == [-2054964204, 82859002]
    assert part_numbers([pa.array(["f1", "f2"]), vector], 3).to_pylist() == [0, 1]
    _rich(builder, modern=False)
    paths = _write(builder, CheckpointLayout(naming="multipart", parts=3))
    for number, path in enumerate(paths):
        actions = [members for kind in ("add", "remove") for members in of_kind(actions_in(path), kind)]
        keys = [pa.array([one["path"] for one in actions], pa.string())]
        keys.append(pa.array([unique_id(one.get("deletionVector")) for one in actions], pa.string()))
        assert set(part_numbers(keys, 3).to_pylist()) <= {number}
        assert bool(of_kind(actions_in(path), "protocol")) == (number == 0)
    pointer = json.loads((builder.log / "_last_checkpoint").read_bytes())
    assert (pointer["parts"], pointer["numOfAddFiles"]) == (3, 9)


@pytest.mark.req("DL-CKPT-40", "BEY-17", half="writer")
@pytest.mark.parametrize("embed", [False, True])
def test_the_pointer_to_a_file_named_by_uuid(builder: DeltaBuilder, embed: bool) -> None:
    _rich(builder)
    layout = CheckpointLayout(spec=2, naming="uuid", files_per_sidecar=4, embed=embed)
    (path,) = _write(builder, layout)
    data = (builder.log / "_last_checkpoint").read_bytes()
    pointed = read_last_checkpoint(data)
    assert pointed is not None
    assert (pointed.version, pointed.file) == (1, path.name)
    pointer = json.loads(data)["v2Checkpoint"]
    size, modified = path.stat().st_size, path.stat().st_mtime_ns // 1_000_000
    assert (pointer["path"], pointer["sizeInBytes"], pointer["modificationTime"]) == (path.name, size, modified)
    main = actions_in(path)
    if embed:
        assert pointer["sidecarFiles"] == of_kind(main, "sidecar")
        kinds = [next(iter(action)) for action in pointer["nonFileActions"]]
        assert kinds == [kind for kind, _ in main if kind != "sidecar"]
    else:
        assert {"sidecarFiles", "nonFileActions"}.isdisjoint(pointer)
    assert json.loads(data)["size"] == len(main) + 11


@pytest.mark.req("DL-CKPT-38")
def test_every_tenth_has_the_classic_name(builder: DeltaBuilder) -> None:
    properties = {"delta.checkpointPolicy": "v2"}
    builder.create(ID, builder.add(ids(0)), protocol=builder.features("v2Checkpoint"), configuration=properties)
    kinds = []
    for _ in range(21):
        builder.commit()
        kinds.append(DeltaTable(builder.root).checkpoint().kind)
    assert kinds == [*["uuid"] * 9, "classic", *["uuid"] * 9, "classic", "uuid"]
    (path,) = builder.log.glob(f"{10:020d}.checkpoint.*")
    actions = actions_in(path)
    assert of_kind(actions, "protocol") == [
        {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["v2Checkpoint"],
            "writerFeatures": ["v2Checkpoint"],
        }
    ]
    assert len(of_kind(actions, "checkpointMetadata")) == 1


def test_the_policy_needs_the_feature(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(0)), configuration={"delta.checkpointPolicy": "v2"})
    assert DeltaTable(builder.root).checkpoint().kind == "classic"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"spec": 3}, "spec must be 1 or 2, not 3"),
        ({"naming": "odd"}, "naming must be .*, not 'odd'"),
        ({"spec": 2, "naming": "uuid", "format": "orc"}, "format must be .*, not 'orc'"),
        ({"naming": "multipart"}, "parts must be at least 2 .*, not 1"),
        ({"parts": 3}, "only multi-part checkpoints have parts"),
        ({"format": "json"}, "a classic checkpoint has format='parquet'"),
        ({"spec": 2, "embed": True}, "a classic checkpoint has format='parquet' and embed=False"),
        ({"files_per_sidecar": 5}, "files_per_sidecar must be a positive number, not 5"),
        ({"spec": 2, "files_per_sidecar": 0}, "files_per_sidecar must be a positive number, not 0"),
    ],
)
def test_forms_that_do_not_exist(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        CheckpointLayout(**wrong)


def _failing(monkeypatch: pytest.MonkeyPatch, fails: Callable[[str], bool]) -> None:
    """Let the closing of some files fail."""
    original = LocalOutput.close

    def close(output: LocalOutput) -> None:
        if not output.closed and fails(output._path):
            output.abort()
            raise StorageError("no space")
        original(output)

    monkeypatch.setattr(LocalOutput, "close", close)


@_every_second
def test_sidecars_of_a_failed_checkpoint_are_deleted(
    builder: DeltaBuilder, layout: CheckpointLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    _rich(builder)
    seen: list[str] = []

    def second_sidecar(path: str) -> bool:
        seen.append(path)
        return "_sidecars" in path and len(seen) == 2

    _failing(monkeypatch, second_sidecar)
    if layout.files_per_sidecar is None:
        _write(builder, layout)
        return
    with pytest.raises(StorageError, match="no space"):
        _write(builder, layout)
    assert not list((builder.log / "_sidecars").iterdir())
    assert not list(builder.log.glob("*checkpoint*"))


def test_parts_appear_only_after_all_are_written(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure leaves no complete set of parts, and no pointer to one."""
    _rich(builder, modern=False)
    _failing(monkeypatch, lambda path: ".0000000002.0000000003." in path)
    with pytest.raises(StorageError, match="no space"):
        _write(builder, CheckpointLayout(naming="multipart", parts=3))
    assert not (builder.log / "_last_checkpoint").exists()
    table = DeltaTable(builder.root)
    assert table.base_checkpoint is None
    assert ids_of(table) == list(range(2, 10))


def test_a_damaged_base_is_passed_over(builder: DeltaBuilder) -> None:
    """Where only the statistics of the checkpoint that was read are damaged, the log leads to them."""
    numbered_commits(builder, 2)
    builder.commit(builder.add(ids(50), stats="full"))
    builder.checkpoint()
    table = DeltaTable(builder.root)
    assert ids_of(table) == [0, 1, 2, 50]
    (base,) = builder.log.glob("*.checkpoint.parquet")
    base.write_bytes(b"PAR1")
    (path,) = write_checkpoint(table._snapshot, CheckpointLayout(spec=2, naming="uuid")).files
    assert [add["stats"] for add in of_kind(actions_in(builder.log / path), "add") if "stats" in add] == [
        builder.commits[3][0]["add"]["stats"]
    ]


_RACER = """
import sys
from deltaberg import DeltaTable
for _ in range(12):
    DeltaTable(sys.argv[1], version=10).checkpoint()
"""


@pytest.mark.req("DL-CKPT-15")
def test_two_processes_write_the_same_checkpoint(builder: DeltaBuilder) -> None:
    """The file can be read at every moment, and means the same, whoever wrote it last."""
    numbered_commits(builder, 11)
    DeltaTable(builder.root, version=10).checkpoint()
    forget_before(builder.log, 10)
    expected = state_of(DeltaTable(builder.root, version=10))
    racers = [subprocess.Popen([sys.executable, "-c", _RACER, str(builder.root)]) for _ in range(2)]
    try:
        while any(racer.poll() is None for racer in racers):
            assert state_of(DeltaTable(builder.root, version=10)) == expected
            assert ids_of(DeltaTable(builder.root)) == list(range(12))
    finally:
        codes = [racer.wait(60) for racer in racers]
    assert codes == [0, 0]
    assert state_of(DeltaTable(builder.root, version=10)) == expected
    assert [path.name for path in builder.log.glob("*.checkpoint.*")] == [f"{10:020d}.checkpoint.parquet"]
