"""iceberg-spark reads the delete files and vectors that we write, and replaces them by its own; so do we by ours."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from deltaberg import IcebergTable, create_table, open_table
from tests.interop.judged import few, same
from tests.support.judge import Judge
from tests.support.snapshot_log import faults_of_directory

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(600)]

_COLUMNS = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("note", pa.string())])
_BY_PARTITION = {"write.delete.granularity": "partition"}
_TABLES: dict[str, dict[str, str]] = {
    "v3": {"format-version": "3"},
    "v2_file": {"format-version": "2"},
    "v2_partition": {"format-version": "2", **_BY_PARTITION},
    "v2_avro": {"format-version": "2", "write.delete.format.default": "avro"},
    "v2_orc": {"format-version": "2", "write.delete.format.default": "orc", **_BY_PARTITION},
}


def _rows(*ids: int) -> pa.Table:
    kinds = [None if number % 5 == 4 else ["a b", "ü/%"][number % 2] for number in ids]
    return pa.table({"id": ids, "kind": kinds, "note": [f"n{number}" for number in ids]})


class _Judged:
    """A table in the warehouse of iceberg-spark, which is a directory to us."""

    def __init__(self, judge: Judge, name: str) -> None:
        self._judge = judge
        self._name = f"ice.db.deletes_{name}"
        self.root: Path = judge.folder / "ice" / "db" / f"deletes_{name}"

    def sql(self, text: str) -> pa.Table:
        """Run a statement on the newest state of the table."""
        self._judge.run("spark.catalog.refreshTable(name)", name=self._name)
        return self._judge.sql(text.replace("{t}", self._name))

    def check(self, left: set[int]) -> IcebergTable:
        """Compare the rows, and what metadata says of delete files, of both readers; return the newest state."""
        table: IcebergTable = open_table(self.root, "iceberg", validate=True)
        columns = list(_COLUMNS.names)
        if table.format_version > 2:
            columns += ["_row_id", "_last_updated_sequence_number"]
        ours = table.scan(columns=columns).to_arrow()
        same(ours, self.sql(f"SELECT {', '.join(columns)} FROM {{t}}"))
        assert sorted(ours["id"].to_pylist()) == sorted(left)
        names = "file_path, spec_id, content, record_count, referenced_data_file"
        theirs = self.sql(f"SELECT {names} FROM {{t}}.delete_files").to_pylist()
        deletes = table.inspect("delete_files").select(names.split(", ")).to_pylist()
        assert Counter(map(str, deletes)) == Counter(map(str, theirs))
        if table.format_version > 2:
            vectors = [row["referenced_data_file"] for row in deletes if row["content"] == 1]
            assert len(set(vectors)) == len(vectors)
        assert faults_of_directory(self.root) == []
        return table


def _summaries(table: IcebergTable) -> list[dict[str, Any]]:
    ends = ("delete-files", "position-deletes", "dvs", "data-files", "records")
    return [
        {name: text for name, text in (one.summary or {}).items() if name.endswith(ends) or name == "operation"}
        for one in table.snapshots
    ]


@pytest.mark.req("ICE-DEL-03", half="writer")
@pytest.mark.req("BEY-34", half="writer")
@pytest.mark.parametrize("name", few({name: name for name in _TABLES}, "v3"))
def test_in_turns(judge: Judge, name: str) -> None:
    judged = _Judged(judge, name)
    modes = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
    table = create_table(
        judged.root, _COLUMNS, format="iceberg", partition_by="kind", properties={**_TABLES[name], **modes}
    )
    table.append(_rows(*range(20)))
    table.append(_rows(*range(20, 30)))
    left = set(range(30))
    for gone in ({1, 3, 4, 22}, {5, 14, 23}):
        assert table.delete(f"id IN ({', '.join(map(str, gone))})").operation == "delete"
        left -= gone
        table = judged.check(left)
    # iceberg-spark takes our vectors into its own, and we its.
    judged.sql("DELETE FROM {t} WHERE id IN (6, 7, 25)")
    left -= {6, 7, 25}
    table = judged.check(left)
    table.delete("id IN (9, 8, 26)")
    left -= {9, 8, 26}
    table = judged.check(left)
    if name not in ("v2_avro", "v2_orc"):
        theirs = StaticTable.from_metadata(table.metadata_location).scan().to_arrow()
        assert set(theirs["id"].to_pylist()) == left
    ours, spark = _summaries(table)[-1], _summaries(table)[-2]
    assert ours.keys() == spark.keys()
    assert ours["operation"] == spark["operation"]
    table.update({"note": "concat(note, '!')"}, "id >= 18 AND id < 22")
    table.upsert(_rows(27, 40), "id")
    left.add(40)
    table = judged.check(left)
    judged.sql("UPDATE {t} SET note = 'spark' WHERE id IN (18, 29)")
    table = judged.check(left)
    table.alter().partition_by("bucket(2, id)").commit()
    table.append(_rows(*range(50, 56)))
    table.delete("id IN (11, 51)")
    table.delete_by_keys(pa.table({"id": [0, 52, 99]}))
    left = (left | set(range(50, 56))) - {11, 51, 0, 52}
    table = judged.check(left)
    judged.sql("DELETE FROM {t} WHERE id IN (10, 53)")
    left -= {10, 53}
    table = judged.check(left)
    table.compact()
    table = judged.check(left)
    assert table.inspect("delete_files").num_rows == 0
