"""Every operation on Iceberg tables, in every kind of catalog, is what iceberg-spark and pyiceberg read.

The operations are those of the harness of crash points, so that none is left out. Each is tried in all combinations of
the catalogs, the versions of the format and the formats of data files, and after it iceberg-spark writes to the table,
and then we.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.choices import MetadataTable
from deltaberg.errors import DeltabergError
from tests.crash.operations import OPERATIONS, Operation
from tests.crash.starts import COLUMNS, STARTS
from tests.crash.targets import Target
from tests.interop.judged import few, same
from tests.interop.judged_catalogs import COMBINATIONS, JudgedCatalog
from tests.interop.judged_iceberg import JudgedTable
from tests.support.judge import Judge, JudgeError

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(1200)]

#: Those of a table in a directory, and one that needs a catalog.
_OPERATIONS = {
    name: one for name, one in OPERATIONS.items() if one.kind == "iceberg" or name == "rest: transaction of two tables"
}
#: What hides rows, which tables of version 1 cannot.
_HIDE = ("by vectors", "by delete files", "by keys", "twice", "deleted", "beside a delete")
#: The starts that choose the version themselves, and the version that they end with.
_CHOSEN_VERSIONS = {"iceberg with deletes": 2, "iceberg with deletes before version 3": 3}
#: What a kind of catalog refuses, and why.
_REFUSED = {("rest", "iceberg: clone"): "gives the columns of a new table ids of its own"}
_AT_ONCE = 4
_METADATA: tuple[MetadataTable, ...] = ("files", "manifests", "snapshots", "entries", "refs", "metadata_log_entries")


@dataclass
class _Target(Target):
    """The table of an operation, in a catalog that the judge shares."""

    shop: JudgedCatalog | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def catalog(self) -> Any:
        """The catalog, which is ours."""
        assert self.shop is not None
        return self.shop.ours

    def prepare(self) -> None:
        """Do nothing: the namespace is there."""

    def create(self, columns: pa.Schema, **more: Any) -> Any:
        """Create the table in the version and with the file format that are to be tried."""
        asked = more.pop("properties", None) or {}
        return super().create(columns, properties={**asked, **self.properties}, **more)

    def write(self, rows: pa.Table, **more: Any) -> Any:
        """Write rows, and create the table so if there is none."""
        return super().write(rows, configuration=dict(self.properties), **more)


@pytest.mark.parametrize(("kind", "version", "file_format"), few(COMBINATIONS))
def test_operations(
    judge: Judge,
    judged_catalog: Callable[[str], JudgedCatalog],
    kind: str,
    version: int,
    file_format: str,
) -> None:
    shop = judged_catalog(kind)
    chosen = [
        one
        for one in _OPERATIONS.values()
        if one.kind in ("iceberg", kind) and _CHOSEN_VERSIONS.get(one.start, version) == version
    ]

    def run(number: int, operation: Operation) -> None:
        at, judged = _placed(judge, shop, kind, version, file_format, str(number))
        if operation.start in _CHOSEN_VERSIONS:
            at.properties = {"write.format.default": file_format}
        try:
            _try(operation, at, judged, _refusal(operation, kind, version))
        except Exception as error:
            raise AssertionError(f"{operation.name}: {error}") from error

    # Most of the time of a statement is waiting.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        ended = [pool.submit(run, number, operation) for number, operation in enumerate(chosen)]
    faults = [str(one.exception()) for one in ended if one.exception() is not None]
    assert faults == [], "\n".join(faults)


def _placed(
    judge: Judge, shop: JudgedCatalog, kind: str, version: int, file_format: str, name: str
) -> tuple[_Target, JudgedTable]:
    """Return where a table is tried."""
    judged = JudgedTable(judge, f"operation_{version}_{file_format}_{name}", shop)
    properties = {"format-version": str(version), "write.format.default": file_format}
    format_or_catalog = "iceberg" if shop.ours is None else kind
    at = _Target(str(judged.root), kind=format_or_catalog, name=judged.root.name, shop=shop, properties=properties)
    return at, judged


def _refusal(operation: Operation, kind: str, version: int) -> str | None:
    """Return what the error of an operation says that a catalog or a version does not take."""
    hides = version == 1 and any(word in operation.name for word in _HIDE)
    return "version 1" if hides else _REFUSED.get((kind, operation.name))


def _try(operation: Operation, at: _Target, judged: JudgedTable, refusal: str | None) -> None:
    STARTS[operation.start](at)
    if refusal is not None:
        with pytest.raises(DeltabergError, match=refusal):
            operation.run(at)
        return
    operation.run(at)
    if operation.run == Target.drop:
        with pytest.raises(JudgeError, match="TABLE_OR_VIEW_NOT_FOUND"):
            judged.sql("SELECT * FROM {t}")
        return
    _check(judged, operation.after)
    _go_on(judged, operation.after)


def _go_on(judged: JudgedTable, after: Mapping[int, int]) -> None:
    """Let iceberg-spark write to the table, and then us."""
    judged.sql("INSERT INTO {t} (id, value) VALUES (100, 1000)")
    judged.open().append(pa.table({"id": [101], "value": [1010]}, COLUMNS))
    _check(judged, {**after, 100: 1000, 101: 1010})


def _check(judged: JudgedTable, after: Mapping[int, int]) -> None:
    table = judged.check()
    rows = table.scan(columns=["id", "value"]).to_arrow()
    same(rows, pa.table({"id": list(after), "value": list(after.values())}, COLUMNS))
    counted = " UNION ALL ".join(f"SELECT '{name}' AS name, count(*) AS n FROM {{t}}.{name}" for name in _METADATA)
    found = {row["name"]: row["n"] for row in judged.sql(counted).to_pylist()}
    assert found == {name: table.inspect(name).num_rows for name in _METADATA}
