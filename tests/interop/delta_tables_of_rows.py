"""Tables that delta-spark writes for `test_delta_spark`: types, partitions, deletes, mapping, widening."""

from __future__ import annotations

from tests.interop.delta_spark_tables import (
    CHANGES,
    COLUMNS,
    FLAT,
    INSERTS,
    MAPPED,
    PARTITION_COLUMNS,
    VECTORS,
    DeltaSparkTable,
    properties,
)

__all__ = ["TABLES"]

_ALL = tuple(COLUMNS)
_EXTREMES = {
    "id": ("bigint", "id"),
    "by": ("tinyint", "CAST(element_at(array(-128, 127, 0), n) AS tinyint)"),
    "sm": ("smallint", "CAST(element_at(array(-32768, 32767, 0), n) AS smallint)"),
    "i": ("int", "element_at(array(-2147483648, 2147483647, 0), n)"),
    "l": ("bigint", "element_at(array(-9223372036854775808, 9223372036854775807, 0L), n)"),
    "f": ("float", "CAST(element_at(array('-Infinity', '3.4028235E38', '1.4E-45'), n) AS float)"),
    "d": ("double", "CAST(element_at(array('-0.0', '1.7976931348623157E308', '4.9E-324'), n) AS double)"),
    "dec": ("decimal(38,0)", "CAST(concat(element_at(array('-', '', '-'), n), repeat('9', 38)) AS decimal(38,0))"),
    "day": ("date", "element_at(array(DATE'0001-01-01', DATE'9999-12-31', DATE'1582-10-04'), n)"),
    "ts": (
        "timestamp",
        (
            "element_at(array(TIMESTAMP'0001-01-01 00:00:00Z', TIMESTAMP'9999-12-31 23:59:59.999999Z', "
            "TIMESTAMP'1582-10-04 23:59:59.999999Z'), n)"
        ),
    ),
    "ntz": (
        "timestamp_ntz",
        (
            "element_at(array(TIMESTAMP_NTZ'0001-01-01 00:00:00', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', "
            "TIMESTAMP_NTZ'1899-12-31 23:59:59.999999'), n)"
        ),
    ),
    "s": ("string", "element_at(array('', repeat('ÿ', 50), 'a\\u0001\\u0000\\n'), n)"),
}
_AS_EXTREMES = {
    name: (kind, expression.replace(", n)", ", CAST(id % 3 + 1 AS int))"))
    for name, (kind, expression) in _EXTREMES.items()
}
_REBASE = (
    "SET spark.sql.parquet.datetimeRebaseModeInWrite=LEGACY",
    "SET spark.sql.parquet.int96RebaseModeInWrite=LEGACY",
)
_AS_MICROS = "SET spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS"
#: What could go wrong in a directory's name, in a URI, or as a null.
_HOSTILE = (
    "' '",
    "'a b'",
    "'100%'",
    "'%20'",
    "'a/b'",
    "'a=b'",
    "'a:b'",
    "'ünï☃𐍈'",
    "NULL",
    "''",
    "'__HIVE_DEFAULT_PARTITION__'",
    "'null'",
    "'.'",
    "'..'",
    "'a+b&c?d#e'",
    "'{\"[\\'^*'",
    "'\\n\\t\\u0001'",
    "'back\\\\slash'",
    "repeat('long', 30)",
    "' x '",
)
_HOSTILE_COLUMNS = {
    "id": ("bigint", "id"),
    "p": ("string", f"element_at(array({', '.join(_HOSTILE)}), CAST(id % {len(_HOSTILE)} + 1 AS int))"),
    "v": ("string", "concat('v', id)"),
}
_NAMED = {
    "id": ("bigint", "id"),
    "a b": ("int", "CAST(id AS int)"),
    "dot.ted": ("string", "concat('d', id)"),
    "ünï,;{}()=%": (
        "struct<`x.y`: int, `z 1`: array<struct<`q=`: string>>>",
        "named_struct('x.y', CAST(id AS int), 'z 1', array(named_struct('q=', 'r')))",
    ),
    "p%20 /q": ("string", _HOSTILE_COLUMNS["p"][1]),
}
_EVOLVED = {
    "id": ("bigint", "id"),
    "part": ("string", "concat('p ', id % 3)"),
    "a": ("int", "CAST(id AS int)"),
    "b": ("string", "concat('b', id)"),
    "st": (
        "struct<x: int, y: struct<u: string, v: date>>",
        "named_struct('x', CAST(id AS int), 'y', named_struct('u', 'u', 'v', DATE'2020-02-02'))",
    ),
    "arr": ("array<struct<e: int, f: string>>", "array(named_struct('e', CAST(id AS int), 'f', 'f'), NULL)"),
    "m": ("map<string, struct<g: int, h: int>>", "map('k', named_struct('g', CAST(id AS int), 'h', 7))"),
}
_EVOLVE = (
    "INSERT INTO {t} {rows:0:10}",
    "ALTER TABLE {t} RENAME COLUMN a TO renamed",
    "ALTER TABLE {t} RENAME COLUMN part TO `the part`",
    "ALTER TABLE {t} RENAME COLUMN st.y.u TO w",
    "ALTER TABLE {t} RENAME COLUMN arr.element.f TO ff",
    "INSERT INTO {t} {rows:10:20}",
    "ALTER TABLE {t} DROP COLUMNS (b, st.x)",
    "ALTER TABLE {t} DROP COLUMN m.value.h",
    "DELETE FROM {t} WHERE id IN (2, 12)",
    "ALTER TABLE {t} ADD COLUMNS (b double, st.x string, arr.element.f double, a string AFTER id)",
    "INSERT INTO {t} (id, a, b, `the part`, renamed) VALUES (30, 'again', 0.5, 'p 1', 3), (31, NULL, 1.5, NULL, 4)",
    "UPDATE {t} SET b = 9, st.x = 'set' WHERE id IN (1, 11, 30)",
    "ALTER TABLE {t} RENAME COLUMN b TO c",
)
_WIDENED = {
    "id": ("int", "CAST(id AS int)"),
    "by": ("tinyint", "CAST(id % 100 - 50 AS tinyint)"),
    "bd": ("tinyint", "CAST(id % 100 - 50 AS tinyint)"),
    "sm": ("smallint", "CAST(id * 100 AS smallint)"),
    "i": ("int", "CAST(id * 1000000 AS int)"),
    "di": ("int", "CAST(id * -1000000 AS int)"),
    "ci": ("int", "CAST(id * 7 AS int)"),
    "cl": ("bigint", "id * 7000000000"),
    "f": ("float", "CAST(id / 7 AS float)"),
    "dec": ("decimal(9,2)", "CAST(id / 4 AS decimal(9,2))"),
    "day": ("date", "date_add(DATE'1970-01-01', CAST(id * 1000 - 5000 AS int))"),
    "st": (
        "struct<x: tinyint, y: array<smallint>, z: map<smallint, float>>",
        (
            "named_struct('x', CAST(id AS tinyint), 'y', array(CAST(id AS smallint)), "
            "'z', map(CAST(id AS smallint), CAST(id / 3 AS float)))"
        ),
    ),
    "p": ("tinyint", "CAST(id % 2 AS tinyint)"),
}
_WIDENINGS = (
    "by TYPE smallint",
    "by TYPE int",
    "by TYPE bigint",
    "bd TYPE double",
    "sm TYPE decimal(12,2)",
    "i TYPE bigint",
    "di TYPE double",
    "ci TYPE decimal(15,5)",
    "cl TYPE decimal(25,3)",
    "f TYPE double",
    "dec TYPE decimal(12,4)",
    "dec TYPE decimal(38,10)",
    "day TYPE timestamp_ntz",
    "st.x TYPE int",
    "st.y.element TYPE int",
    "st.z.key TYPE int",
    "st.z.value TYPE double",
    "p TYPE int",
)
_WIDENING = {"delta.enableTypeWidening": "true", "delta.feature.timestampNtz": "supported"}
_WIDEN = tuple("ALTER TABLE {t} ALTER COLUMN " + change for change in _WIDENINGS)
_VARIANT = """parse_json(element_at(array('{"a": %s, "b": [1, null, "x"], "c": {"d": 1.25}}', '17', '"text"', 'null',
 NULL, '[]', '{"a": "other"}'), CAST(id %% 7 + 1 AS int)))"""
_VARIANTS = {
    "id": ("bigint", "id"),
    "v": ("variant", _VARIANT % 1),
    "st": ("struct<v: variant>", f"IF(id % 3 = 0, NULL, named_struct('v', {_VARIANT % 2}))"),
}
_VARIANT_SELECT = "id, to_json(v) AS v, IF(st IS NULL, NULL, named_struct('v', to_json(st.v))) AS st"
_LARGE = {"id": ("bigint", "id"), "k": ("int", "CAST(id % 97 AS int)"), "s": ("string", "concat('row ', id)")}
_FILES = ("id", "b", "dec9", "dec38", "day", "ts", "tstz", "s", "bin", "arr", "st", "structs", "deep")


def _under(*settings: str, first: int) -> tuple[str, ...]:
    """Return statements that write ten rows under some settings of Spark's writer."""
    return (*(f"SET {setting}" for setting in settings), f"INSERT INTO {{t}} {{rows:{first}:{first + 10}}}")


TABLES: dict[str, DeltaSparkTable] = {
    "types": DeltaSparkTable((*INSERTS, *CHANGES), _ALL, features=frozenset({"timestampNtz"})),
    "types_vectors": DeltaSparkTable(
        (*INSERTS, *CHANGES, "!checkpoint", "INSERT INTO {t} {rows:50:60}"),
        _ALL,
        "PARTITIONED BY (b, s)",
        properties(VECTORS),
        features=frozenset({"deletionVectors", "timestampNtz"}),
    ),
    "types_mapped": DeltaSparkTable((*INSERTS, *CHANGES), _ALL, properties=properties(VECTORS, MAPPED)),
    "types_by_id": DeltaSparkTable(
        (*INSERTS, *CHANGES), _ALL, properties=properties(VECTORS, {"delta.columnMapping.mode": "id"})
    ),
    "extremes": DeltaSparkTable(
        ("INSERT INTO {t} {rows:0:6}", _AS_MICROS, "INSERT INTO {t} {rows:6:12}"), _AS_EXTREMES
    ),
    "extremes_rebased": DeltaSparkTable(
        (*_REBASE, "INSERT INTO {t} {rows:0:6}", _AS_MICROS, "INSERT INTO {t} {rows:6:12}"),
        _AS_EXTREMES,
        differs="files say that their dates before 1582 are of the Julian calendar, which Parquet does not know",
    ),
    "files": DeltaSparkTable(
        (
            *_under("spark.sql.parquet.compression.codec=zstd", first=0),
            *_under("spark.sql.parquet.compression.codec=gzip", _AS_MICROS[4:], first=10),
            *_under("spark.sql.parquet.compression.codec=uncompressed", "parquet.writer.version=v2", first=20),
            *_under("spark.sql.parquet.compression.codec=lz4_raw", "parquet.enable.dictionary=false", first=30),
            *_under("spark.sql.parquet.outputTimestampType=TIMESTAMP_MILLIS", first=40),
            *_under("spark.sql.parquet.writeLegacyFormat=true", "parquet.writer.version=v1", first=50),
        ),
        _FILES,
        # The vectorized reader of Spark 4.1.4 reads other strings than those that it wrote by format 2.
        settings=(("spark.sql.parquet.enableVectorizedReader", "false"),),
    ),
    "void": DeltaSparkTable(
        (
            "INSERT INTO {t} (id, i, s) SELECT id, i, s FROM ({rows:0:5})",
            "ALTER TABLE {t} ADD COLUMN later void",
            "INSERT INTO {t} (id, i, s) SELECT id, i, s FROM ({rows:5:10})",
            "DELETE FROM {t} WHERE id = 3",
        ),
        {
            **{name: COLUMNS[name] for name in ("id", "i", "s")},
            "none": ("void", "NULL"),
            "st": ("struct<a: int, none: void>", "NULL"),
        },
    ),
    "variants": DeltaSparkTable(
        ("INSERT INTO {t} {rows:0:20}", "DELETE FROM {t} WHERE id IN (3, 4)"),
        _VARIANTS,
        properties=properties(VECTORS),
        select=_VARIANT_SELECT,
        features=frozenset({"variantType"}),
    ),
    "variants_shredded": DeltaSparkTable(
        ("INSERT INTO {t} {rows:0:20}", "DELETE FROM {t} WHERE id IN (3, 4)"),
        _VARIANTS,
        properties=properties(enableVariantShredding="true"),
        settings=(
            ("spark.sql.variant.writeShredding.enabled", "true"),
            ("spark.sql.variant.forceShreddingSchemaForTest", "a int, b array<variant>, c struct<d decimal(5,2)>"),
        ),
        select=_VARIANT_SELECT,
        features=frozenset({"variantType"}),
    ),
    "partition_types": DeltaSparkTable(
        (
            "INSERT INTO {t} {rows:0:20}",
            "DELETE FROM {t} WHERE id IN (3, 14)",
            "!checkpoint",
            "UPDATE {t} SET id = 50 WHERE id = 5",
        ),
        {"id": COLUMNS["id"], **PARTITION_COLUMNS},
        f"PARTITIONED BY ({', '.join(PARTITION_COLUMNS)})",
    ),
    "partition_types_local": DeltaSparkTable(
        ("INSERT INTO {t} {rows:0:20}", "DELETE FROM {t} WHERE id IN (3, 14)"),
        {"id": COLUMNS["id"], **PARTITION_COLUMNS},
        f"PARTITIONED BY ({', '.join(PARTITION_COLUMNS)})",
        settings=(("spark.databricks.delta.write.utcTimestampPartitionValues", "false"),),
    ),
    "zone": DeltaSparkTable(
        ("INSERT INTO {t} {rows:0:20}", "UPDATE {t} SET id = 50 WHERE id = 5"),
        {**{name: COLUMNS[name] for name in FLAT}, **PARTITION_COLUMNS},
        "PARTITIONED BY (p_date, p_ts, p_ntz)",
        settings=(("spark.sql.session.timeZone", "America/New_York"),),
        always=True,
    ),
    "zone_local": DeltaSparkTable(
        ("INSERT INTO {t} {rows:0:20}", "UPDATE {t} SET id = 50 WHERE id = 5"),
        {**{name: COLUMNS[name] for name in FLAT}, **PARTITION_COLUMNS},
        "PARTITIONED BY (p_date, p_ts, p_ntz)",
        settings=(
            ("spark.sql.session.timeZone", "America/New_York"),
            ("spark.databricks.delta.write.utcTimestampPartitionValues", "false"),
        ),
    ),
    "partition_hostile": DeltaSparkTable(
        (
            "INSERT INTO {t} {rows:0:40}",
            "DELETE FROM {t} WHERE id % 7 = 3",
            "!checkpoint",
            "UPDATE {t} SET v = 'x' WHERE p IN ('a/b', '%20', 'a:b', '..')",
            "UPDATE {t} SET p = concat(p, '%2F') WHERE id < 8",
        ),
        _HOSTILE_COLUMNS,
        "PARTITIONED BY (p)",
        properties(VECTORS),
    ),
    "names_hostile": DeltaSparkTable(
        ("INSERT INTO {t} {rows:0:40}", "DELETE FROM {t} WHERE id % 7 = 3", "UPDATE {t} SET `a b` = 0 WHERE id < 9"),
        _NAMED,
        "PARTITIONED BY (`p%20 /q`)",
        properties(VECTORS, MAPPED),
        features=frozenset({"columnMapping"}),
    ),
    "mapping_name": DeltaSparkTable(
        _EVOLVE,
        _EVOLVED,
        "PARTITIONED BY (part)",
        properties(MAPPED, VECTORS),
        features=frozenset({"columnMapping"}),
        always=True,
    ),
    "mapping_id": DeltaSparkTable(
        _EVOLVE,
        _EVOLVED,
        "PARTITIONED BY (part)",
        properties({"delta.columnMapping.mode": "id"}),
        features=frozenset({"columnMapping"}),
    ),
    "mapping_upgraded": DeltaSparkTable(
        (
            "INSERT INTO {t} {rows:0:10}",
            (
                "ALTER TABLE {t} SET TBLPROPERTIES ('delta.minReaderVersion'='2', 'delta.minWriterVersion'='5', "
                "'delta.columnMapping.mode'='name')"
            ),
            *_EVOLVE[1:],
        ),
        _EVOLVED,
        "PARTITIONED BY (part)",
        features=frozenset({"columnMapping"}),
    ),
    "mapping_removed": DeltaSparkTable(
        (
            *_EVOLVE[:6],
            "ALTER TABLE {t} RENAME COLUMN `the part` TO part",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='none')",
            "UPDATE {t} SET id = 100 WHERE id = 1",
        ),
        _EVOLVED,
        "PARTITIONED BY (part)",
        properties(MAPPED),
        settings=(("spark.databricks.delta.columnMapping.allowRemoval", "true"),),
    ),
    "vectors_large": DeltaSparkTable(
        (
            "SET parquet.block.size=100000",
            "INSERT INTO {t} {rows:0:60000}",
            "DELETE FROM {t} WHERE id % 3 = 0",
            "DELETE FROM {t} WHERE id BETWEEN 40001 AND 45000",
            "UPDATE {t} SET s = 'x' WHERE k = 5",
            "DELETE FROM {t} WHERE id < 29990",
        ),
        _LARGE,
        properties=properties(VECTORS),
        features=frozenset({"deletionVectors"}),
    ),
    "vectors_stopped": DeltaSparkTable(
        (
            *INSERTS,
            "DELETE FROM {t} WHERE id % 3 = 0",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors'='false')",
            "DELETE FROM {t} WHERE id = 1",
            "UPDATE {t} SET s = 'changed' WHERE id = 22",
            "REORG TABLE {t} APPLY (PURGE)",
        ),
        properties=properties(VECTORS),
    ),
    "widening": DeltaSparkTable(
        (
            "INSERT INTO {t} {rows:0:8}",
            *_WIDEN[:9],
            "INSERT INTO {t} {rows:8:16}",
            *_WIDEN[9:],
            "INSERT INTO {t} {rows:16:24}",
            "DELETE FROM {t} WHERE id IN (1, 9, 17)",
            "UPDATE {t} SET by = 5000000000 WHERE id = 2",
        ),
        _WIDENED,
        "PARTITIONED BY (p)",
        properties(VECTORS, _WIDENING),
        features=frozenset({"typeWidening"}),
    ),
    "widening_rewritten": DeltaSparkTable(
        (
            "INSERT INTO {t} {rows:0:8}",
            *_WIDEN[:-1],
            "INSERT INTO {t} {rows:8:16}",
            "OPTIMIZE {t}",
            "ALTER TABLE {t} DROP FEATURE typeWidening",
        ),
        _WIDENED,
        properties=properties(MAPPED, _WIDENING),
    ),
}
