"""Small files that stand for gigabytes are refused by every decoder, within 300 MiB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.hostile.bombs import CASES

_MIB = 300


@cache
def _outcomes(kernels: str, folder: Path) -> dict[str, tuple[str, int]]:
    """What came of every case, read in a process of its own."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.hostile.bombs", str(folder)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, "DELTABERG_KERNELS": kernels},
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    return dict(zip(CASES, map(json.loads, finished.stdout.splitlines()), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for the files."""
    return tmp_path_factory.mktemp("bombs")


@pytest.mark.one_backend
@pytest.mark.parametrize("kernels", ["native", pytest.param("python", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", CASES)
def test_bombs(name: str, kernels: str, folder: Path) -> None:
    outcome, taken = _outcomes(kernels, folder)[name]
    assert outcome in ("TooLargeError", "CorruptMetadataError", "CorruptCheckpointError"), outcome
    # What Parquet decodes is only known afterwards, batch by batch.
    assert taken < (_MIB if "checkpoint" not in name else 1500)
