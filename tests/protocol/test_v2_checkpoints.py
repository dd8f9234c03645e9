"""Checkpoints of the V2 specification, with and without sidecars (DL-CKPT)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import open_table
from deltaberg.delta.actions.table_actions import Transaction
from deltaberg.errors import CorruptCheckpointError, SpecViolationError, UnsafePathError
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import Action, rewrite, with_column, without_column, write_actions
from tests.support.recorder import Recorder
from tests.support.roads import by_every_road
from tests.support.rows import CHECKPOINT_KINDS, ID, every_checkpoint, ids, ids_of, numbered_commits
from tests.support.rows import tombstones as tombstones_of

_UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
_FORMS = ["json", "parquet"]


def _forget_commits(builder: DeltaBuilder) -> None:
    for path in builder.log.glob("*[0-9].json"):
        if len(path.name) == 25:
            path.unlink()


def _json_checkpoint(builder: DeltaBuilder, version: int, lines: list[Any]) -> Path:
    """Write a JSON checkpoint of these lines, given as actions or as text."""
    path = builder.log / f"{version:020d}.checkpoint.{_UUID}.json"
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def _sidecar(name: str, size: int = 1, **fields: Any) -> Action:
    return {"sidecar": {"path": name, "sizeInBytes": size, "modificationTime": 1512909768000, **fields}}


def _mark(version: int, **fields: Any) -> Action:
    return {"checkpointMetadata": {"version": version, **fields}}


@by_every_road
@pytest.mark.req("DL-CKPT-27", half="reader")
@pytest.mark.parametrize("kind", ["uuid-json", "uuid-parquet", "classic"])
def test_one_row_says_that_it_is_v2(builder: DeltaBuilder, kind: str) -> None:
    numbered_commits(builder, 1)
    actions = builder.table_actions(1)
    _forget_commits(builder)
    for mark in (_mark(1, tags={}), _mark(1), _mark(1, tags={"a": "b"})):
        builder.checkpoint(1, kind=kind, actions=[mark, *actions])[0].rename(builder.log / "kept")
        name = f"{1:020d}.checkpoint.parquet" if kind == "classic" else f"{1:020d}.checkpoint.{_UUID}.{kind[5:]}"
        (builder.log / "kept").rename(builder.log / name)
        assert ids_of(open_table(builder.root, validate=True)) == [0, 1]
    (builder.log / name).unlink()
    builder.checkpoint(1, kind=kind, actions=[_mark(1), _mark(1), *actions])
    with pytest.raises(CorruptCheckpointError, match=r"2 checkpointMetadata|it holds 2"):
        open_table(builder.root)


@pytest.mark.req("DL-CKPT-27", half="reader")
def test_a_uuid_checkpoint_that_does_not_say_so(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 1)
    actions = builder.table_actions(1)
    _forget_commits(builder)
    path = _json_checkpoint(builder, 1, actions)
    with pytest.raises(CorruptCheckpointError, match="it holds 0"):
        open_table(builder.root)
    path.unlink()
    name = f"{1:020d}.checkpoint.{_UUID}.parquet"
    builder.checkpoint(1, actions=actions, name=name)
    with pytest.raises(CorruptCheckpointError, match="it holds 0"):
        open_table(builder.root)


@by_every_road
@pytest.mark.req("DL-CKPT-27", half="reader")
def test_a_checkpoint_of_another_version_is_a_violation(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 2)
    builder.checkpoint(1, kind="uuid-json", actions=[_mark(7), *builder.table_actions(1)])
    assert ids_of(open_table(builder.root)) == [0, 1, 2]
    with pytest.raises(SpecViolationError, match="of version 1 says that it is of version 7"):
        open_table(builder.root, validate=True)


@by_every_road
@pytest.mark.req("DL-CKPT-28", half="reader")
@pytest.mark.parametrize("form", _FORMS)
def test_only_the_main_file_speaks_of_the_table(builder: DeltaBuilder, form: str) -> None:
    builder.create(ID, *(builder.add(ids(n)) for n in range(3)), protocol=builder.features("v2Checkpoint"))
    builder.commit({"txn": {"appId": "app", "version": 1}})
    builder.checkpoint(1, kind=f"uuid-{form}", sidecars=1)
    (sidecar,) = (builder.log / "_sidecars").iterdir()
    assert set(pq.read_schema(sidecar).names) <= {"add", "remove"}
    files = [action for action in builder.table_actions(1) if "add" in action]
    others = [
        {"txn": {"appId": "app", "version": 2}},
        builder.features("fooFeature"),
        builder.metadata(ID, name="not this one"),
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    ]
    write_actions(sidecar, [*others, *files], "json")
    # The size in the sidecar action is that of the file before: the main file names it anew.
    builder.checkpoint(2, kind=f"uuid-{form}", actions=_with_sidecar(builder, sidecar))
    _forget_commits(builder)
    table = open_table(builder.root, "delta")
    assert table.transactions == {"app": Transaction("app", 1)}
    assert (table.metadata.name, table.domain_metadata) == (None, {})
    assert ids_of(table) == [0, 1, 2]


def _with_sidecar(builder: DeltaBuilder, *sidecars: Path) -> list[Action]:
    kept = [action for action in builder.table_actions(builder.version) if not {"add", "remove"} & set(action)]
    return [*kept, *(_sidecar(path.name, path.stat().st_size) for path in sidecars)]


@pytest.mark.parametrize("form", _FORMS)
def test_a_sidecar_that_is_named_twice_is_read_once(builder: DeltaBuilder, form: str) -> None:
    builder.create(ID, *(builder.add(ids(n)) for n in range(3)), protocol=builder.features("v2Checkpoint"))
    builder.checkpoint(0, kind=f"uuid-{form}", sidecars=1)
    (sidecar,) = (builder.log / "_sidecars").iterdir()
    twice = _with_sidecar(builder, sidecar, sidecar)
    twice[-1]["sidecar"]["path"] = f"./{sidecar.name}"
    for file in builder.log.glob("*.checkpoint.*"):
        file.unlink()
    builder.checkpoint(0, kind=f"uuid-{form}", actions=[_mark(0), *twice])
    _forget_commits(builder)
    assert ids_of(open_table(builder.root)) == [0, 1, 2]


@by_every_road
@pytest.mark.req("DL-CKPT-29", half="reader")
@pytest.mark.parametrize("kind", ["uuid-json", "uuid-parquet", "classic"])
@pytest.mark.parametrize("what", ["add", "remove"])
def test_files_in_both_places_are_refused(builder: DeltaBuilder, kind: str, what: str) -> None:
    gone = builder.add(ids(9))
    builder.create(ID, builder.add(ids(1)), gone, protocol=builder.features("v2Checkpoint"))
    builder.commit(builder.remove(gone))
    everything = builder.table_actions(1)
    builder.checkpoint(1, sidecars=1)
    (sidecar,) = (builder.log / "_sidecars").iterdir()
    mixed = [*_with_sidecar(builder, sidecar), *(action for action in everything if what in action)]
    (builder.log / f"{1:020d}.checkpoint.parquet").unlink()
    builder.checkpoint(1, kind=kind, actions=[_mark(1), *mixed])
    assert ids_of(open_table(builder.root)) == [1]
    _forget_commits(builder)
    with pytest.raises(CorruptCheckpointError, match="both itself and in sidecars"):
        open_table(builder.root)


@by_every_road
@pytest.mark.req("DL-CKPT-30", half="reader")
@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("sidecars", [None, 3])
def test_any_number_of_sidecars(builder: DeltaBuilder, form: str, sidecars: int | None, recorder: Recorder) -> None:
    numbered_commits(builder, 112)
    name = f"00000000000000000112.checkpoint.{_UUID}.{form}"
    builder.checkpoint(112, kind=f"uuid-{form}", sidecars=sidecars, name=name)
    _forget_commits(builder)
    assert ids_of(open_table(builder.root)) == list(range(113))
    opened = {path.name for path in (builder.log / "_sidecars").glob("*")} & set(recorder.read)
    assert len(opened) == (sidecars or 0)


@by_every_road
@pytest.mark.req("DL-CKPT-31", half="reader")
def test_more_columns_of_a_sidecar_are_ignored(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 3)
    builder.checkpoint(3, kind="uuid-parquet", sidecars=2)
    sizes = {}
    for sidecar in (builder.log / "_sidecars").iterdir():

        def change(table: pa.Table) -> pa.Table:
            rows = len(table)
            return table.append_column("more", pa.array([{"path": "x"}] * rows)).append_column(
                "x", pa.array([1] * rows)
            )

        rewrite(sidecar, change)
        sizes[sidecar] = sidecar.stat().st_size
    builder.checkpoint(4, kind="uuid-parquet", actions=_with_sidecar(builder, *sizes))
    _forget_commits(builder)
    table = open_table(builder.root, "delta")
    assert table.version == 4
    assert ids_of(table) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("action", "member"), [("checkpointMetadata", "tags"), ("sidecar", "tags"), ("sidecar", "modificationTime")]
)
@pytest.mark.parametrize("values", [pa.array([None], pa.int32()), pa.array(["x"]), None], ids=["null", "text", "none"])
def test_members_that_nothing_goes_by(builder: DeltaBuilder, action: str, member: str, values: pa.Array | None) -> None:
    numbered_commits(builder, 2)
    path, *_ = builder.checkpoint(2, kind="uuid-parquet", sidecars=1)

    def change(table: pa.Table) -> pa.Table:
        if values is None:
            return without_column(table, action, member)
        return with_column(table, action, member, values.take(pa.array([0] * len(table))))

    rewrite(path, change)
    _forget_commits(builder)
    assert ids_of(open_table(builder.root, validate=True)) == [0, 1, 2]


_SIDECAR = "016ae953-37a9-438e-8683-9a9a4a79a395.parquet"


@by_every_road
@pytest.mark.req("DL-CKPT-32", half="reader")
@pytest.mark.parametrize("spelling", ["name", "encoded", "path", "file:", "file://"])
def test_where_a_sidecar_is(builder: DeltaBuilder, recorder: Recorder, spelling: str) -> None:
    numbered_commits(builder, 2)
    directory = builder.log / "_sidecars"
    directory.mkdir()
    name = _SIDECAR if spelling != "encoded" else "a b%20é.parquet"
    files = [action for action in builder.table_actions(2) if "add" in action]
    write_actions(directory / name, files, "json")
    recorded = {
        "name": name,
        "encoded": "a%20b%2520%C3%A9.parquet",
        "path": (directory / name).as_posix(),
        "file:": f"file:{(directory / name).as_posix()}",
        "file://": f"file://{(directory / name).as_posix()}",
    }[spelling]
    rest = [action for action in builder.table_actions(2) if "add" not in action]
    # The size is the one of the protocol's example: it must not be needed.
    _json_checkpoint(builder, 2, [_mark(2), *rest, _sidecar(recorded, 2304522, tags={"a": "b"})])
    _forget_commits(builder)
    assert ids_of(open_table(builder.root)) == [0, 1, 2]
    assert name in recorder.read


def test_a_sidecar_does_not_climb_out(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 1)
    rest = [action for action in builder.table_actions(1) if "add" not in action]
    _json_checkpoint(builder, 1, [_mark(1), *rest, _sidecar("../../../secret.parquet")])
    _forget_commits(builder)
    with pytest.raises((UnsafePathError, CorruptCheckpointError), match=r"contains '\.\.'"):
        ids_of(open_table(builder.root))


_APPS = [
    {"txn": {"appId": "3ba13872-2d47-4e17-86a0-21afd2a22395", "version": 364475}},
    {"txn": {"appId": "3ae45b72-24e1-865a-a211-34987ae02f2a", "version": 4389}},
]
_DATED = pa.schema([("id", pa.int64()), ("date", pa.date32())])


def _day(builder: DeltaBuilder, day: str, **fields: Any) -> Action:
    return builder.add(ids(int(day[-2:])), path=f"date={day}/part-000.parquet", partition={"date": day}, **fields)


def _example(builder: DeltaBuilder) -> list[Action]:
    metadata = builder.metadata(_DATED, ["date"], id="af23c9d7-fff1-4a5a-a2c8-55c59bd782aa")
    return [_mark(364475, tags={}), metadata, builder.features("v2Checkpoint"), *_APPS]


@by_every_road
@pytest.mark.req("DL-CKPT-33", half="reader")
def test_the_example_with_sidecars(builder: DeltaBuilder, recorder: Recorder) -> None:
    sizes = {"3a0d65cd-4056-49b8-937b-95f9e3ee90e5.parquet": 2341330, _SIDECAR: 8468120}
    (builder.log / "_sidecars").mkdir()
    for day, name in zip(("2017-12-09", "2017-12-10"), sizes, strict=True):
        write_actions(builder.log / "_sidecars" / name, [_day(builder, day)], "json")
    sidecars = [_sidecar(name, size) for name, size in sizes.items()]
    lines = [json.dumps(action) for action in (*_example(builder), *sidecars)]
    _json_checkpoint(builder, 364475, list(lines))
    table = open_table(builder.root, "delta")
    assert table.version == 364475
    assert {app: one.version for app, one in table.transactions.items()} == {
        "3ba13872-2d47-4e17-86a0-21afd2a22395": 364475,
        "3ae45b72-24e1-865a-a211-34987ae02f2a": 4389,
    }
    assert ids_of(table) == [9, 10]
    assert set(sizes) <= set(recorder.read)
    # The document's own text lacks the last brace of the sidecar lines.
    broken = [line.removesuffix("}") if '"sidecar"' in line else line for line in lines]
    _json_checkpoint(builder, 364475, list(broken))
    with pytest.raises(CorruptCheckpointError, match="line: 6"):
        open_table(builder.root, "delta")


@by_every_road
@pytest.mark.req("DL-CKPT-34", half="reader")
def test_the_example_without_sidecars(builder: DeltaBuilder) -> None:
    live = [_day(builder, "2017-12-10"), _day(builder, "2017-12-09")]
    gone = builder.remove(_day(builder, "2017-12-08"))
    _json_checkpoint(builder, 364475, [*_example(builder), *live, gone])
    table = open_table(builder.root, "delta")
    assert {app: one.version for app, one in table.transactions.items()} == {
        "3ba13872-2d47-4e17-86a0-21afd2a22395": 364475,
        "3ae45b72-24e1-865a-a211-34987ae02f2a": 4389,
    }
    rows = {str(row["date"]): row["id"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == {"2017-12-10": 10, "2017-12-09": 9}
    assert tombstones_of(table) == [("date=2017-12-08/part-000.parquet", None)]


@by_every_road
@pytest.mark.req("DL-CKPT-35", half="reader")
@pytest.mark.parametrize("kind", ["classic", "uuid-json", "uuid-parquet"])
def test_v2_without_its_feature_is_a_violation(builder: DeltaBuilder, kind: str) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.protocol(1, 2))
    builder.checkpoint(0, kind=kind, sidecars=1)
    assert ids_of(open_table(builder.root)) == [1]
    with pytest.raises(SpecViolationError, match=r"follows V2.*v2Checkpoint"):
        open_table(builder.root, validate=True)
    builder.commit(builder.features("v2Checkpoint"))
    assert ids_of(open_table(builder.root, validate=True)) == [1]


@by_every_road
@pytest.mark.req("DL-CKPT-36", half="reader")
@every_checkpoint
def test_checkpoints_of_tables_with_the_feature(builder: DeltaBuilder, kind: dict[str, Any]) -> None:
    assert kind in CHECKPOINT_KINDS
    numbered_commits(builder, 2)
    builder.checkpoint(2, **kind)
    _forget_commits(builder)
    assert ids_of(open_table(builder.root, "delta")) == [0, 1, 2]
    if kind["kind"] == "multipart":
        with pytest.raises(SpecViolationError, match=r"in parts.*v2Checkpoint"):
            open_table(builder.root, "delta", validate=True)
    else:
        assert open_table(builder.root, "delta", validate=True).version == 2


@by_every_road
@pytest.mark.req("DL-CKPT-39", half="reader")
def test_a_classic_file_that_says_so_is_v2(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 2)
    builder.checkpoint(2, kind="classic", sidecars=2)
    _forget_commits(builder)
    assert ids_of(open_table(builder.root, validate=True)) == [0, 1, 2]
    sidecars = list((builder.log / "_sidecars").iterdir())
    builder.checkpoint(2, kind="classic", actions=_with_sidecar(builder, *sidecars))
    with pytest.raises(CorruptCheckpointError, match="sidecars without checkpointMetadata"):
        open_table(builder.root)


@pytest.mark.parametrize("kind", ["classic", "uuid-json", "uuid-parquet"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "no Parquet"])
def test_a_lost_sidecar(builder: DeltaBuilder, kind: str, damage: str) -> None:
    """The log leads there as well, or an older checkpoint; where nothing does, the error names the file."""
    numbered_commits(builder, 8, 3)
    builder.checkpoint(6, kind=kind, sidecars=3)
    sidecar = sorted((builder.log / "_sidecars").iterdir())[1]
    data = sidecar.read_bytes()
    if damage == "missing":
        sidecar.unlink()
    else:
        sidecar.write_bytes({"empty": b"", "cut": data[:-20], "no Parquet": b"x" * len(data)}[damage])
    assert ids_of(open_table(builder.root)) == list(range(9))
    for version in range(3):
        (builder.log / f"{version:020d}.json").unlink()
    table = open_table(builder.root)
    assert ids_of(table) == list(range(9))
    builder.commit(builder.add(ids(9)))
    assert ids_of(table.refresh()) == list(range(10))
    (builder.log / f"{4:020d}.json").unlink()
    with pytest.raises(CorruptCheckpointError, match=sidecar.name):
        ids_of(open_table(builder.root))
