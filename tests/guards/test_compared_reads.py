"""``@by_every_road`` notices what Spark reads or plans otherwise, and says which tests `make test` leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import Scan, open_table
from deltaberg.errors import DataFileNotFoundError
from tests.support.compared_reads import ComparedReads
from tests.support.delta_builder import DeltaBuilder
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.roads import Road
from tests.support.rows import ID, ids

pytest_plugins = "pytester"
pytestmark = pytest.mark.one_backend
_Read = Callable[[Scan], pa.Table]


class _Changed(Road):
    """A road that changes what this machine reads."""

    def __init__(self, read: _Read) -> None:
        super().__init__("spark", None)
        self._read = read

    def table(self, scan: Scan) -> pa.Table:
        return self._read(scan)


_LOCAL = Scan.to_arrow


def _compare(builder: DeltaBuilder, read: _Read, **scan: Any) -> pa.Table:
    builder.create(ID, builder.add(ids(1, 2, 3), path="f.parquet"))
    return ComparedReads(_Changed(read)).to_arrow(open_table(builder.root).scan(**scan))


def test_the_same_rows_in_any_order_pass(builder: DeltaBuilder) -> None:
    found = _compare(builder, lambda scan: _LOCAL(scan).take([2, 0, 1]))
    assert found.column("id").to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.slice(1),
        lambda rows: pa.concat_tables([rows, rows.slice(2)]),
        lambda _: pa.table({"id": [1, 2, 4]}),
        lambda _: pa.table({"id": [1, 2, None]}),
        lambda rows: rows.rename_columns(["other"]),
    ],
    ids=["fewer", "more", "another", "null", "name"],
)
def test_other_rows_fail(builder: DeltaBuilder, change: Callable[[pa.Table], pa.Table]) -> None:
    with pytest.raises(AssertionError):
        _compare(builder, lambda scan: change(_LOCAL(scan)))


def test_with_a_limit_rows_are_counted(builder: DeltaBuilder) -> None:
    assert _compare(builder, lambda _: pa.table({"id": [2, 3]}), limit=2).num_rows == 2
    with pytest.raises(AssertionError):
        _compare(DeltaBuilder(builder.root.parent / "other"), lambda _: ids(1, 2, 3), limit=2)


@pytest.mark.parametrize("message", ["a live data file is gone", "something else", None])
def test_errors_must_be_the_same(builder: DeltaBuilder, message: str | None) -> None:
    def fail(scan: Scan) -> pa.Table:
        if message is None:
            return ids()
        raise RuntimeError(f"in a task: {message}")

    builder.create(ID, builder.add(ids(1), path="f.parquet"))
    (builder.root / "f.parquet").unlink()
    expected = (
        DataFileNotFoundError if message == "a live data file is gone" else (AssertionError, pytest.fail.Exception)
    )
    with pytest.raises(expected):
        ComparedReads(_Changed(fail)).to_arrow(open_table(builder.root).scan())


def test_an_error_on_spark_alone_fails(builder: DeltaBuilder) -> None:
    def fail(scan: Scan) -> pa.Table:
        raise RuntimeError("in a task")

    with pytest.raises(RuntimeError, match="in a task"):
        _compare(builder, fail)


def test_the_executors_must_plan_the_same_files(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = IcebergBuilder(tmp_path / "t", {"id": "long"})
    made.commit(made.data([{"id": 1}]), made.data([{"id": 2}]))
    reads = ComparedReads(_Changed(_LOCAL))
    scan = open_table(made.root).scan()
    paths = scan.files()["file_path"].to_pylist()

    def compare(*planned: tuple[str, str, bool]) -> None:
        monkeypatch.setattr(reads, "_planned", lambda *_: list(planned))
        reads.files(scan, statistics=False)

    first, second = [(path, "((), None)", False) for path in paths]
    compare(second, first)
    for planned in (
        [],
        [first],
        [first, second, second],
        [first, (paths[1], "((), None)", True)],
        [first, (paths[1], "x", False)],
    ):
        with pytest.raises(AssertionError):
            compare(*planned)


def test_make_test_runs_what_is_the_first_to_prove_a_row(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from tests.support.compared_reads import mark_first_proofs

        def pytest_configure(config):
            for name in ("req(*ids)", "full"):
                config.addinivalue_line("markers", name)

        @pytest.fixture(params=["local", "spark"])
        def every_road(request): pass

        @pytest.hookimpl(tryfirst=True)
        def pytest_collection_modifyitems(items):
            mark_first_proofs(items)
        """
    )
    pytester.makepyfile(
        """
        import pytest

        by_every_road = pytest.mark.usefixtures("every_road")

        @by_every_road
        @pytest.mark.req("A", "B")
        def test_first(): pass

        @by_every_road
        @pytest.mark.req("B")
        def test_second(): pass

        @by_every_road
        @pytest.mark.req("B", "C")
        @pytest.mark.parametrize("case", [1, 2])
        def test_third(case): pass

        @pytest.mark.req("A")
        def test_other(): pass
        """
    )
    found = pytester.inline_run("-p", "no:cacheprovider", "-m", "not full")
    names = [report.nodeid.partition("::")[2] for report in found.getreports("pytest_runtest_logreport")]
    assert sorted(set(names)) == [
        "test_first[local]",
        "test_first[spark]",
        "test_other",
        "test_second[local]",
        "test_third[local-1]",
        "test_third[local-2]",
        "test_third[spark-1]",
    ]
