"""What has the name of a file and is none, or a sparse one, is our own error, in no time and no memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.hostile.special_files import KINDS, PLACES

_MIB = 300
_SECONDS = 20.0


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str, str], tuple[str, bool, int, float]]:
    """What came of every case, read in a process of its own: one that waits for a pipe can be ended."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.hostile.special_files"], capture_output=True, text=True, timeout=240, check=False
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    return {(table, place, kind): tuple(rest) for table, place, kind, *rest in json.loads(finished.stdout)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("table", "place"), PLACES)
def test_each_place(
    table: str, place: str, kind: str, outcomes: dict[tuple[str, str, str], tuple[str, bool, int, float]]
) -> None:
    outcome, is_named, taken, seconds = outcomes[table, place, kind]
    assert not outcome.startswith("not ours")
    # A hint that nobody can follow, or a directory in the place of a file, is passed over.
    may_be_absent = PLACES[table, place] or kind == "directory" or place.endswith("checkpoint")
    assert is_named or (may_be_absent and outcome in ("rows", "TableNotFoundError", "CorruptLogError")), outcome
    assert outcome != "rows" or PLACES[table, place] or (kind, place) == ("directory", "log entry")
    assert taken < _MIB
    assert seconds < _SECONDS
