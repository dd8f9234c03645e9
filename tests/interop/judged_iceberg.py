"""Iceberg tables that iceberg-spark and pyiceberg read, too."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.table import StaticTable

from deltaberg import IcebergTable, open_table
from tests.interop.judged import same
from tests.support.judge import Judge

__all__ = ["JudgedTable"]

_LINEAGE = ["id", "_row_id", "_last_updated_sequence_number"]


class JudgedTable:
    """A table in the warehouse of iceberg-spark, which is a directory to us."""

    def __init__(self, judge: Judge, name: str) -> None:
        self.judge = judge
        self.name = f"ice.db.{name}"
        self.root = judge.folder / "ice" / "db" / name

    def sql(self, text: str) -> pa.Table:
        """Run a statement on the newest state of the table."""
        self.judge.run("spark.catalog.refreshTable(name)", name=self.name)
        return self.judge.sql(text.replace("{t}", self.name))

    def check(self, by_pyiceberg: bool = True) -> IcebergTable:
        """Compare the rows of all readers, and return the table."""
        table = open_table(self.root, "iceberg", validate=True)
        ours = table.scan().to_arrow()
        same(ours, self.sql("SELECT * FROM {t}"))
        if by_pyiceberg:
            theirs = StaticTable.from_metadata(table.metadata_location).scan().to_arrow()
            assert sorted(theirs["id"].to_pylist()) == sorted(ours["id"].to_pylist())
        if table.format_version > 2:
            same(table.scan(columns=_LINEAGE).to_arrow(), self.sql(f"SELECT {', '.join(_LINEAGE)} FROM {{t}}"))
        return table
