"""Iceberg tables that iceberg-spark and pyiceberg read, too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from deltaberg import IcebergTable
from tests.interop.judged import same
from tests.interop.judged_catalogs import NAMESPACE, JudgedCatalog
from tests.support.judge import Judge

__all__ = ["JudgedTable"]

_LINEAGE = ["id", "_row_id", "_last_updated_sequence_number"]
#: Rows without an id have no such number either: iceberg-java shows one for Avro files, and for files of no other kind.
_UPDATED = f"IF(_row_id IS NULL, NULL, {_LINEAGE[2]}) AS {_LINEAGE[2]} FROM {{t}}"
#: What a file of equality deletes holds.
_EQUALITY = 2


class JudgedTable:
    """A table in a catalog of iceberg-spark: a warehouse that is a directory to us, where nothing else is said."""

    def __init__(self, judge: Judge, name: str, catalog: JudgedCatalog | None = None) -> None:
        self.judge = judge
        self.catalog = catalog or JudgedCatalog.of_directories(judge)
        self.name = f"{self.catalog.name}.{NAMESPACE}.{name}"
        self._own_name = name

    @property
    def root(self) -> Path:
        """The directory of the table."""
        return self.catalog.directory(self._own_name)

    def create(self, columns: Any, **more: Any) -> IcebergTable:
        """Create it by us."""
        return self.catalog.create(self._own_name, columns, **more)

    def open(self, **moment: Any) -> IcebergTable:
        """Open it by us."""
        return self.catalog.open(self._own_name, **moment)

    def sql(self, text: str) -> pa.Table:
        """Run a statement on the newest state of the table."""
        self.judge.run("spark.catalog.refreshTable(name)", name=self.name)
        return self.judge.sql(text.replace("{t}", self.name))

    def call(self, procedure: str, *arguments: str) -> None:
        """Call a procedure of iceberg-spark for the table."""
        catalog, _, name = self.name.partition(".")
        self.sql(f"CALL {catalog}.system.{procedure}({', '.join([repr(name), *arguments])})")

    def check(self, by_pyiceberg: bool = True) -> IcebergTable:
        """Compare the rows of all readers, and return the table.

        Parameters
        ----------
        by_pyiceberg
            Whether pyiceberg and polars, which plans by it, are among them, if they read the files: they take no
            equality deletes, pyiceberg no Avro files, and polars Parquet files alone.
        """
        table = self.open(validate=True)
        ours = table.scan().to_arrow()
        same(ours, self.sql("SELECT * FROM {t}"))
        files = table.inspect("files").select(["file_format", "content"]).to_pylist()
        formats = {file["file_format"].upper() for file in files}
        if by_pyiceberg and not any(file["content"] == _EQUALITY for file in files):
            peer, ids = self.catalog.open_by_pyiceberg(self._own_name), sorted(ours["id"].to_pylist())
            if "AVRO" not in formats:
                assert sorted(peer.scan().to_arrow()["id"].to_pylist()) == ids
            if formats <= {"PARQUET", "PUFFIN"}:
                assert sorted(_by_polars(peer)["id"].to_list()) == ids
        if table.format_version > 2:
            same(table.scan(columns=_LINEAGE).to_arrow(), self.sql(f"SELECT {', '.join(_LINEAGE[:2])}, {_UPDATED}"))
        return table


def _by_polars(table: Any) -> pl.DataFrame:
    """Read the ids by polars, which is told not to look for a planner of its own."""
    os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"
    found = pl.scan_iceberg(table).select("id").collect()
    assert isinstance(found, pl.DataFrame)
    return found
