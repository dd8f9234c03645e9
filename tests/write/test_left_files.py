"""What killed writers leave under hidden names: a clean-up of either format takes it by its age."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend

_OLD = 946_684_800
_HIDDEN = "hidden: its path has a part that begins with _ or ."


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_what_killed_writers_leave(tmp_path: Path, format: Any) -> None:
    table: Any = create_table(tmp_path / "t", pa.schema({"id": pa.int64()}), format=format)
    table.append(ids(1))
    run, number = uuid.uuid4(), uuid.uuid4().hex
    go = [f"data/.deltaberg-{number}.tmp", f".deltaberg-probe-{number}", f"{run}/_temporary/0/task_1/part-0.parquet"]
    go += [f"{run}/_temporary/0/_temporary/attempt_1/.part-1.parquet.crc"]
    stay = [f"_x/.deltaberg-{number}.tmp", ".deltaberg-x.tmp", "_temporary/0/x.parquet", f"{run}/_x", "a/_temporary/x"]
    young = f"data/.deltaberg-{uuid.uuid4().hex}.tmp"
    for name in (*go, *stay, young):
        path = tmp_path / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        if name != young:
            os.utime(path, (_OLD, _OLD))
    done = table.vacuum(dry_run=False) if format == "delta" else table.remove_orphan_files(dry_run=False)
    assert sorted(done.files["path"].to_pylist()) == sorted(go)
    assert done.kept[_HIDDEN] == len(stay)
    assert all((tmp_path / "t" / name).exists() for name in (*stay, young))
    assert not any((tmp_path / "t" / name).exists() for name in go)
    assert ids_of(table) == [1]
