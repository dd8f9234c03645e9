"""Names of frames and results, which tables and scans lack: those of pandas, polars, PySpark and DuckDB."""

from __future__ import annotations

from deltaberg.coming_from.name_table import Names

__all__ = ["OF_FRAMES", "OF_ROWS"]

_PANDAS = (
    *("apply", "assign", "describe", "drop_duplicates", "fillna", "groupby", "iloc", "info", "isnull", "iterrows"),
    *("itertuples", "items", "keys", "loc", "nunique", "plot", "sample", "set_index", "sort_values", "to_csv"),
    *("to_dict", "to_excel", "to_json", "to_parquet", "to_records", "to_sql", "value_counts", "values"),
)
_POLARS = (
    *("agg", "explode", "group_by", "iter_rows", "join", "sort", "tail", "unique", "with_columns", "with_row_index"),
    *("write_csv", "write_database", "write_excel", "write_json", "write_parquet"),
)
_PYSPARK = (
    *("cache", "createOrReplaceTempView", "distinct", "dropDuplicates", "groupBy", "orderBy", "rdd", "selectExpr"),
    *("withColumn", "withColumnRenamed", "writeTo"),
)
_ARROW = "`to_arrow()`"
_FRAME = "`to_pandas()` or `to_polars()`"
_LISTS = "`to_arrow().to_pylist()`"

#: Of tables and of scans.
OF_ROWS: Names = {
    **{name: f"`to_pandas().{name}`" for name in _PANDAS},
    **{name: f"`to_polars().{name}`" for name in _POLARS},
    **dict.fromkeys(("arrow", "as_arrow", "to_arrow_table", "to_pyarrow", "to_table", "fetch_arrow_table"), _ARROW),
    **dict.fromkeys(("df", "fetchdf", "to_dataframe", "to_df", "to_frame"), _FRAME),
    **dict.fromkeys(("fetchall", "fetchmany", "rows", "to_dicts", "to_list", "to_pylist", "toLocalIterator"), _LISTS),
    **dict.fromkeys(("length", "nrows", "num_rows", "row_count", "size"), "`count()`"),
    **dict.fromkeys(("display", "print", "show", "take"), "`head(10)`"),
    **dict.fromkeys(("printSchema", "print_schema"), "print(table.schema)"),
    "collect": "`to_polars()` or `to_arrow()`",
    "dtypes": "`to_arrow().schema`",
    "empty": "`count() == 0`",
    "fetchone": "`head(1).to_pylist()`",
    "first": "`head(1).to_pylist()`",
    "is_empty": "`count() == 0`",
    "isEmpty": "`count() == 0`",
    "lazy": "`to_polars().lazy()`",
    "pl": "`to_polars()`",
    "query": 'pass the condition to `scan` of the table, as in `table.scan("id > 1")`',
    "shape": "`count()`, and `names` of the `schema`",
    "sql": '`duckdb.sql("SELECT … FROM scan")`, where scan is `table.scan()`',
    "toArrow": _ARROW,
    "toPandas": "`to_pandas()`",
}
#: Of tables alone, and of scans alone.
OF_FRAMES: dict[str, Names] = {
    "Table": {name: f"`scan().to_spark(spark).{name}`" for name in _PYSPARK},
    "Scan": {name: f"`to_spark(spark).{name}`" for name in _PYSPARK},
}
