"""Where rows are that were written to other files, whatever their order, in memory and on disk."""

from __future__ import annotations

import random
import tempfile
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg.schema.types import Field, Primitive
from deltaberg.table.change.positions import RowPositions
from deltaberg.table.maintain import row_trail
from deltaberg.table.maintain.row_trail import RowTrail
from deltaberg.table.read.bound import RowAddress

_ADDRESS = RowAddress(Field("file", Primitive("long")), Field("position", Primitive("long")))


@pytest.mark.parametrize("memory", [1, 1 << 20])
@pytest.mark.parametrize("order", ["kept", "shuffled"])
def test_rows_are_found(rng: random.Random, monkeypatch: pytest.MonkeyPatch, memory: int, order: str) -> None:
    """Parts of any size are noted, and looked through and for in steps; rows of several old files mix in new ones."""
    monkeypatch.setattr(row_trail, "_ROWS", 50)
    monkeypatch.setattr(row_trail, "_WANTED", 30)
    # Numbers of files may have more than 32 bits.
    rows = [(number << 33, position) for number in range(3) for position in range(400) if rng.random() < 0.8]
    if order == "shuffled":
        rng.shuffle(rows)
    new: dict[str, list[tuple[int, int]]] = {"a/1.parquet": [], "a/2.parquet": [], "b.parquet": []}
    with closing(RowTrail(_ADDRESS, memory)) as trail:
        while rows:
            path, count = rng.choice(list(new)), rng.randint(1, 120)
            part, rows = rows[:count], rows[count:]
            columns = {"x": [0] * len(part), "file": [row[0] for row in part], "position": [row[1] for row in part]}
            trail.note(path, pa.table(columns))
            new[path] += part
        for _ in range(3):
            known = [row for path in new for row in new[path]]
            gone = set(rng.sample(known, 100)) | {(0, 5000), (7, 1)}
            wanted = RowPositions()
            for file, position in sorted(gone):
                wanted.add(pa.array([file]), pa.array([position]))
            expected = {path: [at for at, row in enumerate(new[path]) if row in gone] for path in new}
            found = {path: positions.to_pylist() for path, positions in trail.find(wanted)}
            assert found == {path: positions for path, positions in expected.items() if positions}


def test_runs_are_few() -> None:
    """Rows that stay in their order are as many runs as parts, and one more for each gap."""
    with closing(RowTrail(_ADDRESS)) as trail:
        positions = [number for number in range(10_000) if number not in (17, 4000, 4001)]
        trail.note("a", pa.table({"file": [3] * len(positions), "position": positions}))
        trail.note("a", pa.table({"file": [3, 4, 4], "position": [10_000, 0, 1]}))
        assert trail._runs.count == 3 + 2


def test_runs_on_disk_are_small(rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trail of sorted rows has a run for almost each of them: 40 bytes in memory, and not even 12 on disk."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = [(number, position) for number in range(50) for position in range(2000)]
    rng.shuffle(rows)
    with closing(RowTrail(_ADDRESS, memory=1)) as trail:
        trail.note("a", pa.table({"file": [row[0] for row in rows], "position": [row[1] for row in rows]}))
        assert trail._runs.nbytes >= 39 * len(rows)
        # Nothing is read before all is written.
        assert next(trail.runs()).num_rows == trail._runs.count
        (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
        assert file.stat().st_size < 12 * len(rows)
