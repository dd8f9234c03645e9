"""Sets of rows that are gathered in bounded memory."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from deltaberg.files.read.bitmaps import load_bitmap
from deltaberg.files.read.task import BitmapRef
from deltaberg.kernels import bitmap_positions
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.change.positions import RowPositions


@pytest.mark.parametrize("waiting", [0, 200, 1 << 20])
def test_against_sets(seed: int, waiting: int) -> None:
    """Rows come in any order and more than once, and are put into bitmaps early or late."""
    generator = random.Random(seed)
    positions, model = RowPositions(waiting), dict[int, set[int]]()
    for _ in range(60):
        rows = [(generator.randrange(4), generator.choice([0, 7, 2**33]) + generator.randrange(50)) for _ in range(20)]
        positions.add(pa.array([file for file, _ in rows], pa.int64()), pa.array([row for _, row in rows], pa.int64()))
        for file, row in rows:
            model.setdefault(file, set()).add(row)
        if generator.random() < 0.3:
            file = generator.randrange(4)
            assert positions.count(file) == len(model.get(file, ()))
    assert positions.numbers == sorted(model)
    assert positions.total == sum(map(len, model.values()))
    for file, rows_of_file in model.items():
        assert positions.positions(file).to_pylist() == sorted(rows_of_file)
        some = sorted(generator.sample(range(60), 20))
        assert positions.mask(file, pa.array(some, pa.int64())).to_pylist() == [one in rows_of_file for one in some]
    nothing, first = positions.references([9, 0]).to_pylist()
    assert nothing is None
    assert set(bitmap_positions(load_bitmap(BitmapRef(**first), StoreSpec(), True), 1 << 20).to_pylist()) == model[0]
    assert positions.mask(9, pa.array([0, 5])).to_pylist() == [False, False]
    assert positions.mask(0, pa.array([], pa.int64())).to_pylist() == []
