"""Manifests of symlinks are those that delta-spark writes of the same table, and it deletes and replaces ours."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from tests.support.judge import Judge

_VALUES = ["a b", "a%20b", "ü", "x=y/z", "#?", None, "", "+"]


def _manifests(root: Path) -> dict[str, list[str]]:
    folder = root / "_symlink_format_manifest"
    return {
        str(path.parent.relative_to(folder)): sorted(path.read_text().splitlines()) for path in folder.rglob("manifest")
    }


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("partition_by", [None, "p", ["n", "p"]])
def test_the_same_manifests(judge: Judge, tmp_path: Path, partition_by: str | list[str] | None) -> None:
    root = tmp_path / "t"
    rows = pa.table({"id": range(len(_VALUES)), "n": pa.array(range(len(_VALUES)), pa.int32()), "p": _VALUES})
    table: DeltaTable = create_table(root, rows.schema, partition_by=partition_by)
    table.append(rows)
    table.generate()
    ours = _manifests(root)
    judge.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{root}`")
    assert _manifests(root) == ours
    assert len(ours) == (1 if partition_by is None else len(_VALUES) - (partition_by == "p"))
    table.delete("id < 3 OR p = '+'")
    # Its checksums of the files that it wrote must not fail what it reads of ours.
    table.generate()
    levels = 0 if partition_by is None else len(table.partition_columns)
    lines = judge.sql(f"SELECT value FROM text.`{root}/_symlink_format_manifest/{'*/' * levels}manifest`")
    after = _manifests(root)
    assert sorted(lines["value"].to_pylist()) == sorted(line for found in after.values() for line in found)
    judge.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{root}`")
    assert _manifests(root) == after
