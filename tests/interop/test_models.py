"""Tables that random operations made, as delta-spark, iceberg-spark and pyiceberg read them: as the model does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from deltaberg import IcebergTable
from tests.model.iceberg_machine import IcebergMachine
from tests.model.machine import TableMachine
from tests.model.rules import ModelMachine
from tests.model.run import run_model
from tests.model.values import Columns, Row, counted
from tests.support.judge import Judge

pytestmark = pytest.mark.judges

_TABLES, _STEPS = 20, 20
#: The content of a file of equality deletes (Iceberg spec, "Manifests").
_BY_KEYS = 2


class _Moment(NamedTuple):
    """A version of a table: how an engine opens it, and the columns and rows that it must find."""

    location: str
    version: int
    columns: Columns
    rows: list[Row]

    def check(self, found: pa.Table) -> None:
        where = f"version {self.version} of {self.location}"
        assert found.column_names == list(self.columns), where
        assert counted(found.to_pylist()) == counted(self.rows), where


class _Kept:
    """The tables of a model, which are kept until the engines have read them."""

    def __init__(self, machine: type[ModelMachine], seed: int) -> None:
        self.moments: list[_Moment] = []
        self._folders: list[Path] = []
        kept = self

        class Keeping(machine):  # type: ignore[misc,valid-type]
            def _discard(self) -> None:
                kept.take(self)

        run_model(seed, runs=_TABLES, steps=_STEPS, machine=Keeping)
        assert len(self.moments) > _TABLES

    def take(self, model: ModelMachine) -> None:
        """Keep a table, and note its first and newest version, and one between them."""
        self._folders.append(model.folder)
        moments = model.moments()
        if not moments:
            return
        for number in sorted({moments[0], moments[len(moments) // 2], moments[-1]}):
            columns, rows = model.versions[number]
            if isinstance(model, IcebergMachine):
                place, version = model.open().metadata_location, model.snapshots[number]
            else:
                place, version = model.root, number
            self.moments.append(_Moment(place, version, columns, rows))

    def remove(self) -> None:
        for folder in self._folders:
            shutil.rmtree(folder)


@pytest.fixture
def kept(request: pytest.FixtureRequest, seed: int) -> Iterator[list[_Moment]]:
    """What the model of the format made that a test names."""
    tables = _Kept(request.param, seed)
    yield tables.moments
    tables.remove()


@pytest.mark.parametrize(
    ("source", "kept"),
    [("delta", TableMachine), ("iceberg", IcebergMachine)],
    indirect=["kept"],
    ids=["delta", "iceberg"],
)
def test_as_the_connectors_read_them(judge: Judge, source: str, kept: list[_Moment]) -> None:
    read = "spark.read.format(source).option('versionAsOf', version).load(path)"
    for moment in kept:
        moment.check(judge.run(read, source=source, version=moment.version, path=moment.location))


@pytest.mark.parametrize("kept", [IcebergMachine], indirect=True, ids=["iceberg"])
def test_as_pyiceberg_reads_them(kept: list[_Moment]) -> None:
    for moment in kept:
        scan = StaticTable.from_metadata(moment.location).scan(snapshot_id=moment.version)
        try:
            rows = scan.to_arrow()
        except ValueError as error:
            refused = str(error)
            deletes = IcebergTable(moment.location, snapshot_id=moment.version).inspect("delete_files")
        else:
            moment.check(rows)
            continue
        # It refuses every file of equality deletes that may be of consequence.
        assert "does not yet support equality deletes" in refused
        assert _BY_KEYS in deletes["content"].to_pylist()
