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
    ("change", "error"),
    [
        (lambda tx: tx.set_domain("app", {"a": 1}), "the configuration of the domain app must be text"),
        (lambda tx: tx.set_domain(5, "x"), "the domain must be text that is not empty, not 5"),
        (lambda tx: tx.set_domain("", "x"), "the domain must be text that is not empty, not ''"),
        (lambda tx: tx.set_domain("app", "\ud800"), "is not valid Unicode"),
        (_add(modificationTime=1.5), "modificationTime must be a 64-bit integer"),
        (_add(modificationTime=1 << 70), "modificationTime must be a 64-bit integer"),
        (_add(size="5"), "size must be a "),
        (_add(stats={"numRecords": 1}), "stats must be a string"),
        (_add(partitionValues={"x": 5}), "values for exactly the partition columns"),
        (_add(tags=["a"]), "tags must be an object"),
        (_add(dataChange="yes"), "dataChange must be a boolean"),
        (_add(deletionVector={"storageType": "u"}), "needs the members storageType and pathOrInlineDv"),
    ],
)
@pytest.mark.parametrize("then", [None, "append"])
def test_wrong_types_are_refused(tmp_path: Path, change: Callable[[Any], object], error: str, then: str | None) -> None:
    table = create_table(tmp_path / "t", ID, properties={"delta.feature.domainMetadata": "supported"})
    table.append(ids(1))

    def run() -> None:
        with table.transaction() as tx:
            change(tx)
            if then is not None:
                tx.append(ids(2))

    with pytest.raises(InvalidArgumentError, match=error):
        run()
    found = DeltaTable(tmp_path / "t", validate=True)
    assert (found.version, ids_of(found)) == (1, [1])
    table.append(ids(3))
    assert ids_of(DeltaTable(tmp_path / "t")) == [1, 3]


def test_a_new_table_with_a_wrong_domain_is_not_created(tmp_path: Path) -> None:
    wrong: Any = 5
    with pytest.raises(InvalidArgumentError, match="must be text"):
        create_table(tmp_path / "t", ID).transaction().set_domain("app", wrong)
