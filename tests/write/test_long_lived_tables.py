"""A table that stays open for many commits does not keep them all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.delta.snapshot import snapshot
from tests.support.recorder import Recorder


def test_a_table_that_stays_open_goes_on_from_a_checkpoint(
    tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_MOST_ADDED", 20)
    writer = create_table(tmp_path / "t", {"id": pa.int64()})
    reader = DeltaTable(tmp_path / "t")
    bases = []
    for number in range(40):
        writer.append(pa.table({"id": [number]}))
        recorder.clear()
        reader.refresh()
        assert recorder.commits == [number + 1]
        bases.append(None if reader.base_checkpoint is None else reader.base_checkpoint.version)
    # The newest checkpoint is read each 21st time.
    assert bases == [None] * 20 + [20] * 20
    assert sorted(reader.scan().to_arrow()["id"].to_pylist()) == list(range(40))
    writer.refresh()
    assert sorted(writer.scan().to_arrow()["id"].to_pylist()) == list(range(40))
