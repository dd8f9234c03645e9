"""What users of deltalake, polars and pyiceberg write first: it works, or the error says what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import deltaberg
from deltaberg.errors import DeltabergError

pytestmark = pytest.mark.one_backend

_ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "x": [1.5, 2.5, None]})
_MORE = pa.table({"id": [4], "name": ["d"], "x": [4.0]})
#: It works.
_FINE = ""
#: Python itself says it: a property is no method, and a table is no list.
_PYTHON = "TypeError"
#: A guess, and what its error proposes on a Delta table and on one of Iceberg; a single text is for both.
_GUESSES: list[tuple[str, str | tuple[str, str]]] = [
    # deltalake
    ("deltaberg.write_deltalake(path, rows)", "write_table(target, data)"),
    (
        "deltaberg.write_table(path + 'b', rows, mode='overwrite', schema_mode='overwrite', partition_by=['name'])",
        _FINE,
    ),
    ("deltaberg.write_table(path + 'c', rows, configuration={'a.b': 'c'}, description='d')", _FINE),
    ("deltaberg.DeltaTable(path, version=0)", (_FINE, 'format="iceberg"')),
    ("deltaberg.DeltaTable(path, storage_options={})", (_FINE, 'format="iceberg"')),
    ("deltaberg.DeltaTable.is_deltatable(path)", "open_table"),
    ("deltaberg.DeltaTable.create(path, rows.schema)", "create_table"),
    ("table.version", (_FINE, "snapshot_id")),
    ("table.version()", (_PYTHON, "snapshot_id")),
    ("table.schema()", _PYTHON),
    ("table.metadata()", _PYTHON),
    ("table.protocol()", (_PYTHON, "format_version")),
    ("table.files()", ("scan().files()", 'inspect("files")')),
    ("table.file_uris()", "scan().files()"),
    ("table.history(1)", _FINE),
    ("table.to_pandas()", _FINE),
    ("table.to_pandas(columns=['id'])", "table.scan("),
    ("table.to_pyarrow_table()", "to_arrow()"),
    ("table.to_pyarrow_dataset()", "scan(filter, columns)"),
    ("table.load_as_version(0)", ("version=3", "snapshot_id=")),
    ("table.load_cdf(starting_version=0)", "changes(start, end)"),
    ("table.get_add_actions(flatten=True)", ("live_files", 'inspect("files")')),
    ("table.vacuum()", (_FINE, "expire_snapshots()")),
    ("table.vacuum(retention_hours=0, enforce_retention_duration=False)", (_FINE, "expire_snapshots()")),
    ("table.optimize.compact()", "compact()"),
    ("table.optimize.z_order(['id'])", "z_order_by"),
    ("table.create_checkpoint()", ("checkpoint()", "no checkpoints")),
    ("table.cleanup_metadata()", (_FINE, "delete-after-commit")),
    ("table.restore(0)", (_FINE, "the newest snapshots")),
    ("table.repair(dry_run=True)", _FINE),
    ("table.delete('id = 99')", _FINE),
    ("table.delete(predicate='id = 99')", _FINE),
    ("table.delete()", "where=None"),
    ("table.update(updates={'name': \"'z'\"}, predicate='id = 1')", _FINE),
    ("table.update({'name': 'z'}, 'id = 1')", "quote a text twice"),
    ("table.update(new_values={'name': 'z'}, predicate='id = 1')", "quoted twice"),
    ("table.merge(source=more, predicate='s.id = t.id', source_alias='s', target_alias='t')", _FINE),
    ("table.update_incremental()", "refresh()"),
    ("table.partitions()", "scan().files()"),
    ("table.table_uri", "location"),
    # polars
    ("deltaberg.read_delta(path)", "to_polars()"),
    ("deltaberg.scan_delta(path)", "to_polars().lazy()"),
    ("deltaberg.scan_iceberg(path)", "to_polars().lazy()"),
    ("pl.DataFrame(table)", _FINE),
    ("pl.LazyFrame(table).collect()", _FINE),
    ("table.to_polars().filter(pl.col('id') > 1)", _FINE),
    ("table.scan(pl.col('id') > 1)", "an expression of col()"),
    ("table.lazy()", "to_polars().lazy()"),
    ("table.select('id')", "scan(filter, columns)"),
    ("table.filter('id > 1')", "scan(filter, columns)"),
    ("table.sql('SELECT * FROM self')", "duckdb.sql"),
    ("table.head()", _FINE),
    ("table.limit(2)", "head(10)"),
    ("table.shape", "count()"),
    ("table.columns", "schema.names"),
    ("table.scan().collect()", "to_polars()"),
    ("len(table)", _PYTHON),
    ("table['id']", _PYTHON),
    ("table.append(pl.from_arrow(more).lazy())", _FINE),
    ("table.append(rows.to_pylist())", "from_pylist"),
    ("table.append({'id': [4]})", "pyarrow.table(data)"),
    # pyiceberg
    ("deltaberg.load_table(path)", "open_table"),
    ("deltaberg.StaticTable.from_metadata(path)", "open_table"),
    ("table.scan(row_filter='id > 1', selected_fields=('id',), limit=1).to_arrow()", _FINE),
    ("table.scan(snapshot_id=1)", "open the table with snapshot_id="),
    ("table.scan().filter('id > 1')", "scan of the table"),
    ("table.scan().select('id')", "columns="),
    ("table.scan().plan_files()", "files()"),
    ("table.scan().to_duckdb('t')", "duckdb.sql"),
    ("table.scan().to_arrow_batch_reader()", "to_reader()"),
    ("table.update_schema().add_column('y', 'long')", "alter().add("),
    ("table.update_spec().add_field('name')", "alter().partition_by("),
    ("table.add_column('y', 'long')", "alter().add("),
    ("table.rename_column('x', 'y')", "alter().rename("),
    ("table.drop_column('x')", "alter().drop("),
    ("table.set_properties({'a': 'b'})", "alter().set("),
    ("table.current_snapshot()", ("version", "snapshot")),
    ("table.refs()", ("restore(version)", _PYTHON)),
    ("table.name()", "location"),
    ("table.transaction()", _FINE),
    ("table.upsert(more, join_cols=['id'])", _FINE),
    ("table.upsert(more)", "name the columns that identify a row"),
    ("table.overwrite(more, overwrite_filter='id = 4')", "where="),
    ("table.dynamic_partition_overwrite(more)", "dynamic=True"),
    ("table.manage_snapshots().create_tag(1, 'v')", ("restore(version)", "create_tag(")),
    ("table.maintenance.expire_snapshots()", ("maintain()", "expire_snapshots()")),
    ("table.refresh()", _FINE),
]


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("guesses") / request.param
    deltaberg.write_table(place, _ROWS, format=request.param)
    return place


@pytest.mark.parametrize(("guess", "outcomes"), _GUESSES, ids=[guess for guess, _ in _GUESSES])
def test_a_first_guess_works_or_says_what_to_write(path: Path, guess: str, outcomes: str | tuple[str, str]) -> None:
    outcome = outcomes if isinstance(outcomes, str) else outcomes[path.name == "iceberg"]
    names: dict[str, Any] = {"deltaberg": deltaberg, "pl": pl, "rows": _ROWS, "more": _MORE, "path": str(path)}
    names["table"] = deltaberg.open_table(path)
    if outcome == _FINE:
        eval(guess, names)
        return
    with pytest.raises((DeltabergError, TypeError)) as raised:
        eval(guess, names)
    if outcome != _PYTHON:
        assert isinstance(raised.value, DeltabergError)
        assert outcome in f"{raised.value.hint}"
