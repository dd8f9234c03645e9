"""Since when commits record their times, and later than what they are."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.table.commit.commit import ClockedPolicy
from tests.support.delta_builder import commit_name
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend

_TIMES = {"delta.enableInCommitTimestamps": "true"}
_SINCE = "delta.inCommitTimestampEnablementVersion"


def test_a_table_that_is_replaced_says_since_when_times_are_recorded(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID)
    table.append(ids(1))
    table.alter().set(_TIMES).commit()
    assert table.properties[_SINCE] == "2"
    columns = pa.schema([("x", pa.int64())])
    replaced = create_table(tmp_path / "t", columns, properties=_TIMES, if_exists="replace")
    assert replaced.properties[_SINCE] == "2"
    history = DeltaTable(tmp_path / "t", validate=True).history()
    assert [commit.version for commit in history] == [3, 2, 1, 0]
    assert ids_of(DeltaTable(tmp_path / "t", timestamp=history[2].timestamp)) == [1]
    # Without them, nothing says that commits have times.
    plain = create_table(tmp_path / "t", columns, if_exists="replace")
    assert _SINCE not in plain.properties
    assert len(plain.history()) == 5
    again = create_table(tmp_path / "t", columns, properties=_TIMES, if_exists="replace")
    assert again.properties[_SINCE] == "5"


def test_the_first_time_is_later_than_the_file_before(tmp_path: Path) -> None:
    """Also where the clock of the writer is behind that of the store."""
    table = create_table(tmp_path / "t", ID)
    before = tmp_path / "t/_delta_log" / commit_name(0)
    millis = 2_000_000_000_000
    os.utime(before, (millis / 1000, millis / 1000))
    with table.transaction(policy=ClockedPolicy(now=lambda: millis - 3_600_000)) as tx:
        tx.alter().set(_TIMES)
    (info,) = named_actions(tmp_path / "t", 1, "commitInfo")
    assert info["inCommitTimestamp"] == millis + 1
    newest, oldest = DeltaTable(tmp_path / "t").history()
    assert newest.timestamp > oldest.timestamp
    assert DeltaTable(tmp_path / "t", timestamp=oldest.timestamp).version == 0
