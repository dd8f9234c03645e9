"""The cache of delete files never serves a different file of the same name."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies

from deltaberg import open_table
from deltaberg.errors import CorruptDataFileError, DataFileNotFoundError
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.read import deletes
from deltaberg.files.read.delete_cache import KeptReads
from deltaberg.files.read.reader import read_task
from deltaberg.files.read.task import DeleteFile, tasks_of
from deltaberg.schema.types import Field, Primitive
from deltaberg.storage.base import ObjectMeta, Storage
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.location import Location, PathResolver
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.read.scan import bound_scan
from deltaberg.table.read.sharing import grouped_tasks
from tests.support.effort import unhurried
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile
from tests.support.recorder import Recorder
from tests.support.roads import Road


def _ids(builder: IcebergBuilder) -> list[int]:
    return sorted(open_table(builder.root).scan(columns=["id"]).to_arrow().column("id").to_pylist())


def _made(root: Path, kind: str, gone: int) -> tuple[IcebergBuilder, IcebergFile]:
    """Write a table with the rows 0 to 9, one of which is deleted."""
    builder = IcebergBuilder(root, {"id": "long"})
    file = builder.data([{"id": number} for number in range(10)])
    builder.commit(file)
    deleting = (
        builder.position_deletes([(file, gone)])
        if kind == "position"
        else builder.equality_deletes([1], [{"id": gone}])
    )
    builder.commit(deleting)
    return builder, deleting


@pytest.mark.parametrize("kind", ["position", "equality"])
def test_a_table_that_is_made_again_in_the_same_place(tmp_path: Path, kind: str) -> None:
    """The files of the new table have the names and sizes of those of the old one."""
    root = tmp_path / "t"
    before, old = _made(root, kind, 3)
    assert _ids(before) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    modified = Path(old.path).stat().st_mtime_ns
    shutil.rmtree(root)
    after, new = _made(root, kind, 7)
    assert (new.path, new.size) == (old.path, old.size)
    # The clock of a file system may be coarse, and it may give the same node again.
    os.utime(new.path, ns=(modified, modified + 5_000_000))
    assert _ids(after) == [0, 1, 2, 3, 4, 5, 6, 8, 9]


def test_names_that_stand_for_other_columns(tmp_path: Path) -> None:
    """A delete file without ids is read by the current name mapping of the table, not by an older one."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "other": "long"})
    builder.commit(builder.data([{"id": number, "other": -number} for number in range(5)]))
    names = ["x", "y"]
    fields = [{"id": number, "name": name, "required": False, "type": "long"} for number, name in enumerate(names, 1)]
    deleting = builder.data([{"x": 2, "y": 4}], fields=fields, ids=False)
    deleting.content, deleting.equality_ids = 2, [1]
    builder.commit(deleting)
    ids_left = []
    for name in names:
        mapping = [{"field-id": 1, "names": ["id", name]}, {"field-id": 2, "names": ["other"]}]
        builder.properties["schema.name-mapping.default"] = json.dumps(mapping)
        builder.write()
        ids_left.append(_ids(builder))
    assert ids_left == [[0, 1, 3, 4], [0, 1, 2, 3]]


class _Elsewhere(StoreSpec):
    """A store whose objects lie in one directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__({})
        object.__setattr__(self, "storage", _Below(directory))

    def open(self, location: Location) -> Storage:
        """Return the store."""
        del location
        found: Storage = self.__dict__["storage"]
        return found


class _Below(LocalStorage):
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def head(self, path: str) -> ObjectMeta:
        """Describe a file the way a store does that knows little about it."""
        size = super().head(str(self.directory / path)).size
        return ObjectMeta(path, size, 0)

    def open(self, path: str, *rest: Any, **options: Any) -> Any:
        """Open a file."""
        return super().open(str(self.directory / path), *rest, **options)


def test_stores_that_have_the_same_path(tmp_path: Path) -> None:
    deleted_rows = []
    for number in (3, 7):
        builder, file = _made(tmp_path / str(number), "equality", number)
        layout = FileLayout(by_id=True, keys=(Field("id", Primitive("long"), id=1),))
        place = DeleteFile(f"s3://b/{Path(file.path).name}", "parquet", file.size, (1,))
        (keys,) = deletes.equality_deletes([place], _Elsewhere(builder.root / "data"), layout)
        named = keys.deleted([pa.array(range(10), pa.int64())]).to_pylist()
        deleted_rows.append([at for at, deleted in enumerate(named) if deleted])
    assert deleted_rows == [[3], [7]]


def test_many_delete_files_of_a_bucket(tmp_path: Path) -> None:
    """All files are described in one request. A missing one is named."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    files = [builder.equality_deletes([1], [{"id": number}]) for number in range(40)]
    places = [DeleteFile(f"s3://b/{Path(file.path).name}", "parquet", file.size, (1,)) for file in files]
    layout = FileLayout(by_id=True, keys=(Field("id", Primitive("long"), id=1),))
    store = _Elsewhere(builder.root / "data")
    (keys,) = deletes.equality_deletes(places, store, layout)
    assert keys.deleted([pa.array([-1, 0, 17, 39, 40], pa.int64())]).to_pylist() == [False, True, True, True, False]
    Path(files[23].path).unlink()
    with pytest.raises(DataFileNotFoundError, match="a delete file is gone") as raised:
        deletes.equality_deletes(places, store, layout)
    assert raised.value.context["delete_file"] == places[23].location


@pytest.fixture
def heads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often files are described."""
    counts: Counter[str] = Counter()
    original = LocalStorage.head

    def head(store: LocalStorage, path: str) -> ObjectMeta:
        counts[Path(path).name] += 1
        return original(store, path)

    monkeypatch.setattr(LocalStorage, "head", head)
    return counts


def test_a_store_is_asked_once_for_each_state_of_a_table(tmp_path: Path, heads: Counter[str]) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    files = [builder.data([{"id": 10 * at + number} for number in range(10)]) for at in range(6)]
    builder.commit(*files)
    deleting = [builder.equality_deletes([1], [{"id": 11}]), builder.equality_deletes([1], [{"id": 52}])]
    deleting += [builder.position_deletes([(file, at) for file in files]) for at in (4, 5)]
    builder.commit(*deleting)
    table = open_table(builder.root)
    heads.clear()
    assert [table.scan(threads=threads).count() for threads in (1, 3)] == [46, 46]
    assert {name: heads[name] for name in (Path(file.path).name for file in deleting)} == dict.fromkeys(
        (Path(file.path).name for file in deleting), 1
    )
    open_table(builder.root).scan().to_arrow()
    assert {heads[Path(file.path).name] for file in deleting} == {2}


def test_what_was_read_first_is_dropped_first() -> None:
    kept, reads = KeptReads(100), []

    def read(name: str, size: int) -> str:
        def work() -> tuple[str, int]:
            reads.append(name)
            return name, size

        return kept.get(name, work)

    for name in "abacba":
        assert read(name, 40) == name
    # The c took the place of the b, and the b that of the a.
    assert reads == ["a", "b", "c", "b", "a"]
    assert read("more than all", 500) == read("more than all", 500)
    assert reads[5:] == ["more than all"]


def test_a_failure_is_not_kept() -> None:
    kept = KeptReads()

    def fail() -> tuple[str, int]:
        raise CorruptDataFileError("no")

    for _ in range(2):
        with pytest.raises(CorruptDataFileError, match="no"):
            kept.get("a", fail)
    assert kept.get("a", lambda: ("found", 1)) == "found"


def _upserts(tmp_path: Path, commits: int, rows: int, keys: int) -> tuple[IcebergBuilder, list[int], list[str]]:
    """Write a table like a stream of upserts: each commit adds rows and deletes rows of all earlier commits."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    live: set[int] = set()
    names = []
    for at in range(commits):
        gone = [(7 * number + at) % max(at * rows, 1) for number in range(keys)]
        live -= set(gone)
        live |= set(new := range(at * rows, (at + 1) * rows))
        deleting = builder.equality_deletes([1], [{"id": number} for number in gone])
        builder.commit(builder.data([{"id": number} for number in new]), deleting)
        names.append(Path(deleting.path).name)
    return builder, sorted(live), names


@pytest.mark.parametrize("threads", [1, 4])
def test_each_delete_file_is_read_once(
    tmp_path: Path, key_rows: dict[str, int], recorder: Recorder, threads: int
) -> None:
    """This holds for any number of sets of delete files, with little work for each set."""
    commits, rows, keys = 21, 30, 5
    builder, live, names = _upserts(tmp_path, commits, rows, keys)
    scan = open_table(builder.root).scan(columns=["id"], threads=threads)
    assert sorted(scan.to_arrow().column("id").to_pylist()) == live
    # No data file is older than the first delete file.
    assert [recorder.read.count(name) for name in names] == [0, *[1] * (commits - 1)]
    # Of the sets of 1 to 20 files, those of 8 and of 16 are shared by all larger ones.
    assert key_rows["index_keys"] == keys * (sum(range(8)) + 8 + sum(range(8)) + 16 + sum(range(5)))
    assert key_rows["contains_keys"] == rows * (8 + 7 + 1 + 4 + 7 + 4)


def test_upserts(tmp_path: Path, road: Road) -> None:
    builder, live, _ = _upserts(tmp_path, 12, 20, 6)
    assert road.column(open_table(builder.root).scan(), "id") == live


def test_keys_of_some_columns_beside_keys_of_others(tmp_path: Path, rng: random.Random) -> None:
    """Delete files come in one order, whether they compare several columns, and whether they are for all partitions."""
    builder = IcebergBuilder(
        tmp_path / "t",
        {"p": "string", "a": "long", "b": "string"},
        specs=[[{"source-id": 1, "name": "p", "transform": "identity"}], []],
    )
    live: list[dict[str, Any]] = []
    for _ in range(25):
        part = rng.choice("xy")
        names = rng.choice([["a"], ["b"], ["a", "b"], ["b", "a"]])
        keys = [
            {name: rng.randrange(12) if name == "a" else rng.choice(["", "u", None]) for name in names}
            for _ in range(rng.randrange(1, 4))
        ]
        ids = [2 if name == "a" else 3 for name in names]
        is_global = rng.random() < 0.4
        place: dict[str, Any] = {"spec_id": 1} if is_global else {"partition": {"p": part}}
        live = [
            row
            for row in live
            if not ((is_global or row["p"] == part) and any(all(row[k] == key[k] for k in key) for key in keys))
        ]
        new = [{"p": part, "a": rng.randrange(12), "b": rng.choice(["", "u", None])} for _ in range(8)]
        builder.commit(
            builder.data(new, partition={"p": part}), builder.equality_deletes(ids, keys, format="parquet", **place)
        )
        live += new
    found = open_table(builder.root).scan().to_arrow().to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, live))


@unhurried()
@given(strategies.integers(0, 5_000))
def test_runs_of_files(count: int) -> None:
    runs = deletes._runs(count)
    assert [place for start, stop in runs for place in range(start, stop)] == list(range(count))
    assert len(runs) <= 5


def test_each_path_of_a_delete_file_is_followed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete files are not read once for each data file."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    files = [builder.data([{"id": 10 * at + number} for number in range(3)]) for at in range(15)]
    builder.commit(*files)
    builder.commit(*[builder.position_deletes([(file, at) for file in files]) for at in (0, 2)])
    scan = bound_scan(open_table(builder.root).scan(columns=["id"]))
    spec, groups = scan.read_spec, grouped_tasks(scan, 1)
    counts: Counter[str] = Counter()
    original = PathResolver.resolve

    def resolve(resolver: PathResolver, raw: str) -> Location:
        counts[raw] += 1
        return original(resolver, raw)

    monkeypatch.setattr(PathResolver, "resolve", resolve)
    tasks = [task for group in groups for task in tasks_of(group)]
    ids = [row["id"] for task in tasks for batch in read_task(spec, task) for row in batch.to_pylist()]
    assert sorted(ids) == [10 * at + 1 for at in range(15)]
    assert counts == {file.path: 2 for file in files}


def test_paths_that_take_turns(tmp_path: Path) -> None:
    """A delete file may be unsorted, and may spell a path in two ways."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    files = [builder.data([{"id": 10 * at + number} for number in range(6)]) for at in range(3)]
    paths = [file.path for file in files]
    other = Path(paths[1]).as_uri()
    pairs = [(paths[1], 4), (paths[0], 3), (other, 1), (paths[1], 0), ("/elsewhere", 5), (paths[0], 3), (other, 4)]
    found = builder.position_deletes([(files[0], 0)])
    table = pa.Table.from_pylist([{"file_path": path, "pos": at} for path, at in pairs], pq.read_schema(found.path))
    pq.write_table(table, found.path)
    found.size = Path(found.path).stat().st_size
    builder.commit(*files, found)
    left = {0: [0, 1, 2, 4, 5], 1: [2, 3, 5], 2: range(6)}
    assert _ids(builder) == [10 * at + number for at in left for number in left[at]]
