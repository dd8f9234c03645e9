"""Upkeep of a million files needs little memory: on a disk, and in a store that lists them without having them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.delta_builder import DeltaBuilder
from tests.support.long_listing import LongListing
from tests.support.rows import ID

pytestmark = [pytest.mark.full, pytest.mark.one_backend, pytest.mark.timeout(1200)]

_DIRECTORIES, _FILES = 10_000, 100
_MOST = 300 << 20
_MOST_OF_FILE = 4 << 10
_ADD = '{"add":{"path":"%s","partitionValues":{},"size":1,"modificationTime":0,"dataChange":true}}'
_REMOVE = '{"remove":{"path":"%s","deletionTimestamp":0,"dataChange":true}}'

_WORK = """
import sys
from deltaberg import DeltaTable, create_table
from deltaberg.storage.local import LocalStorage
from tests.support.long_listing import LongListing
from tests.support.memory import peak_memory
from tests.support.rows import ids

root, store, verb, directories, files = *sys.argv[1:4], *map(int, sys.argv[4:])
# What is imported with the first run is not counted.
small = create_table(f"{root}-{verb}", ids().schema)
small.append(ids(1))
small.vacuum(0, dry_run=False, enforce_retention_duration=False)
small.verify()
if store == "listed":
    plain = type("Plain", (LocalStorage,), {"walk": LocalStorage.walk, "delete_many": LocalStorage.delete_many})()
    listing = LongListing(plain, root, directories, files)
    LocalStorage.walk = lambda _, *asked: listing.walk(*asked)
    LocalStorage.delete_many = lambda _, *asked: listing.delete_many(*asked)
before = peak_memory()
if verb == "vacuum":
    done = DeltaTable(root).vacuum(0, dry_run=False, enforce_retention_duration=False)
    print(done.deleted_files, sum(done.kept.values()), peak_memory() - before)
else:
    done = DeltaTable(root).verify()
    print(len(done.findings), done.checked["data file"], peak_memory() - before)
"""


@pytest.mark.req("DL-VAC-02", "DL-VAC-05", "DL-OPS-11")
@pytest.mark.parametrize("store", ["listed", "disk"])
def test_a_million_files(tmp_path: Path, store: str) -> None:
    root, count = tmp_path / "t", _DIRECTORIES * _FILES
    _make(root, on_disk=store == "disk")
    for verb, count_told in (("verify", 0), ("vacuum", count // 10)):
        command = [sys.executable, "-c", _WORK, str(root), store, verb, str(_DIRECTORIES), str(_FILES)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        *counts, peak = map(int, done.stdout.split())
        assert counts == [count_told, count * 9 // 10]
        assert peak < _MOST, (verb, peak >> 20)


def _make(root: Path, *, on_disk: bool) -> None:
    """Make a table of which a tenth of the files was removed after its checkpoint."""
    builder = DeltaBuilder(root)
    names = list(LongListing(None, "", _DIRECTORIES, _FILES).names())  # type: ignore[arg-type]
    builder.create(ID)
    for first in range(0, len(names), 50_000):
        builder.commit_text("\n".join(_ADD % name for name in names[first : first + 50_000]))
    subprocess.run(
        [sys.executable, "-c", "import sys, deltaberg; deltaberg.open_table(sys.argv[1]).checkpoint()", str(root)],
        check=True,
    )
    builder.commit_text("\n".join(_REMOVE % name for name in names[::10]))
    if on_disk:
        for number, name in enumerate(names):
            if number % _FILES == 0:
                (root / name).parent.mkdir()
            (root / name).write_bytes(b"x")


_CLONE = """
import sys
from deltaberg import DeltaTable, create_table
from tests.support.memory import peak_memory
from tests.support.rows import ids

root, shallow = sys.argv[1], sys.argv[2] == "shallow"
small = create_table(f"{root}-small-{shallow}", ids().schema)
small.append(ids(1))
small.clone(f"{root}-cloned-{shallow}", shallow=shallow)
before = peak_memory()
done = DeltaTable(root).clone(f"{root}-{shallow}", shallow=shallow)
print(done.source_files, done.copied_files, peak_memory() - before)
"""


@pytest.mark.req("DL-OPS-06", "DL-OPS-07")
def test_clones_of_many_files(tmp_path: Path) -> None:
    """A commit of many files has an action for each; copies and their names take no more than that again."""
    builder, count = DeltaBuilder(tmp_path / "t"), 100_000
    builder.create(ID)
    builder.commit_text("\n".join(_ADD % f"part-{number:060}.parquet" for number in range(count)))
    for number in range(count):
        (builder.root / f"part-{number:060}.parquet").write_bytes(b"x")
    for kind, copied in (("shallow", 0), ("deep", count)):
        command = [sys.executable, "-c", _CLONE, str(builder.root), kind]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        *counts, peak = map(int, done.stdout.split())
        assert counts == [count, copied]
        assert peak < count * _MOST_OF_FILE, (kind, peak >> 20)
