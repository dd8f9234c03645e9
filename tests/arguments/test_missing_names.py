"""Names of other libraries, and slips of the pen, raise an error that says what to write."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import create_autospec

import deltalake
import deltalake.table
import pyarrow as pa
import pyiceberg.catalog
import pyiceberg.table
import pytest
from pyiceberg.table import inspect as pyiceberg_inspect
from pyiceberg.table import maintenance
from pyiceberg.table.update import schema, snapshot, sorting, spec, statistics

import deltaberg
from deltaberg.coming_from.guessed_names import GUESSED
from deltaberg.coming_from.name_table import SAME
from deltaberg.errors import DeltabergError, ImportNameError, UnknownNameError
from deltaberg.missing_names import LIBRARIES
from tests.guards.coming_from import PAGE, page

pytestmark = pytest.mark.one_backend

_ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("names") / request.param
    deltaberg.write_table(path, _ROWS, format=request.param)
    return deltaberg.open_table(path)


def _objects(tmp_path: Path) -> dict[str, Any]:
    """Return an object of ours for each part of the tables of names."""
    objects: dict[str, Any] = {"deltaberg": deltaberg}
    deltaberg.write_table(tmp_path / "delta", _ROWS)
    deltaberg.write_table(tmp_path / "iceberg", _ROWS, format="iceberg")
    delta = objects["DeltaTable"] = deltaberg.open_table(tmp_path / "delta", "delta")
    iceberg = objects["IcebergTable"] = deltaberg.open_table(tmp_path / "iceberg", "iceberg")
    objects |= {
        "Rows": delta.scan(),
        "Scan": delta.scan(),
        "Struct": delta.schema,
        "Catalog": deltaberg.load_catalog("c", type="filesystem", warehouse=str(tmp_path / "w")),
        "Table": delta,
        "Alteration": delta.alter(),
        "DeltaTable.alter": delta.alter(),
        "DeltaTable.merge": delta.merge(_ROWS, "target.id = source.id"),
        "DeltaTable.optimize": delta,
        "IcebergTable.transaction": iceberg.transaction(),
        "IcebergTransaction": iceberg.transaction(),
        "DeltaTransaction": delta.transaction(),
        "TableTransaction": delta.transaction(),
    }
    return objects | {
        place: iceberg for place in LIBRARIES["pyiceberg"] if place not in objects and place.startswith("IcebergTable.")
    }


def _entries() -> Iterator[tuple[str, str, str]]:
    for tables in (GUESSED, *LIBRARIES.values()):
        for place, names in tables.items():
            for name, text in names.items():
                yield place, name, text


def test_what_to_write_is_there(tmp_path: Path) -> None:
    """Code begins with a member of the object, or with a name of this library, and "the same" is a member."""
    objects, wrong, seen = _objects(tmp_path), [], 0
    for place, name, text in _entries():
        seen += 1
        owner = objects[place]
        if text == SAME:
            wrong += [] if hasattr(owner, name) else [f"{place}.{name} is not the same"]
            continue
        for code in re.findall(r"`([^`]+)`", text):
            first, _, rest = code.partition(".")
            if first == "deltaberg":
                wrong += [] if hasattr(deltaberg, re.split(r"\W", rest)[0]) else [f"{place}.{name}: {code}"]
            elif text.startswith(f"`{code}`"):
                own = re.split(r"\W", code)[0]
                known = hasattr(owner, own) or own in {"duckdb", "pyarrow"} or hasattr(deltaberg, own)
                wrong += [] if known else [f"{place}.{name}: {code}"]
    assert seen > 250
    assert not wrong


def _public(kind: Any) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def _own_functions(module: ModuleType) -> set[str]:
    """Return the functions for users that a module defines."""
    return {
        name
        for name, one in vars(module).items()
        if inspect.isfunction(one) and one.__module__ == module.__name__ and name.startswith(("load_", "list_"))
    }


@pytest.mark.parametrize(
    ("library", "place", "names"),
    [
        ("deltalake", "deltaberg", set(deltalake.__all__)),
        ("deltalake", "DeltaTable", _public(deltalake.DeltaTable)),
        ("deltalake", "DeltaTable.optimize", _public(deltalake.table.TableOptimizer)),
        ("deltalake", "DeltaTable.alter", _public(deltalake.table.TableAlterer)),
        ("deltalake", "DeltaTable.merge", _public(deltalake.table.TableMerger)),
        ("pyiceberg", "deltaberg", _own_functions(pyiceberg.catalog) | {"Table", "StaticTable", "Catalog"}),
        ("pyiceberg", "IcebergTable", _public(pyiceberg.table.Table)),
        ("pyiceberg", "IcebergTable.transaction", _public(pyiceberg.table.Transaction)),
        ("pyiceberg", "Scan", _public(pyiceberg.table.DataScan)),
        ("pyiceberg", "Catalog", _public(pyiceberg.catalog.Catalog)),
        ("pyiceberg", "IcebergTable.inspect", _public(pyiceberg_inspect.InspectTable)),
        ("pyiceberg", "IcebergTable.maintenance", _public(maintenance.MaintenanceTable)),
        ("pyiceberg", "IcebergTable.update_schema", _public(schema.UpdateSchema)),
        ("pyiceberg", "IcebergTable.manage_snapshots", _public(snapshot.ManageSnapshots)),
        ("pyiceberg", "IcebergTable.expire_snapshots", _public(snapshot.ExpireSnapshots)),
        ("pyiceberg", "IcebergTable.update_spec", _public(spec.UpdateSpec)),
        ("pyiceberg", "IcebergTable.update_sort_order", _public(sorting.UpdateSortOrder)),
        ("pyiceberg", "IcebergTable.update_statistics", _public(statistics.UpdateStatistics)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tables_have_all_names(library: str, place: str, names: set[str]) -> None:
    assert names
    assert not names - LIBRARIES[library][place].keys()


def test_page() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.guards.coming_from --write"


@pytest.mark.parametrize("library", LIBRARIES)
def test_names_of_libraries_say_what_to_write(library: str, tmp_path: Path) -> None:
    objects, asked = _objects(tmp_path), 0
    for place, names in LIBRARIES[library].items():
        for name, text in names.items():
            owner = objects[place]
            if "." in place or text == SAME or hasattr(owner, name):
                continue
            asked += 1
            with pytest.raises(UnknownNameError) as raised:
                getattr(owner, name)
            assert name in raised.value.message
            assert "dir()" not in str(raised.value.hint), f"{place}.{name}"
            assert "`" not in str(raised.value.hint)
    assert asked > 5


@pytest.mark.parametrize(
    ("name", "delta", "iceberg"),
    [
        ("vacuum", None, "expire_snapshots()"),
        ("version", None, "snapshot_id"),
        ("current_snapshot", "version", "snapshot"),
        ("load_cdf", "changes(start, end)", "changes(start, end)"),
        ("update_schema", "alter()", "alter()"),
        ("to_pyarrow_table", "to_arrow()", "to_arrow()"),
        ("shcema", "schema", "schema"),
        ("zzz", "dir()", "dir()"),
    ],
)
def test_formats_say_what_they_have(table: Any, name: str, delta: str | None, iceberg: str | None) -> None:
    expected = delta if isinstance(table, deltaberg.DeltaTable) else iceberg
    if expected is None:
        assert hasattr(table, name)
        return
    with pytest.raises(UnknownNameError) as raised:
        getattr(table, name)
    assert expected in str(raised.value.hint)


def test_imports_say_what_to_write() -> None:
    with pytest.raises(ImportNameError, match="name of deltalake") as raised:
        from deltaberg import write_deltalake  # noqa: F401
    assert "write_table(target, data)" in str(raised.value.hint)
    assert raised.value.name == "deltaberg"
    with pytest.raises(ImportNameError, match=r"deltaberg.delta has no Nonsense"):
        from deltaberg.delta import Nonsense  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(UnknownNameError, match="a name of deltalake"):
        deltaberg.write_deltalake  # noqa: B018
    assert getattr(deltaberg, "write_deltalake", None) is None


@pytest.mark.parametrize("name", ["forPath", "is_deltatable", "create"])
def test_class_methods_say_what_to_write(name: str) -> None:
    for kind in (deltaberg.DeltaTable, deltaberg.IcebergTable):
        with pytest.raises(UnknownNameError) as raised:
            getattr(kind, name)
        assert "deltaberg." in str(raised.value.hint)


def test_objects_behave(table: Any) -> None:
    """What Python, notebooks and test doubles look for is found, or is plainly not there."""
    scan = table.scan("id > 1")
    for one in (table, scan, type(table), type(scan)):
        assert not hasattr(one, "_ipython_canary_method_should_not_exist_")
        assert not hasattr(one, "_repr_png_")
        assert not hasattr(one, "zzz")
        with pytest.raises(AttributeError) as raised:
            one._repr_png_  # noqa: B018
        assert not isinstance(raised.value, DeltabergError)
    assert hasattr(table, "_repr_html_")
    assert copy.copy(table).count() == 3
    assert copy.deepcopy(scan.options) == scan.options
    assert pickle.loads(pickle.dumps(deltaberg.col("id") > 1)) is not None
    assert "to_arrow" in dir(table)
    assert "to_pyarrow_table" not in dir(table)
    double = create_autospec(type(table), instance=True)
    assert double.count() is not None
    with pytest.raises(AttributeError, match="no attribute 'zzz'"):
        double.zzz()


def test_errors_within_properties_are_kept() -> None:
    from deltaberg.signatures import public

    @public
    class Faulty:
        @property
        def length(self) -> int:
            return self._never_set  # type: ignore[attr-defined,no-any-return]

    with pytest.raises(AttributeError, match="_never_set"):
        Faulty().length  # noqa: B018


def test_rows_of_tables(table: Any) -> None:
    import duckdb
    import polars as pl

    assert table.to_arrow().equals(table.scan().to_arrow())
    assert table.to_pandas()["id"].tolist() == [1, 2, 3]
    assert table.to_polars()["name"].to_list() == ["a", "b", "c"]
    assert table.count() == 3
    assert table.head(2)["id"].to_pylist() == [1, 2]
    assert table.head(0).num_rows == 0
    assert table.scan("id > 1", limit=1).head()["id"].to_pylist() == [2]
    assert pa.RecordBatchReader.from_stream(table).read_all()["id"].to_pylist() == [1, 2, 3]
    assert pl.DataFrame(table)["id"].to_list() == [1, 2, 3]
    with duckdb.connect() as connection:
        assert connection.register("rows", table).sql("SELECT sum(id) FROM rows").fetchall() == [(6,)]
    for wrong in (-1, "2", None, 1.5, True):
        with pytest.raises(deltaberg.errors.InvalidArgumentError, match="n must be a 64-bit integer"):
            table.head(wrong)


def test_what_the_other_format_or_the_table_has_says_what_to_write(tmp_path: Path) -> None:
    objects, asked = _objects(tmp_path), 0
    kinds = [objects[name] for name in ("DeltaTable", "IcebergTable", "DeltaTransaction", "IcebergTransaction")]
    delta, iceberg, *_ = kinds
    for one, other in ((delta, iceberg), (iceberg, delta), (kinds[2], delta), (kinds[3], iceberg)):
        for name in sorted(_public(other) - _public(one)):
            asked += 1
            with pytest.raises(UnknownNameError) as raised:
                getattr(one, name)
            unhelpful = [word for word in ("dir()", "perhaps") if word in str(raised.value.hint)]
            assert not unhelpful, f"{type(one).__name__}.{name}"
    assert asked > 120


def test_what_makes_commits_of_its_own_is_no_part_of_a_transaction(tmp_path: Path) -> None:
    objects = _objects(tmp_path)
    for kind, own in (("DeltaTransaction", "vacuum"), ("IcebergTransaction", "expire_snapshots")):
        for name in ("compact", "reorg", "clone", own):
            with pytest.raises(UnknownNameError, match=f"{kind} has no {name}") as raised:
                getattr(objects[kind], name)
            assert str(raised.value.hint).startswith("call it on the table, outside of the transaction")
