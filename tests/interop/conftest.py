"""The judge of the tests here, the catalog of pyiceberg, and which of them run only where they are asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.interop.judged_catalogs import JudgedCatalog, sharing
from tests.support import untried
from tests.support.judge import Judge, JudgeMissingError
from tests.support.untried import UNTRIED


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, unless ``--judges`` was given: of the tests that the run asks for by other means."""
    if config.getoption("--judges"):
        return
    left_out = [item for item in items if item.get_closest_marker("judges")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        config.stash[UNTRIED].leave_out(untried.JUDGES, len(left_out))
        items[:] = [item for item in items if not item.get_closest_marker("judges")]


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """A Spark session with the jars of delta-spark and iceberg-spark, in another process."""
    try:
        started = Judge(tmp_path_factory.mktemp("judge"))
    except JudgeMissingError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        untried.ENGINES.skip(str(error))
    yield started
    started.close()


@pytest.fixture(scope="session")
def judged_catalog(judge: Judge) -> Iterator[Callable[[str], JudgedCatalog]]:
    """What gives the judge's catalog of a kind, made when it is first asked for."""
    with ExitStack() as stack:
        yield cache(lambda kind: stack.enter_context(sharing(kind, judge)))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlCatalog]:
    """A catalog of pyiceberg in SQLite over a warehouse of files."""
    folder = tmp_path_factory.mktemp("warehouse")
    made = SqlCatalog("local", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    made.create_namespace("db")
    yield made
    made.close()
