"""Files of which a checkpoint does not say the size are read and changed. Their bytes count as none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltaberg import DeltaTable
from deltaberg.errors import InvalidArgumentError
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of


@pytest.fixture
def table(builder: DeltaBuilder) -> DeltaTable:
    """Return a table of three files, whose log begins with a checkpoint that has no sizes."""
    adds = [builder.add(ids(number, number + 10), path=f"{number}.parquet", stats="full") for number in range(3)]
    builder.create(ID, *adds)
    sizeless = [{"add": {name: value for name, value in add["add"].items() if name != "size"}} for add in adds]
    builder.checkpoint(0, actions=[builder.protocol(1, 2), builder.metadata(ID), *sizeless])
    (builder.log / commit_name(0)).unlink()
    return DeltaTable(builder.root)


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda table: table.delete("id IN (1, 11)"), [0, 2, 10, 12]),
        (lambda table: table.delete("id = 1"), [0, 2, 10, 11, 12]),
        (lambda table: table.delete(None), []),
        (lambda table: table.update({"id": "5"}, "id = 1"), [0, 2, 5, 10, 11, 12]),
        (lambda table: table.overwrite(ids(7)), [7]),
        (lambda table: table.upsert(ids(1, 8), "id"), [0, 1, 2, 8, 10, 11, 12]),
        (lambda table: table.compact(), [0, 1, 2, 10, 11, 12]),
    ],
)
def test_rows_are_changed(table: DeltaTable, change: Callable[[DeltaTable], Any], left: list[int]) -> None:
    change(table)
    assert ids_of(DeltaTable(table.location)) == left
    assert all(remove.get("size", 0) == 0 for remove in named_actions(Path(table.location), 1, "remove"))
    metrics = table.history(1)[0].info.get("operationMetrics", {})
    assert metrics.get("numRemovedBytes", "0") == "0"


def test_a_lost_file_leaves(table: DeltaTable) -> None:
    Path(table.location, "1.parquet").unlink()
    result = table.repair()
    assert [(file.path, file.size, file.rows) for file in result.files] == [("1.parquet", 0, 2)]
    assert result.commit is not None
    assert (result.commit.removed_files, result.commit.removed_bytes) == (1, 0)
    assert ids_of(DeltaTable(table.location)) == [0, 2, 10, 12]


def test_a_clone_would_have_to_record_it(table: DeltaTable) -> None:
    with pytest.raises(InvalidArgumentError, match="the action add has no size, which the protocol requires"):
        table.clone(f"{table.location}-copy")
