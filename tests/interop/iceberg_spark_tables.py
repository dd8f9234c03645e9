"""The tables that iceberg-spark writes for `test_iceberg_spark`: names, and the statements that make them.

In a statement ``{t}`` is the table, and ``{rows:a:b}`` a query of its rows with the ids from ``a`` up to ``b``, which
is not one of them; ``{all:a:b}`` has all columns. The statement ``defaults`` is not SQL: it adds columns with defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COLUMNS", "TABLES", "SparkTable"]

_INNER = "IF(id % 4 = 2, NULL, named_struct('c', CAST(id AS string), 'e', TIMESTAMP'2024-02-29 12:00:00Z'))"
#: Each column with its type and what it is computed from: ``id``, a bigint. Before 1970 no instant ends in .999999 in
#: the first second of an hour: iceberg-java takes it for one of the hour before.
COLUMNS: dict[str, tuple[str, str]] = {
    "id": ("bigint", "id"),
    "b": ("boolean", "IF(id % 5 = 0, NULL, id % 2 = 0)"),
    "i": ("int", "CAST(IF(id % 7 = 3, NULL, (id % 11) * 1000 - 5000) AS int)"),
    "l": ("bigint", "IF(id % 13 = 5, NULL, (id % 9 - 4) * 1000000000000)"),
    "f": ("float", "CAST(CASE id % 6 WHEN 0 THEN 'NaN' WHEN 1 THEN NULL WHEN 2 THEN '-0.0' ELSE id / 4 END AS float)"),
    "d": (
        "double",
        "CAST(CASE id % 8 WHEN 0 THEN 'NaN' WHEN 3 THEN '-Infinity' WHEN 4 THEN NULL ELSE id / 7 END AS double)",
    ),
    "dec9": ("decimal(9,2)", "CAST(IF(id % 10 = 9, NULL, (id % 5 - 2) * 10.65) AS decimal(9,2))"),
    "dec38": ("decimal(38,10)", "CAST((id - 10) * 123456789012345678.0123456789 AS decimal(38,10))"),
    "day": ("date", "IF(id % 12 = 7, NULL, date_add(DATE'1969-12-25', CAST(id % 4 * 400 AS int)))"),
    "ts": (
        "timestamp_ntz",
        "TIMESTAMP_NTZ'1969-12-31 22:59:59.999999' + make_interval(0, 0, 0, 0, id % 3 * 1300, 0, id % 2 / 2)",
    ),
    "tstz": (
        "timestamp",
        "IF(id % 9 = 8, NULL, TIMESTAMP'1969-12-30 23:30:00.000001Z' + make_interval(0, id % 3, 0, 0, id % 4))",
    ),
    "s": (
        "string",
        "CASE id % 5 WHEN 0 THEN '' WHEN 1 THEN 'so uth/%=&+' WHEN 2 THEN NULL WHEN 3 THEN 'ünï☃𐍈' ELSE 'abcd' END",
    ),
    "bin": ("binary", "CAST(CASE id % 4 WHEN 0 THEN '' WHEN 1 THEN 'abc' WHEN 2 THEN NULL ELSE 'ab÷cd' END AS binary)"),
    "arr": ("array<int>", "CASE id % 4 WHEN 0 THEN array() WHEN 1 THEN NULL ELSE array(CAST(id AS int), NULL, 3) END"),
    "st": (
        "struct<a: int, b: struct<c: string, e: timestamp>>",
        f"IF(id % 6 = 1, NULL, named_struct('a', CAST(id AS int), 'b', {_INNER}))",
    ),
    "m": ("map<string, double>", "CASE id % 3 WHEN 0 THEN map() WHEN 1 THEN NULL ELSE map('k', id / 2, 'n', NULL) END"),
    "structs": (
        "array<struct<x: int, y: array<string>>>",
        "IF(id % 5 = 4, NULL, array(named_struct('x', CAST(id AS int), 'y', array('q', NULL)), NULL))",
    ),
    "deep": ("map<int, struct<v: date>>", "IF(id % 7 = 6, NULL, map(1, named_struct('v', DATE'0001-01-01'), 2, NULL))"),
}
_FLAT = tuple(name for name, (kind, _) in COLUMNS.items() if "<" not in kind)
_MERGE_ON_READ = {
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
}


@dataclass(frozen=True)
class SparkTable:
    """A table: how it is created, and the statements after that.

    ``select`` is what Spark reads of it; ``history`` says that older snapshots are compared too.
    """

    version: int
    statements: tuple[str, ...]
    columns: tuple[str, ...] = tuple(COLUMNS)
    partitioned: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    select: str = "*"
    history: bool = False

    @property
    def other_formats(self) -> set[str]:
        """The formats of its data files beside Parquet."""
        chosen = {dict(self.properties).get("write.format.default")}
        changed = {kind for kind in ("avro", "orc") if f"'write.format.default'='{kind}'" in "".join(self.statements)}
        return {kind for kind in ("avro", "orc") if kind in chosen | changed}

    def create(self, table: str) -> str:
        """Return the statement that creates it."""
        columns = ", ".join(f"{name} {COLUMNS[name][0]}" for name in self.columns)
        partitioned = f" PARTITIONED BY ({self.partitioned})" if self.partitioned else ""
        properties = {"format-version": str(self.version), **dict(self.properties)}
        listed = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
        return f"CREATE TABLE {table} ({columns}) USING iceberg{partitioned} TBLPROPERTIES ({listed})"

    def rows(self, first: int, last: int) -> str:
        """Return the query of some rows."""
        values = ", ".join(f"{COLUMNS[name][1]} AS {name}" for name in self.columns)
        return f"SELECT {values} FROM range({first}, {last}, 1, 2)"


_INSERTS = ("INSERT INTO {t} {rows:0:20}", "INSERT INTO {t} {rows:20:40}")
_CHANGES = (
    "DELETE FROM {t} WHERE id % 3 = 0",
    "UPDATE {t} SET i = -1, s = 'changed' WHERE id % 10 = 4",
)


def _by_format(version: int, format: str, codec: str, **more: str) -> SparkTable:
    properties = {"write.format.default": format, f"write.{format}.compression-codec": codec, **more}
    if version > 1:
        properties = {**_MERGE_ON_READ, **properties}
    return SparkTable(version, (*_INSERTS, *_CHANGES), properties=tuple(properties.items()), history=True)


def _by_transforms(version: int, format: str, partitioned: str) -> SparkTable:
    properties = {"write.format.default": format, **(_MERGE_ON_READ if version > 1 else {})}
    statements = ("INSERT INTO {t} {rows:0:40}", "DELETE FROM {t} WHERE id IN (1, 14, 15, 23, 36)")
    return SparkTable(version, statements, _FLAT, partitioned, tuple(properties.items()))


def _evolving(version: int, *formats: str) -> SparkTable:
    """Return a table whose schema changes, with files of several formats."""
    columns = ("id", "i", "f", "dec9", "s", "st", "structs", "deep")
    set_format = "ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default'='%s')"
    named = (
        "SELECT id, CAST(id AS bigint) * 10000000000 AS i, s AS text, CAST(f AS double) / 3 AS f, "
        "CAST(dec9 AS decimal(20,2)) AS dec9, "
        "IF(id % 3 = 0, NULL, named_struct('inner', named_struct('c', st.b.c, 'e', st.b.e), "
        "'a', st.a, 'added', DATE'2020-02-02')) AS st, "
        "transform(structs, x -> named_struct('x', x.x, 'y', x.y, 'z', 0.25D)) AS structs, "
        "transform_values(deep, (k, v) -> named_struct('at', v.v)) AS deep FROM ({rows:10:20})"
    )
    return SparkTable(
        version,
        (
            set_format % formats[0],
            "INSERT INTO {t} {rows:0:10}",
            "ALTER TABLE {t} ALTER COLUMN i TYPE bigint",
            "ALTER TABLE {t} ALTER COLUMN f TYPE double",
            "ALTER TABLE {t} ALTER COLUMN dec9 TYPE decimal(20,2)",
            "ALTER TABLE {t} RENAME COLUMN s TO text",
            "ALTER TABLE {t} ALTER COLUMN text AFTER i",
            "ALTER TABLE {t} RENAME COLUMN st.b TO inner",
            "ALTER TABLE {t} ALTER COLUMN st.inner FIRST",
            "ALTER TABLE {t} ADD COLUMN st.added date",
            "ALTER TABLE {t} ADD COLUMN structs.element.z double",
            "ALTER TABLE {t} RENAME COLUMN deep.value.v TO at",
            set_format % formats[1 % len(formats)],
            "INSERT INTO {t} " + named,
            "DELETE FROM {t} WHERE id IN (2, 12)",
            "ALTER TABLE {t} DROP COLUMNS (text, st.inner.c)",
            "ALTER TABLE {t} ADD COLUMN (text string, day date)",
            set_format % formats[2 % len(formats)],
            "INSERT INTO {t} (id, i, f, text, day) SELECT id, i, d, s, day FROM ({all:20:30})",
            "UPDATE {t} SET text = 'back' WHERE id IN (3, 13, 23)",
        ),
        columns,
        properties=tuple(_MERGE_ON_READ.items()) if version > 1 else (),
        history=True,
    )


def _respecified(version: int) -> SparkTable:
    return SparkTable(
        version,
        (
            "INSERT INTO {t} {rows:0:12}",
            "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, l)",
            "INSERT INTO {t} {rows:12:24}",
            "ALTER TABLE {t} ADD PARTITION FIELD months(ts) AS in_month",
            "INSERT INTO {t} {rows:24:36}",
            "DELETE FROM {t} WHERE id IN (1, 13, 25)",
            "ALTER TABLE {t} REPLACE PARTITION FIELD in_month WITH days(ts)",
            "ALTER TABLE {t} DROP PARTITION FIELD bucket(2, l)",
            "ALTER TABLE {t} ADD PARTITION FIELD s",
            "INSERT INTO {t} {rows:36:48}",
            "DELETE FROM {t} WHERE id % 12 = 5",
        ),
        _FLAT,
        properties=tuple(_MERGE_ON_READ.items()) if version > 1 else (),
        select="*, _spec_id, _partition",
        history=False,
    )


_MERGE = (
    "MERGE INTO {t} USING (SELECT * FROM ({rows:30:50})) n ON {t}.id = n.id WHEN MATCHED AND n.id % 2 = 0 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET s = 'merged' WHEN NOT MATCHED THEN INSERT *"
)
_LINEAGE = (*_INSERTS, *_CHANGES, _MERGE)
_TRANSFORMS = [
    "s",
    "b, day",
    "i, bin",
    "f",
    "d",
    "dec9",
    "ts",
    "tstz",
    "bucket(3, i)",
    "bucket(3, l)",
    "bucket(3, s)",
    "bucket(3, day)",
    "bucket(3, ts), bucket(2, tstz)",
    "bucket(3, dec9), bucket(2, bin)",
    "bucket(2, dec38)",
    "truncate(3000, i)",
    "truncate(7, l)",
    "truncate(2, s)",
    "truncate(50, dec9)",
    "truncate(2, bin)",
    "years(day)",
    "years(ts)",
    "years(tstz)",
    "months(day)",
    "months(ts)",
    "months(tstz)",
    "days(day)",
    "days(ts)",
    "days(tstz)",
    "hours(ts)",
    "hours(tstz)",
    "months(ts), bucket(2, l), truncate(1, s)",
]
_VARIANT = """IF(id % 5 = 0, NULL, parse_json(concat('{"a": ', id, ', "b": [1, null, "x"]}')))"""
_FORMATS = ("parquet", "avro", "orc")

TABLES: dict[str, SparkTable] = {
    "parquet_v1": _by_format(1, "parquet", "gzip"),
    "parquet_v2": _by_format(2, "parquet", "zstd", **{"write.delete.granularity": "partition"}),
    "parquet_v3": _by_format(3, "parquet", "snappy", **{"write.metadata.compression-codec": "gzip"}),
    "avro_v1": _by_format(1, "avro", "snappy"),
    "avro_v2": _by_format(2, "avro", "zstd"),
    "avro_v3": _by_format(3, "avro", "gzip"),
    "orc_v1": _by_format(1, "orc", "zlib"),
    "orc_v2": _by_format(2, "orc", "zstd"),
    "orc_v3": _by_format(3, "orc", "snappy"),
    "mixed_deletes": _by_format(2, "parquet", "zstd", **{"write.delete.format.default": "avro"}),
    **{
        f"transform_{number}": _by_transforms((2, 3, 1)[number % 3], _FORMATS[number // 3 % 3], partitioned)
        for number, partitioned in enumerate(_TRANSFORMS)
    },
    "schema_v1": _evolving(1, "parquet"),
    "schema_v2": _evolving(2, "orc", "parquet", "avro"),
    "schema_v3": _evolving(3, "avro", "orc", "parquet"),
    "spec_v1": _respecified(1),
    "spec_v2": _respecified(2),
    "spec_v3": _respecified(3),
    "refs": SparkTable(
        2,
        (
            _INSERTS[0],
            "ALTER TABLE {t} CREATE TAG begin",
            _INSERTS[1],
            "ALTER TABLE {t} CREATE BRANCH side",
            "DELETE FROM {t} WHERE id < 10",
            "INSERT INTO {t}.branch_side {rows:100:110}",
            "DELETE FROM {t}.branch_side WHERE id IN (1, 101)",
            "ALTER TABLE {t} ADD COLUMN later int",
            "UPDATE {t} SET later = 5 WHERE id = 12",
        ),
        ("id", "i", "s"),
        properties=tuple(_MERGE_ON_READ.items()),
        history=True,
    ),
    "rewritten": SparkTable(
        2,
        (
            *_INSERTS,
            *_CHANGES,
            "CALL ice.system.rewrite_position_delete_files(table => '{name}', options => map('rewrite-all', 'true'))",
            "CALL ice.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
            "DELETE FROM {t} WHERE id IN (7, 8)",
            "CALL ice.system.rewrite_manifests('{name}')",
        ),
        partitioned="truncate(1, s)",
        properties=tuple(_MERGE_ON_READ.items()),
        history=True,
    ),
    "lineage": SparkTable(
        3,
        (*_LINEAGE, "CALL ice.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"),
        ("id", "i", "s"),
        properties=tuple(_MERGE_ON_READ.items()),
        select="*, _row_id, _last_updated_sequence_number",
        history=True,
    ),
    "lineage_copied": SparkTable(
        3, _LINEAGE, ("id", "i", "s"), "bucket(2, id)", select="*, _row_id, _last_updated_sequence_number", history=True
    ),
    "upgraded": SparkTable(
        2,
        (
            *_INSERTS,
            "DELETE FROM {t} WHERE id % 3 = 0",
            "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')",
            "DELETE FROM {t} WHERE id % 5 = 0",
            "INSERT INTO {t} {rows:40:50}",
            "UPDATE {t} SET s = 'changed' WHERE id % 10 = 4",
        ),
        ("id", "i", "s"),
        properties=tuple(_MERGE_ON_READ.items()),
        select="*, _row_id, _last_updated_sequence_number",
    ),
    "metadata_columns": SparkTable(
        2,
        (*_INSERTS, "DELETE FROM {t} WHERE id IN (1, 2, 30)", _MERGE),
        ("id", "i", "s"),
        "bucket(2, i), s",
        tuple(_MERGE_ON_READ.items()),
        "*, _file, _pos, _spec_id, _partition, _deleted",
    ),
    "defaults": SparkTable(
        3,
        (
            "INSERT INTO {t} {rows:0:5}",
            "defaults",
            "INSERT INTO {t} (id, i) SELECT id, i FROM ({rows:5:10})",
            "INSERT INTO {t} (id, di, ds) VALUES (50, NULL, NULL)",
            "ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default'='avro')",
            "INSERT INTO {t} (id, i) SELECT id, i FROM ({rows:10:15})",
        ),
        ("id", "i"),
    ),
    "variants": SparkTable(
        3,
        (
            "ALTER TABLE {t} ADD COLUMN v variant",
            f"INSERT INTO {{t}} SELECT id, {_VARIANT} FROM range(0, 20, 1, 2)",
            "DELETE FROM {t} WHERE id IN (3, 4)",
        ),
        ("id",),
        properties=tuple(_MERGE_ON_READ.items()),
        select="id, to_json(v) AS v",
    ),
}
