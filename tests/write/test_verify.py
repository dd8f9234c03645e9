"""What `verify` finds: each damage is made in the store, and is found once (DL-OPS-11)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, Finding, VerifyResult
from deltaberg.delta.maintain import live_names
from deltaberg.errors import AuthenticationError, InvalidArgumentError, UnsafePathError
from deltaberg.storage.local import LocalStorage
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.rows import CHECKPOINT_KINDS, ID, ids

_EXACT = "footers"


def _now() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class _Table:
    """A table with one of everything that a log names, and where its files are."""

    builder: DeltaBuilder
    vector: Path

    @property
    def root(self) -> Path:
        return self.builder.root

    def verify(self, depth: str = _EXACT) -> VerifyResult:
        return DeltaTable(self.root).verify(depth=depth)  # type: ignore[arg-type]

    def before(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}


@pytest.fixture
def damaged(builder: DeltaBuilder) -> _Table:
    """A table of data files, vectors, change data, a checkpoint with sidecars and a version checksum, all sound."""
    protocol = builder.features("deletionVectors", "v2Checkpoint", writer_only=["changeDataFeed"])
    pair = builder.vectors([[0], [1, 2]])
    vector = next(builder.root.glob("deletion_vector_*.bin"))
    adds = [
        builder.add(ids(*range(50)), path="plain.parquet", stats="count"),
        builder.add(ids(3, 4), path="hidden.parquet", stats="count", vector=pair[0]),
        builder.add(ids(5, 6, 7), path="hidden too.parquet", stats="count", vector=pair[1]),
        builder.add(ids(8), path="inline.parquet", stats="count", vector=builder.vector([0], "i")),
    ]
    builder.create(ID, *adds, protocol=protocol, configuration={"delta.enableChangeDataFeed": "true"}, millis=_now())
    changes = builder.root / "_change_data" / "cdc.parquet"
    changes.parent.mkdir()
    pq.write_table(ids(1).append_column("_change_type", pa.array(["insert"])), changes)
    cdc = {"path": "_change_data/cdc.parquet", "partitionValues": {}, "size": changes.stat().st_size}
    builder.commit({"cdc": {**cdc, "dataChange": False}}, millis=_now())
    builder.checkpoint(kind="uuid-parquet", sidecars=2)
    builder.commit(millis=_now())
    size = sum(add["add"]["size"] for add in adds)
    facts = {"tableSizeBytes": size, "numFiles": 4, "numMetadata": 1, "numProtocol": 1}
    (builder.log / f"{2:020d}.crc").write_text(json.dumps(facts))
    return _Table(builder, vector)


def _shown(result: VerifyResult) -> list[tuple[str, str, str]]:
    return [(one.kind, one.what, os.path.basename(one.path)) for one in result.findings]


@pytest.mark.req("DL-OPS-11")
def test_a_sound_table_has_no_findings(damaged: _Table) -> None:
    result = damaged.verify()
    assert (result.findings, result.is_clean, result.state) == ((), True, "version 2")
    assert result.checked == {
        "commit": 3,
        "checkpoint": 1,
        "data file": 4,
        "deletion vector": 3,
        "change data file": 1,
        "sidecar": 2,
        "footer": 4,
    }


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(bytes(data))


def _other_rows(path: Path) -> None:
    """Put a file of one row in the place of another one, of the same size."""
    size = path.stat().st_size
    for length in range(size):
        with pq.ParquetWriter(path, ID, store_schema=False) as writer:
            writer.write_table(ids(1))
            writer.add_key_value_metadata({"padding": "x" * length})
        if path.stat().st_size == size:
            return
    raise AssertionError("no file of the same size was found")


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _sidecar(table: _Table) -> Path:
    return min((table.builder.log / "_sidecars").iterdir())


#: What is done to the table, and what must be found: kind, what and file, and at which depth it shows.
_DAMAGES: dict[str, tuple[Callable[[_Table], object], tuple[str, str, str], str]] = {
    "a lost data file": (
        lambda at: (at.root / "plain.parquet").unlink(),
        ("missing", "data file", "plain.parquet"),
        "names",
    ),
    "a data file with a space in its name is lost": (
        lambda at: (at.root / "hidden too.parquet").unlink(),
        ("missing", "data file", "hidden too.parquet"),
        "names",
    ),
    "a lost vector of two files": (lambda at: at.vector.unlink(), ("missing", "deletion vector", "*.bin"), "names"),
    "lost changes": (
        lambda at: (at.root / "_change_data" / "cdc.parquet").unlink(),
        ("missing", "change data file", "cdc.parquet"),
        "names",
    ),
    "a lost sidecar": (lambda at: _sidecar(at).unlink(), ("missing", "sidecar", "*.parquet"), "names"),
    "a gap in the log": (
        lambda at: (at.builder.log / commit_name(1)).unlink(),
        ("missing", "log entry", commit_name(1)),
        "names",
    ),
    "a shorter data file": (
        lambda at: _truncate(at.root / "plain.parquet"),
        ("size", "data file", "plain.parquet"),
        "names",
    ),
    "a shorter sidecar": (lambda at: _truncate(_sidecar(at)), ("size", "sidecar", "*.parquet"), "names"),
    "a directory in place of a data file": (
        lambda at: _directory(at.root / "plain.parquet"),
        ("damaged", "data file", "plain.parquet"),
        "names",
    ),
    "a wrong checksum of the version": (
        lambda at: (at.builder.log / f"{2:020d}.crc").write_text('{"numFiles": 5}'),
        ("checksum", "version checksum", f"{2:020d}.crc"),
        "names",
    ),
    "a version checksum that is not JSON": (
        lambda at: (at.builder.log / f"{2:020d}.crc").write_text("{"),
        ("damaged", "version checksum", f"{2:020d}.crc"),
        "names",
    ),
    "a flipped bit in a vector": (
        lambda at: _flip(at.vector, 20),
        ("damaged", "deletion vector", "*.bin"),
        "vectors",
    ),
    "other rows than the statistics say": (
        lambda at: _other_rows(at.root / "plain.parquet"),
        ("rows", "data file", "plain.parquet"),
        "footers",
    ),
    "a data file that is none": (
        lambda at: _flip(at.root / "plain.parquet", -2),
        ("damaged", "data file", "plain.parquet"),
        "footers",
    ),
}
_DEPTHS = ["names", "vectors", "footers"]


@pytest.mark.req("DL-OPS-11")
@pytest.mark.parametrize("name", _DAMAGES)
def test_each_damage_is_one_finding(damaged: _Table, name: str) -> None:
    """It is found at its depth and at deeper ones, and nothing is changed."""
    damage, expected, depth = _DAMAGES[name]
    opened = DeltaTable(damaged.root)
    damage(damaged)
    before = damaged.before()
    for one in _DEPTHS:
        result = opened.verify(depth=one)  # type: ignore[arg-type]
        if _DEPTHS.index(one) < _DEPTHS.index(depth):
            assert result.is_clean
            continue
        ((kind, what, file),) = _shown(result)
        assert (kind, what) == expected[:2]
        assert file.endswith(expected[2].removeprefix("*"))
        assert result.counts == {kind: 1}
    assert damaged.before() == before


@pytest.mark.req("DL-OPS-11")
def test_a_finding_says_what_names_it_and_what_was_expected(damaged: _Table) -> None:
    size = (damaged.root / "plain.parquet").stat().st_size
    _truncate(damaged.root / "plain.parquet")
    damaged.vector.unlink()
    short, lost = damaged.verify().findings
    assert (short.named_by, short.expected, short.found) == ("version 2", size, size - 5)
    assert (lost.path, lost.found) == (str(damaged.vector), None)
    # Two data files name it.
    assert lost.named_by in {f"the data file {damaged.root}/{name}.parquet" for name in ("hidden", "hidden too")}


@pytest.mark.req("DL-OPS-11")
def test_a_vector_with_another_cardinality(builder: DeltaBuilder) -> None:
    wrong = {**builder.vector([0]), "cardinality": 2}
    more = builder.vector([0, 1, 2])
    builder.create(
        ID,
        builder.add(ids(1, 2), path="a.parquet", stats="count", vector=wrong),
        builder.add(ids(3, 4), path="b.parquet", stats="count", vector=more),
        protocol=builder.features("deletionVectors"),
    )
    one, two = DeltaTable(builder.root).verify().findings
    assert (one.kind, one.found) == ("damaged", "the deletion vector has 1 rows, but its descriptor says 2")
    assert (two.kind, two.found) == ("damaged", "the deletion vector has 3 rows, but its file has 2")


@pytest.mark.req("DL-OPS-11")
def test_a_vector_that_is_nowhere(builder: DeltaBuilder) -> None:
    """The other vectors are looked at all the same."""
    nowhere = {**builder.vector([0]), "pathOrInlineDv": "short"}
    lost = builder.vector([0])
    builder.create(
        ID,
        builder.add(ids(1, 2), path="a.parquet", stats="count", vector=nowhere),
        builder.add(ids(3, 4), path="b.parquet", stats="count", vector=lost),
        protocol=builder.features("deletionVectors"),
    )
    for path in builder.root.glob("*.bin"):
        path.unlink()
    assert DeltaTable(builder.root).verify().counts == {"damaged": 1, "missing": 1}


@pytest.mark.req("DL-OPS-11")
def test_parts_of_checkpoints(builder: DeltaBuilder) -> None:
    """An incomplete checkpoint that nothing points to may be one that is being written."""
    builder.create(ID, builder.add(ids(1), path="a.parquet"))
    parts = builder.checkpoint(kind="multipart", parts=3, pointer=True)
    parts[1].unlink()
    (found,) = DeltaTable(builder.root).verify().findings
    assert (found.what, found.path, found.expected, found.found) == (
        "checkpoint part",
        str(parts[1]),
        "3 parts",
        "2 parts",
    )
    builder.commit()
    builder.checkpoint(pointer=True)
    builder.commit()
    builder.checkpoint(kind="multipart", parts=2)[0].unlink()
    assert [one.path for one in DeltaTable(builder.root).verify().findings] == [str(parts[1])]


@pytest.mark.req("DL-OPS-11")
def test_a_checkpoint_that_the_pointer_names(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), path="a.parquet"))
    (path,) = builder.checkpoint(pointer=True)
    path.unlink()
    (found,) = DeltaTable(builder.root).verify().findings
    assert found == Finding("missing", "checkpoint", str(path), "_last_checkpoint")


@pytest.mark.parametrize("kind", CHECKPOINT_KINDS, ids=str)
def test_checkpoints_of_every_kind_are_sound(builder: DeltaBuilder, kind: dict[str, object]) -> None:
    builder.create(ID, builder.add(ids(1), path="a.parquet"), protocol=builder.features("v2Checkpoint"))
    if kind["kind"] == "multipart":
        builder = DeltaBuilder(builder.root / "other")
        builder.create(ID, builder.add(ids(1), path="a.parquet"))
    builder.checkpoint(**kind, pointer=True)  # type: ignore[arg-type]
    builder.commit()
    assert DeltaTable(builder.root).verify().findings == ()


def test_a_damaged_checkpoint(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), path="a.parquet"))
    (path,) = builder.checkpoint()
    path.write_bytes(b"PAR1")
    builder.commit()
    (found,) = DeltaTable(builder.root).verify().findings
    assert (found.kind, found.what, found.path) == ("damaged", "checkpoint", str(path))


def test_change_data_that_vacuum_may_take_is_not_looked_for(damaged: _Table) -> None:
    (damaged.root / "_change_data" / "cdc.parquet").unlink()
    old = time.time() - 7 * 86_400
    for version in (0, 1):
        os.utime(damaged.builder.log / commit_name(version), (old, old))
    assert damaged.verify().findings == ()


def test_an_older_version(builder: DeltaBuilder) -> None:
    """A table that was opened at a version is verified at that version."""
    first = builder.add(ids(1), path="a.parquet")
    builder.create(ID, first)
    builder.commit(builder.remove(first), builder.add(ids(2), path="b.parquet"))
    (builder.root / "a.parquet").unlink()
    assert DeltaTable(builder.root).verify().is_clean
    (found,) = DeltaTable(builder.root, version=0).verify().findings
    assert (found.path, found.named_by) == (str(builder.root / "a.parquet"), "version 0")


@pytest.mark.req("DL-OPS-11")
def test_what_a_vacuum_takes_meanwhile_is_no_finding(damaged: _Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer removes files, and vacuums them, between the listing and the look at each."""
    opened, builder = DeltaTable(damaged.root), damaged.builder
    adds = list(builder.live().values())
    original = LocalStorage.walk

    def walk(store: LocalStorage, prefix: str, *rest: Any) -> object:
        builder.commit(*(builder.remove(add) for add in adds[:3]), builder.add(ids(9), path="new.parquet"))
        for path in [damaged.vector, *(damaged.root / name for name in ("plain.parquet", "hidden.parquet"))]:
            path.unlink()
        return original(store, prefix, *rest)

    monkeypatch.setattr(LocalStorage, "walk", walk)
    assert opened.verify(depth="footers").findings == ()
    monkeypatch.undo()
    assert opened.verify().findings == ()


def test_what_comes_after_the_listing_is_found_by_its_name(damaged: _Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing need not show everything: what it lacks is asked for, and only what is gone is a finding."""
    monkeypatch.setattr(LocalStorage, "walk", lambda *_: iter(()))
    assert damaged.verify().findings == ()
    (damaged.root / "plain.parquet").unlink()
    assert _shown(damaged.verify()) == [("missing", "data file", "plain.parquet")]


def test_a_directory_that_cannot_be_listed_is_no_loss(damaged: _Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket that lets nobody list it says "not found" of single files."""
    opened = DeltaTable(damaged.root)
    (damaged.root / "plain.parquet").unlink()
    original = LocalStorage.list_from

    def list_from(store: LocalStorage, prefix: str, *rest: object, **named: object) -> object:
        if not prefix.endswith("_delta_log"):
            raise AuthenticationError("403: not yours")
        return original(store, prefix, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalStorage, "list_from", list_from)
    assert opened.verify().counts == {"unchecked": 1}


def test_a_link_that_ends_nowhere_is_no_loss(damaged: _Table) -> None:
    """Neither is a file behind one: the disk that it leads to may not be mounted."""
    (damaged.root / "plain.parquet").unlink()
    (damaged.root / "plain.parquet").symlink_to("/nowhere/plain.parquet")
    assert [one.kind for one in damaged.verify("names").findings] == ["unchecked"]


def test_files_behind_links_are_there(builder: DeltaBuilder, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    builder.root.joinpath("part").symlink_to(tmp_path / "disk")
    builder.create(ID, builder.add(ids(1), path="part/a.parquet"))
    assert DeltaTable(builder.root).verify().findings == ()
    (tmp_path / "disk").rename(tmp_path / "unplugged")
    assert DeltaTable(builder.root).verify().counts == {"unchecked": 1}


@pytest.mark.req("DL-OPS-11")
def test_files_elsewhere(builder: DeltaBuilder, tmp_path: Path) -> None:
    """Those of a shallow clone are asked for by their names. A directory that is not there may be on another disk."""
    elsewhere = tmp_path / "source"
    elsewhere.mkdir()
    adds = [
        builder.add(
            ids(number), path=str(elsewhere / f"{number}.parquet"), log_path=f"file://{elsewhere}/{number}.parquet"
        )
        for number in range(3)
    ]
    builder.create(ID, *adds)
    table = DeltaTable(builder.root)
    assert table.verify(depth="footers").findings == ()
    (elsewhere / "1.parquet").unlink()
    assert _shown(table.verify()) == [("missing", "data file", "1.parquet")]
    elsewhere.rename(tmp_path / "unplugged")
    assert table.verify().counts == {"unchecked": 3}


def test_names_that_are_not_utf_8(damaged: _Table) -> None:
    Path(os.fsdecode(os.fsencode(damaged.root) + b"/\xff.parquet")).write_bytes(b"")
    assert damaged.verify().findings == ()


def test_an_empty_table(builder: DeltaBuilder) -> None:
    builder.create(ID)
    assert DeltaTable(builder.root).verify(depth="footers").findings == ()


def test_how_findings_are_shown(damaged: _Table) -> None:
    for path in damaged.root.glob("*.parquet"):
        path.unlink()
    result = damaged.verify()
    lines = str(result).splitlines()
    assert lines[0] == repr(result).removeprefix("VerifyResult(").removesuffix(")")
    assert lines[0].startswith("version 2, depth footers: 4 missing; checked: 3 commits, 1 checkpoint, 4 data files, ")
    assert len(lines) == 5
    assert lines[1].startswith(
        f"  missing: the data file {damaged.root}/plain.parquet, which version 2 names: expected "
    )
    assert result._repr_html_().count("<tr>") == 5
    many = VerifyResult("version 2", "names", result.findings * 10)
    assert str(many).splitlines()[-1] == "  and 20 more"
    assert "&lt;b&gt;" in VerifyResult("version 2", "names", (Finding("size", "data file", "<b>", "v"),))._repr_html_()


def test_wrong_depths(damaged: _Table) -> None:
    with pytest.raises(InvalidArgumentError, match="depth must be"):
        damaged.verify("all")


def test_paths_that_lead_out_of_the_table_are_refused(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(log_path="../other/a.parquet"))
    with pytest.raises(UnsafePathError, match=r"contains '\.\.'"):
        DeltaTable(builder.root).verify()


def test_a_vector_keeps_its_frame() -> None:
    """The length in front of a vector and the checksum behind it take four bytes each."""
    assert live_names._FRAME == 8
