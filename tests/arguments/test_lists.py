"""Arguments that stand for several values take them as users have them, and all take a single one alike."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaberg
from deltaberg import MaintenancePolicy, ParquetOptions
from deltaberg.errors import InvalidArgumentError
from deltaberg.schema.columns import column_names, listed_names

pytestmark = pytest.mark.one_backend

_ROWS = pa.table({"id": [3, 1, 2], "p": ["b", "a", "a"], "x": [0.5, 1.5, 2.5]})
#: What holds values in their order.
_ORDERED: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "numpy of objects": lambda values: np.array(values, object),
    "pandas index": pd.Index,
    "pandas series": pd.Series,
    "pandas categories": pd.Categorical,
    "polars": pl.Series,
    "arrow": pa.array,
    "arrow chunks": lambda values: pa.chunked_array([values]),
    "deque": deque,
    "keys": lambda values: dict.fromkeys(values).keys(),
    "values": lambda values: dict(enumerate(values)).values(),
    "generator": lambda values: (one for one in values),
}
#: Those that each argument is tried with: one can be read once, one holds no texts of Python, two have no truth.
_TRIED = ("generator", "arrow", "pandas index", "numpy")


@pytest.mark.parametrize("form", _ORDERED)
def test_names_in_all_that_holds_them(form: str) -> None:
    names = column_names(_ORDERED[form](["day", "a.b"]))
    assert (names, {type(name) for name in names}) == (("day", "a.b"), {str})
    if form != "tuple":
        assert listed_names((_ORDERED[form](["day", "a.b"]),)) == ("day", "a.b")


def test_what_names_no_columns() -> None:
    for wrong in (5, b"id", {"id": 1}, np.array("id"), np.array([["id"]]), [5], [None], pa.array([1])):
        with pytest.raises(InvalidArgumentError, match=r"does not name columns|is not a column name"):
            column_names(wrong)  # type: ignore[arg-type]
    for wrong in ({"id"}, frozenset(("id",))):
        with pytest.raises(InvalidArgumentError, match="have no order") as caught:
            column_names(wrong)
        assert caught.value.hint == 'pass a name, or a list of them such as ["day", "region"]'
    assert column_names({"b", "a", "c"}, ordered=False) == ("a", "b", "c")
    assert column_names(np.str_("day")) == ("day",)
    assert column_names([("s", "x"), ["s", "y"]]) == (("s", "x"), ("s", "y"))


_Use = Callable[["_Place", Any], Any]


class _Place:
    """A folder in which tables of a format are made."""

    def __init__(self, folder: Path, form: str) -> None:
        self._folder, self._form, self._numbers = folder, form, itertools.count()

    def new(self, **layout: Any) -> Any:
        create: Any = deltaberg.create_table
        return create(self.path(), _ROWS.schema, format=self._form, **layout)

    def path(self) -> Path:
        return self._folder / f"t{next(self._numbers)}"

    def filled(self, **layout: Any) -> Any:
        table = self.new(**layout)
        table.append(_ROWS)
        return table

    def files(self) -> Path:
        place = self.path()
        place.mkdir()
        for name in ("a", "b"):
            pq.write_table(_ROWS, place / f"{name}.parquet")
        return place

    def catalog(self) -> Any:
        place = self.path()
        place.mkdir()
        catalog = deltaberg.load_catalog("c", type="sql", uri=f"sqlite:///{place}/c.db", warehouse=str(place))
        catalog.create_namespace("db", {"id": "1", "p": "2", "x": "3"})
        return catalog


def _altered(place: _Place, change: str, names: Any, **layout: Any) -> Any:
    table = place.new(**layout)
    getattr(table.alter(), change)(names).commit()
    return _names(table)


def _names(table: Any) -> Any:
    if hasattr(table, "spec"):
        schema = table.metadata.schemas[table.metadata.current_schema_id]
        return (
            [field.name for field in table.spec.fields],
            [field.source_ids for field in table.sort_order.fields],
            sorted(schema.identifier_field_ids),
        )
    return table.partition_columns, table.clustering_columns


def _compacted(place: _Place, **order: Any) -> Any:
    table = place.filled()
    table.append(_ROWS)
    table.compact(**order)
    return table.scan().to_arrow().to_pylist()


def _merged(place: _Place, excluded: Any) -> Any:
    table = place.filled()
    new = pa.table({"id": [1], "p": ["new"], "x": [9.0]})
    table.merge(new, "target.id = source.id").when_matched_update_all(except_cols=excluded).execute()
    return table.scan("id = 1").to_arrow().to_pylist()


def _removed(place: _Place, removals: Any) -> Any:
    catalog = place.catalog()
    catalog.update_namespace_properties("db", removals=removals)
    return sorted(catalog.load_namespace_properties("db"))


#: What takes names in their order, by the format that has it.
_IN_ORDER: dict[str, tuple[str, _Use]] = {
    "scan": ("both", lambda place, names: place.filled().scan(columns=names).to_arrow().column_names),
    "selected_fields": (
        "both",
        lambda place, names: list(place.filled().scan(selected_fields=names).schema.names),
    ),
    "changes": ("iceberg", lambda place, names: place.filled().changes(None, columns=names).to_arrow().column_names),
    "follow": (
        "both",
        lambda place, names: [one.rows.to_arrow().column_names for one in place.filled().follow(columns=names)],
    ),
    "create partition_by": ("both", lambda place, names: _names(place.new(partition_by=names))),
    "create sort_by": ("iceberg", lambda place, names: _names(place.new(sort_by=names))),
    "create cluster_by": ("delta", lambda place, names: _names(place.new(cluster_by=names))),
    "overwrite partition_by": (
        "delta",
        lambda place, names: place.new().overwrite(_ROWS, partition_by=names, schema_mode="overwrite").added_rows,
    ),
    "alter partition_by": ("both", lambda place, names: _altered(place, "partition_by", names)),
    "alter cluster_by": ("delta", lambda place, names: _altered(place, "cluster_by", names)),
    "alter sort_by": ("iceberg", lambda place, names: _altered(place, "sort_by", names)),
    "compact sort_by": ("both", lambda place, names: _compacted(place, sort_by=names)),
    "compact z_order_by": ("both", lambda place, names: _compacted(place, z_order_by=names)),
    "compact hilbert_by": ("both", lambda place, names: _compacted(place, hilbert_by=names)),
}
#: What takes names whose order does not matter.
_IN_NO_ORDER: dict[str, tuple[str, _Use]] = {
    "upsert": ("both", lambda place, names: place.filled().upsert(_ROWS, names).updated_rows),
    "join_cols": ("both", lambda place, names: place.filled().upsert(_ROWS, join_cols=names).inserted_rows),
    "except_cols": ("both", _merged),
    "delete_by_keys": (
        "iceberg",
        lambda place, names: place.filled().delete_by_keys(_ROWS.slice(1), names).operation,
    ),
    "compute_table_stats": ("iceberg", lambda place, names: sorted(place.filled().compute_table_stats(names).ndv)),
    "identifier_columns": (
        "iceberg",
        lambda place, names: place.filled().changes(None, identifier_columns=names).to_arrow().num_rows,
    ),
    "dictionary": ("delta", lambda _, names: sorted(ParquetOptions(dictionary=names).dictionary)),  # type: ignore[arg-type]
    "removals": ("iceberg", _removed),
}
_USES = {**_IN_ORDER, **_IN_NO_ORDER}


def _places(kinds: dict[str, tuple[str, _Use]]) -> list[Any]:
    return [
        pytest.param(name, form, id=f"{form} {name}")
        for name, (has, _) in kinds.items()
        for form in ("delta", "iceberg")
        if has in ("both", form)
    ]


@pytest.mark.parametrize(("name", "form"), _places(_USES))
def test_names_of_columns(tmp_path: Path, name: str, form: str) -> None:
    """All that holds names means what a list of them means, and a single text what a list of it means."""
    use, place = _USES[name][1], _Place(tmp_path, form)
    expected = use(place, ["p", "id"])
    for kind in _TRIED:
        assert use(place, _ORDERED[kind](["p", "id"])) == expected, kind
    assert use(place, "id") == use(place, ["id"])
    if name in _IN_NO_ORDER:
        assert use(place, {"p", "id"}) == expected
    else:
        with pytest.raises(InvalidArgumentError, match="have no order"):
            use(place, {"p", "id"})


def test_a_list_is_no_condition_of_a_merge(tmp_path: Path) -> None:
    table = _Place(tmp_path, "delta").filled()
    for kind in _ORDERED.values():
        with pytest.raises(InvalidArgumentError, match="is no condition of a merge") as caught:
            table.merge(_ROWS, kind(["id", "p"]))
        assert caught.value.hint == "say which rows match: target.id = source.id"


@pytest.mark.parametrize("kind", ["list", *_TRIED])
def test_numbers_and_places(tmp_path: Path, kind: str) -> None:
    several = _ORDERED[kind]
    delta, place = _Place(tmp_path, "delta").filled(), _Place(tmp_path / "iceberg", "iceberg")
    place.path().parent.mkdir()
    assert delta.vacuum(keep_versions=several([0, 1])).dry_run
    table = place.filled()
    first = table.snapshot_id
    table.append(_ROWS)
    assert table.expire_snapshots(snapshot_ids=several([first]), dry_run=True).snapshot_ids == (first,)
    found = place.files()
    paths = [str(found / "a.parquet"), str(found / "b.parquet")]
    assert table.add_files(several(paths)).added_rows == 6
    assert MaintenancePolicy(steps=several(["compact", "expire_snapshots"])).steps == ("compact", "expire_snapshots")
    catalog = place.catalog()
    location = catalog.create_table("db.t", _ROWS.schema).location
    assert catalog.drop_table("db.t", purge=True, dry_run=True, locations=several([location])).dry_run


def test_a_single_one(tmp_path: Path) -> None:
    assert _Place(tmp_path, "delta").filled().vacuum(keep_versions=1).dry_run
    assert MaintenancePolicy(steps="compact").steps == ("compact",)
    place = _Place(tmp_path / "iceberg", "iceberg")
    place.path().parent.mkdir()
    table = place.filled()
    found = place.files()
    assert table.add_files(found / "a.parquet").added_rows == 3
    with pytest.raises(InvalidArgumentError, match="steps names no step"):
        MaintenancePolicy(steps=())
    for wrong in (5, [5], {"a": 1}):
        with pytest.raises(InvalidArgumentError, match=r"steps.* must be"):
            MaintenancePolicy(steps=wrong)  # type: ignore[arg-type]
