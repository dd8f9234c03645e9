"""The judge of the tests here, and which of them run only where they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.judge import Judge, JudgeMissingError


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, unless ``--judges`` was given."""
    if config.getoption("--judges"):
        return
    left_out = [item for item in items if item.get_closest_marker("judges")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("judges")]


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """A Spark session with the jars of delta-spark and iceberg-spark, in another process."""
    try:
        started = Judge(tmp_path_factory.mktemp("judge"))
    except JudgeMissingError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield started
    started.close()
