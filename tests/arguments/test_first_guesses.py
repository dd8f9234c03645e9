"""What users of other libraries write first: it works, or the error says what to write."""

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
_PLAIN = "without parentheses"
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
    ("table.version()", (_PLAIN, "snapshot_id")),
    ("table.schema()", _PLAIN),
    ("table.metadata()", _PLAIN),
    ("table.protocol()", (_PLAIN, "format_version")),
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
    ("len(table)", "count()"),
    ("table['id']", "scan(columns=['id'])"),
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
    ("table.refs()", ("restore(version)", _PLAIN)),
    ("table.name()", "location"),
    ("table.transaction()", _FINE),
    ("table.upsert(more, join_cols=['id'])", _FINE),
    ("table.upsert(more)", "name the columns that identify a row"),
    ("table.overwrite(more, overwrite_filter='id = 4')", "where="),
    ("table.dynamic_partition_overwrite(more)", "dynamic=True"),
    ("table.manage_snapshots().create_tag(1, 'v')", ("restore(version)", "create_tag(")),
    ("table.maintenance.expire_snapshots()", ("maintain()", "expire_snapshots()")),
    ("table.refresh()", _FINE),
    # properties that are called, and what is taken for a list or a frame
    ("table.location()", _PLAIN),
    ("table.properties()", _PLAIN),
    ("table.arrow_schema()", _PLAIN),
    ("table.partition_columns()", (_PLAIN, "spec")),
    ("table.features()", (_PLAIN, "format_version")),
    ("table.timestamp()", (_PLAIN, "snapshot.timestamp_ms")),
    ("table.snapshots()", ("history()", _PLAIN)),
    ("table.snapshot()", ("version", _PLAIN)),
    ("table.spec()", ("partition_columns", _PLAIN)),
    ("table.sort_order()", ("clustering_columns", _PLAIN)),
    ("table.format_version()", ("protocol", _PLAIN)),
    ("table.scan().schema()", _PLAIN),
    ("table.scan().metrics()", _PLAIN),
    ("table.transaction().schema()", "ask the table"),
    ("bool(table) and bool(table.scan())", _FINE),
    ("len(table.scan())", "count()"),
    ("table.scan()['id']", "scan(columns=['id'])"),
    ("table[['id', 'name']]", "scan(columns=['id', 'name'])"),
    ("table[table.schema.names]", "scan(columns=['id', 'name', 'x'])"),
    ("table[deltaberg.col('id') > 1]", 'scan("id > 1")'),
    ("table[0]", "head(10)"),
    ("table[:2]", "head(10)"),
    ("[row for row in table]", "to_arrow().to_pylist()"),
    ("list(table)", "to_arrow().to_pylist()"),
    ("'id' in table", "to_arrow().to_pylist()"),
    ("[batch.num_rows for batch in table.scan()]", _FINE),
    ("str(table), repr(table), str(table.scan())", _FINE),
    ("pa.table(table)", _FINE),
    ("table.schema.field('id')", 'get("name")'),
    ("table.schema.to_pyarrow()", "arrow_schema"),
    ("table.schema.as_arrow()", "arrow_schema"),
    # pandas
    ("table.describe()", "to_pandas().describe"),
    ("table.loc[0]", "to_pandas().loc"),
    ("table.iterrows()", "to_pandas().iterrows"),
    ("table.sort_values('id')", "to_pandas().sort_values"),
    ("table.to_csv('x.csv')", "to_pandas().to_csv"),
    ("table.to_parquet('x')", "to_pandas().to_parquet"),
    ("table.query('id > 1')", "scan of the table"),
    ("table.drop(columns=['x'])", "alter().drop(name)"),
    ("table.rename(columns={'x': 'y'})", "alter().rename("),
    ("table.size", "count()"),
    ("table.empty", "count() == 0"),
    ("table.dtypes", "arrow_schema"),
    ("deltaberg.read_csv('x.csv')", "write_table(target, data)"),
    ("deltaberg.from_pandas(rows)", "write_table(target, data"),
    # polars and duckdb
    ("table.group_by('name')", "to_polars().group_by"),
    ("table.with_columns()", "to_polars().with_columns"),
    ("table.tail(1)", "to_polars().tail"),
    ("table.write_parquet('x')", "to_polars().write_parquet"),
    ("table.pl()", "to_polars()"),
    ("table.arrow()", "to_arrow()"),
    ("table.df()", "to_pandas()"),
    ("table.fetchall()", "to_arrow().to_pylist()"),
    ("table.fetchone()", "head(1)"),
    ("table.to_pyarrow()", "to_arrow()"),
    ("table.scan().df()", "to_pandas()"),
    ("table.scan().tail(1)", "to_polars().tail"),
    # PySpark and delta-spark
    ("table.show()", "head(10)"),
    ("table.printSchema()", "print(table.schema)"),
    ("table.toPandas()", "to_pandas()"),
    ("table.groupBy('name')", "scan().to_spark(spark).groupBy"),
    ("table.scan().groupBy('name')", "write to_spark(spark).groupBy"),
    ("table.withColumn('y', 1)", "scan().to_spark(spark).withColumn"),
    ("table.first()", "head(1)"),
    ("table.take(1)", "head(10)"),
    ("table.detail()", ("deltaberg.spark", "write location")),
    ("table.toDF()", ("deltaberg.spark", "write scan().to_spark(spark)")),
    ("table.saveAsTable('t')", "append(data) or overwrite(data)"),
    # words of no library
    ("table.insert(more)", "append(data)"),
    ("table.add(more)", "append(data)"),
    ("table.replace(more)", ("if_exists=", "overwrite(data)")),
    ("table.truncate()", "delete(where=None)"),
    ("table.commit()", "each verb commits"),
    ("table.close()", "nothing stays open"),
    ("table.reload()", "refresh()"),
    ("table.path", "location"),
    ("table.uuid", ("metadata.id", "metadata.table_uuid")),
    ("table.latest_version()", ("refresh().version", "refresh().snapshot_id")),
    ("table.time_travel(0)", "open_table(location, version=3)"),
    ("table.rollback(0)", "restore(version)"),
    ("table.z_order(['id'])", "compact(z_order_by="),
    ("table.stats()", "scan().files(statistics=True)"),
    ("table.exists()", "TableNotFoundError"),
    ("deltaberg.table_exists(path)", "TableNotFoundError"),
    ("deltaberg.append(path, rows)", "write_table(target, data, mode="),
    ("deltaberg.overwrite(path, rows)", 'mode="overwrite"'),
    ("deltaberg.merge(path, rows)", "open_table(location).merge("),
    ("deltaberg.vacuum(path)", "open_table(location).vacuum()"),
    ("deltaberg.drop(path)", "drop_table(location)"),
    ("deltaberg.version", "__version__"),
]


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("guesses") / request.param
    deltaberg.write_table(place, _ROWS, format=request.param)
    return place


@pytest.mark.parametrize(("guess", "outcomes"), _GUESSES, ids=[guess for guess, _ in _GUESSES])
def test_a_first_guess_works_or_says_what_to_write(path: Path, guess: str, outcomes: str | tuple[str, str]) -> None:
    outcome = outcomes if isinstance(outcomes, str) else outcomes[path.name == "iceberg"]
    names: dict[str, Any] = {"deltaberg": deltaberg, "pa": pa, "pl": pl, "rows": _ROWS, "more": _MORE}
    names |= {"path": str(path), "table": deltaberg.open_table(path)}
    if outcome == _FINE:
        eval(guess, names)
        return
    with pytest.raises(DeltabergError) as raised:
        eval(guess, names)
    assert outcome in f"{raised.value.hint}"
