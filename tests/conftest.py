"""Fixtures and markers for all tests.

Tests name the rules that they prove: ``@pytest.mark.req("DL-DV-10", half="reader")``. ``tests/support/proofs.py``
checks the marks against REQUIREMENTS.md and, with ``--requirements FILE``, writes what the run proved.
"""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.chance import SEED, NewSeeds, fix_examples, is_random, seed_of
from tests.support.compared_reads import ComparedReads, mark_first_proofs
from tests.support.delta_builder import DeltaBuilder
from tests.support.examples import Examples
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.proofs import Proofs
from tests.support.recorder import Recorder
from tests.support.requirements import load_requirements
from tests.support.roads import Road, road_names
from tests.support.scratch import prefer_memory
from tests.support.shared import require_shared
from tests.support.untried import UNTRIED, Untried
from tests.support.watchdog import Watchdog

# Spark starts the interpreter of this environment, not the system's.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
prefer_memory()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements", metavar="FILE", help="write what the marked tests proved to a JSON file")
    parser.addoption("--random-seed", metavar="N", help="another seed of random tests, or `new` for any; it is printed")
    parser.addoption("--explore", action="store_true", help="run only the tests with random examples")
    parser.addoption("--record-examples", metavar="FILE", help="write a digest of the examples of each random test")
    parser.addoption("--judges", action="store_true", help="run also the tests marked judges")


def pytest_configure(config: pytest.Config) -> None:
    given = config.getoption("--random-seed")
    config.stash[SEED] = seed_of(given)
    fix_examples(given, config.stash[SEED])
    if given is not None:
        config.pluginmanager.register(NewSeeds(config.stash[SEED]))
    recorded = config.getoption("--record-examples")
    if recorded:
        config.pluginmanager.register(Examples(Path(recorded)))
    target = config.getoption("--requirements")
    config.pluginmanager.register(Proofs(load_requirements(), Path(target) if target else None))
    config.stash[UNTRIED] = Untried()
    config.pluginmanager.register(config.stash[UNTRIED])
    config.pluginmanager.register(Watchdog())


#: Folders of tests that run both backends themselves (``kernels``), or do not depend on which of them runs.
_ONE_BACKEND = {"kernels", "storage"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what runs once, before tests are chosen by their marks."""
    if config.getoption("--explore"):
        config.hook.pytest_deselected(items=[item for item in items if not is_random(item)])
        items[:] = filter(is_random, items)
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in _ONE_BACKEND:
            item.add_marker("one_backend")
    mark_first_proofs(items)


def pytest_collection_finish() -> None:
    """Leave alone what collecting has made: a full collection of garbage would look at it for a second each time."""
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    from deltaberg import kernels

    backend = kernels.report()
    return f"deltaberg kernels: {backend.backend} ({backend.reason}); --random-seed {config.stash[SEED]}"


@pytest.fixture(autouse=True, scope="session")
def _kernels_for_small_files() -> Iterator[None]:
    """Have the kernel decode the files of tests, too, though they are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deltaberg.files.formats.parquet.LEAST_ROWS", 0)
        yield


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of random tests."""
    return request.config.stash[SEED]


@pytest.fixture
def rng(seed: int) -> random.Random:
    """A random generator, which each test has anew."""
    return random.Random(seed)


@pytest.fixture
def builder(tmp_path: Path) -> DeltaBuilder:
    """A Delta table under construction."""
    return DeltaBuilder(tmp_path / "table")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Records what the local store is asked for."""
    return Recorder(monkeypatch)


@pytest.fixture
def table_path(tmp_path: Path) -> str:
    """A table of three rows, for docstring examples."""
    made = DeltaBuilder(tmp_path / "example")
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
    made.create(rows.schema, made.add(rows, stats="full"))
    return str(made.root)


@pytest.fixture
def iceberg_path(tmp_path: Path) -> str:
    """The same three rows as an Iceberg table."""
    made = IcebergBuilder(tmp_path / "iceberg-example", {"id": "long", "name": "string"})
    made.commit(made.data([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}]))
    return str(made.root)


@pytest.fixture
def table(table_path: str) -> Any:
    """The example table, open."""
    from deltaberg import open_table

    return open_table(table_path)


@pytest.fixture(scope="session")
def conformance() -> Path:
    """The folder of tables that other engines wrote; missing, it fails in CI and skips elsewhere."""
    return require_shared() / "conformance"


@pytest.fixture(scope="session")
def catalog_of_spark(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The properties of a catalog that the processes of the Spark session, and no others, know as ``of-spark``."""
    folder = tmp_path_factory.mktemp("of-spark")
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": str(folder),
        "s3.secret-access-key": "NotToBeSeen",
    }


@pytest.fixture(scope="session")
def spark(catalog_of_spark: dict[str, str]) -> Iterator[Any]:
    """A Spark session without any jar of a table format."""
    from tests.support.spark_session import start_session

    with pytest.MonkeyPatch.context() as patch:
        # Spark's processes get what its JVM has when it starts.
        for name, value in catalog_of_spark.items():
            spelled = name.replace(".", "__").replace("-", "_").upper()
            patch.setenv(f"PYICEBERG_CATALOG__OF_SPARK__{spelled}", value)
        session = start_session()
    yield session
    session.stop()


@pytest.fixture(params=road_names())
def road(request: pytest.FixtureRequest) -> Road:
    """How rows are read: on this machine, and through Spark."""
    session = request.getfixturevalue("spark") if request.param != "local" else None
    return Road(request.param, session)


@pytest.fixture(params=road_names())
def every_road(request: pytest.FixtureRequest) -> Iterator[None]:
    """What ``@by_every_road`` does to a test: on Spark, its scans are read by both roads and compared."""
    if request.param == "local":
        yield
        return
    reads = ComparedReads(Road(request.param, request.getfixturevalue("spark")))
    with pytest.MonkeyPatch.context() as patch:
        reads.take_over(patch)
        yield
    assert reads.count, "the test reads no scan: what it proves, it proves on this machine alone"
