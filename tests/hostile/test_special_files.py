"""What has the name of a file and is none, or a sparse one, is our own error, in no memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table, write_table
from deltaberg.errors import CorruptLogError, StorageError
from tests.hostile.special_files import KINDS, PLACES

_MIB = 300


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str, str], tuple[str, bool, int]]:
    """What came of every case, read in a process of its own: one that waits for a pipe can be ended."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.hostile.special_files"], capture_output=True, text=True, timeout=240, check=False
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    return {(table, place, kind): tuple(rest) for table, place, kind, *rest in json.loads(finished.stdout)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("table", "place"), PLACES)
def test_each_place(
    table: str, place: str, kind: str, outcomes: dict[tuple[str, str, str], tuple[str, bool, int]]
) -> None:
    outcome, is_named, taken = outcomes[table, place, kind]
    assert not outcome.startswith("not ours")
    # A hint that nobody can follow is passed over, and so is a checkpoint beside the whole log, as damaged ones are.
    # All else is named, and no older version is read in its place.
    # The checksum is asked for here.
    if not PLACES[table, place] or (place, kind) == ("checksum", "sparse file"):
        assert is_named, outcome
    else:
        assert outcome == "rows"
    assert taken < _MIB


@pytest.mark.parametrize("put", ["directory", "named pipe", "link to itself"])
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_the_next_version(tmp_path: Path, format: Any, put: str) -> None:
    """No verb goes on from the version before, or calls it cleaned up."""
    rows = pa.table({"id": [1]})
    write_table(tmp_path, rows, format=format)
    table = open_table(tmp_path)
    next_one = {"delta": f"_delta_log/{1:020d}.json", "iceberg": "metadata/v2.metadata.json"}[format]
    KINDS[put](tmp_path / next_one)
    before = sorted(tmp_path.rglob("*"))
    verbs = [
        table.refresh,
        lambda: table.append(rows),
        lambda: table.delete("id = 1"),
        lambda: open_table(tmp_path),
        lambda: write_table(tmp_path, rows),
    ]
    for verb in verbs:
        with pytest.raises(
            (CorruptLogError, StorageError), match=r"a (directory|named pipe|link that leads to itself) of this name"
        ) as caught:
            verb()
        assert Path(next_one).name in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before
