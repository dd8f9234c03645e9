"""Members of actions with wrong types are refused before a commit is sent, and the table stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.delta.actions.log_action import LogAction
from deltaberg.errors import InvalidArgumentError
from tests.support.below_verbs import engine_of
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend


def _add(**members: Any) -> Callable[[Any], object]:
    plain = {"path": "a", "partitionValues": {}, "size": 5, "modificationTime": 7, "dataChange": True}
    return lambda tx: engine_of(tx).add_actions([LogAction("add", {**plain, **members})])


@pytest.mark.parametrize(
    "change",
    [
        lambda tx: tx.set_domain("app", {"a": 1}),
        lambda tx: tx.set_domain(5, "x"),
        lambda tx: tx.set_domain("", "x"),
        lambda tx: tx.set_domain("app", "\ud800"),
        _add(modificationTime=1.5),
        _add(modificationTime=1 << 70),
        _add(size="5"),
        _add(stats={"numRecords": 1}),
        _add(partitionValues={"x": 5}),
        _add(tags=["a"]),
        _add(dataChange="yes"),
        _add(deletionVector={"storageType": "u"}),
    ],
)
@pytest.mark.parametrize("then", [None, "append"])
def test_wrong_types_are_refused(tmp_path: Path, change: Callable[[Any], object], then: str | None) -> None:
    table = create_table(tmp_path / "t", ID, properties={"delta.feature.domainMetadata": "supported"})
    table.append(ids(1))

    def run() -> None:
        with table.transaction() as tx:
            change(tx)
            if then is not None:
                tx.append(ids(2))

    with pytest.raises(InvalidArgumentError):
        run()
    found = DeltaTable(tmp_path / "t", validate=True)
    assert (found.version, ids_of(found)) == (1, [1])
    table.append(ids(3))
    assert ids_of(DeltaTable(tmp_path / "t")) == [1, 3]


def test_a_new_table_with_a_wrong_domain_is_not_created(tmp_path: Path) -> None:
    wrong: Any = 5
    with pytest.raises(InvalidArgumentError, match="must be text"):
        create_table(tmp_path / "t", ID).transaction().set_domain("app", wrong)
