"""Partition values beyond ASCII: what deltalake changes of our tables is changed for us, and nothing comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table

_ROWS = pa.table({"city": ["Zürich", "Zürich", "東京", "a b%20"], "n": [1, 2, 3, 4]})


@pytest.mark.parametrize("kind", ["delete", "update", "optimize", "restore"])
def test_what_deltalake_changes(tmp_path: Path, kind: str) -> None:
    made = create_table(str(tmp_path), _ROWS.schema, partition_by="city")
    made.append(_ROWS)
    made.append(_ROWS)
    assert all(path.isascii() for path in made.live_files.column("path").to_pylist())
    peer: Any = deltalake.DeltaTable(tmp_path)
    expected = [1, 1, 2, 2, 3, 3, 4, 4]
    if kind == "optimize":
        peer.optimize.compact()
    elif kind == "update":
        peer.update(predicate="n = 2", updates={"n": "20"})
        expected = [1, 1, 3, 3, 4, 4, 20, 20]
    else:
        peer.delete("n = 1")
        expected = expected[2:]
    if kind == "restore":
        peer.restore(1)
        expected = [1, 2, 3, 4]
    table = DeltaTable(tmp_path)
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == expected
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, untracked_hours=0)
    for rows in (DeltaTable(tmp_path).scan().to_arrow(), pa.table(deltalake.DeltaTable(tmp_path).to_pyarrow_table())):
        assert sorted(rows["n"].to_pylist()) == expected
