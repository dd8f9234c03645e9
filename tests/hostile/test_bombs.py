"""Small files that stand for gigabytes are refused by every decoder, within 300 MiB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.bombs import CASES

_MIB = 300
_SECONDS = 60.0


@pytest.mark.one_backend
@pytest.mark.parametrize("kernels", ["native", pytest.param("python", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", CASES)
def test_bombs(name: str, kernels: str, tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.hostile.bombs", name, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "DELTABERG_KERNELS": kernels},
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    outcome, taken, seconds = json.loads(finished.stdout)
    assert outcome in ("TooLargeError", "CorruptMetadataError"), outcome
    assert taken < _MIB
    assert seconds < _SECONDS
