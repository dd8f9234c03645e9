"""A year of streaming commits with daily maintenance: neither log nor files, memory nor openings grow."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

#: Commits of a day: 20,000 a year.
_COMMITS = 55
#: After so many days it is told how far the table has come.
_TOLD = 30


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("days", "log_days", "file_days"),
    [
        pytest.param(7, 2, 1, id="week", marks=pytest.mark.slow),
        pytest.param(365, 30, 7, id="year", marks=[pytest.mark.full, pytest.mark.timeout(5400)]),
    ],
)
def test_nothing_grows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], days: int, log_days: int, file_days: int
) -> None:
    """A year takes minutes, so that it says how far it is."""
    command = [sys.executable, "-m", "tests.support.simulated_days", str(tmp_path / "t")]
    command += map(str, (days, _COMMITS, log_days, file_days))
    begun, lines_read = time.monotonic(), list[dict[str, Any]]()
    with (tmp_path / "errors").open("w+") as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as running:
            assert running.stdout is not None
            for line in running.stdout:
                lines_read.append(json.loads(line))
                if len(lines_read) % _TOLD == 0:
                    with capsys.disabled():
                        print(f"\nsimulated {len(lines_read)} of {days} days in {time.monotonic() - begun:.0f} s")
        errors.seek(0)
        assert running.returncode == 0, errors.read()
    assert [one["rows"] for one in lines_read] == [(_COMMITS - 2) * day for day in range(1, days + 1)]
    assert lines_read[-1]["progress"] == days * _COMMITS - 2
    # A maintenance makes up to three commits, and the clean-up keeps whole days before its newest old checkpoint.
    most = (log_days + 3) * (_COMMITS + 3)
    assert max(one["log_files"] for one in lines_read) <= most
    assert max(one["checkpoints"] for one in lines_read) <= most // 10 + log_days + 5
    assert max(one["data_files"] for one in lines_read) <= (file_days + 3) * (_COMMITS + 2)
    assert {one["live_files"] for one in lines_read} == {1}
    # Commits write checkpoints and clean up the log themselves.
    assert {step for one in lines_read for step in one["due"]} == {"compact", "vacuum"}
    # From when on all retentions have been reached, a day is like the other.
    steady = lines_read[log_days + 2 :]
    early, late = steady[: len(steady) // 4 + 1], steady[-(len(steady) // 4 + 1) :]
    assert all(one["is_read"] for one in lines_read)
    if len(late) > 10:
        assert median(one["open_seconds"] for one in late) <= 3 * median(one["open_seconds"] for one in early) + 0.1
    assert late[-1]["checkpoint_bytes"] <= 2 * max(one["checkpoint_bytes"] for one in early) + 20_000
    assert late[-1]["memory"] - early[0]["memory"] < 48 << 20
