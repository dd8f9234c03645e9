"""Rows of Iceberg tables that we change as iceberg-spark and pyiceberg read them, in turns with changes of theirs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest

from deltaberg import IcebergTable
from tests.interop.judged import few, same
from tests.interop.judged_catalogs import COMBINATIONS, JudgedCatalog
from tests.interop.judged_iceberg import JudgedTable
from tests.support.judge import Judge

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(600)]

_COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("part", pa.string()),
        ("day", pa.date32()),
        ("price", pa.decimal128(9, 2)),
        ("place", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("tags", pa.list_(pa.string())),
    ]
)
_CHANGES = ("delete", "update", "merge")


def _rows(first: int, count: int) -> pa.Table:
    rows = [
        {
            "id": one,
            "part": ["a", "B c", None][one % 3],
            "day": dt.date(2020, 1, 1) + dt.timedelta(days=9 * one),
            "price": Decimal(one * 55) / 100,
            "place": {"x": one, "y": None} if one % 2 else None,
            "tags": [[], ["t", None], None][one % 3],
        }
        for one in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, _COLUMNS)


def _ids(table: IcebergTable, where: str | None = None) -> list[int]:
    found: list[int] = sorted(table.scan(where).to_arrow()["id"].to_pylist())
    return found


_WAYS = {
    f"{case}, {mode}": [*values, mode]
    for case, values in COMBINATIONS.items()
    for mode in ("copy-on-write", "merge-on-read")
    if (values[1], mode) != (1, "merge-on-read")
}


@pytest.mark.parametrize(
    ("kind", "version", "file_format", "mode"), few(_WAYS, "directory, v3, parquet, merge-on-read")
)
def test_rows_are_changed_in_turns(
    judge: Judge, judged_catalog: Callable[[str], JudgedCatalog], kind: str, version: int, file_format: str, mode: str
) -> None:
    judged = JudgedTable(judge, f"changed_{version}_{file_format}_{mode.replace('-', '_')}", judged_catalog(kind))
    properties = {"format-version": str(version), "write.format.default": file_format}
    properties |= {f"write.{change}.mode": mode for change in _CHANGES}
    table = judged.create(_COLUMNS, partition_by=["part", "month(day)"], properties=properties)
    table.append(_rows(0, 12))
    table.delete("id % 4 = 1 AND part IS NOT NULL")
    judged.check()
    table.update({"price": "price + 1.10", "place.y": "upper(part)", "tags": "NULL"}, "day > '2020-02-01' AND id <> 6")
    judged.check()
    table.alter().partition_by("bucket(2, id)").add("note", pa.string()).commit()
    table.append(_rows(20, 4).append_column("note", [["n"] * 4]))
    source = pa.table({"id": [0, 3, 21, 40], "note": ["zero", "gone", "m", "new"]})
    merge = table.merge(source, "target.id = source.id").when_matched_delete("source.note = 'gone'")
    merge.when_matched_update({"note": "source.note"}).when_not_matched_insert(
        {"id": "source.id", "note": "source.note"}
    ).when_not_matched_by_source_delete("target.id = 22").execute()
    judged.check()
    table.upsert(_rows(20, 6), "id")
    judged.check()
    before = table.snapshot_id

    judged.sql("DELETE FROM {t} WHERE id IN (0, 20)")
    judged.sql("UPDATE {t} SET note = 'theirs', part = 'z' WHERE id IN (2, 23)")
    judged.sql(
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (4L, 'm'), (50L, 'i') AS s(id, note)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET note = s.note WHEN NOT MATCHED THEN INSERT (id, note) VALUES (s.id, s.note)"
    )
    judged.check()
    table.refresh().delete("note = 'theirs' AND id > 20 OR id = 24")
    table.update({"note": "concat(note, '!')"}, "note IS NOT NULL AND id < 30")
    table.upsert(pa.table({"id": [50, 60], "note": ["u", "v"]}), "id")
    changed = judged.check()
    notes = {row["id"]: row["note"] for row in changed.scan("note IS NOT NULL").to_arrow().to_pylist()}
    assert notes == {2: "theirs!", 4: "m!", 21: "m!", 40: "new", 50: "u", 60: "v"}
    assert _ids(changed, "id >= 20") == [21, 22, 25, 40, 50, 60]
    past = judged.open(snapshot_id=before).scan().to_arrow()
    same(past, judged.sql(f"SELECT * FROM {{t}} VERSION AS OF {before}"))
    for name in ("files", "manifests", "snapshots", "entries", "delete_files"):
        assert judged.sql(f"SELECT * FROM {{t}}.{name}").num_rows == changed.inspect(name).num_rows, name
    assert (changed.inspect("delete_files").num_rows > 0) == (mode == "merge-on-read")
    assert table.compact().conflicts == []
    judged.check()
