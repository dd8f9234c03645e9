"""Tables that delta-spark writes for `test_delta_spark`: checkpoints, row tracking, change feeds, history, clones."""

from __future__ import annotations

from tests.interop.delta_spark_tables import (
    CHANGES,
    COLUMNS,
    INSERTS,
    MAPPED,
    PARTITION_COLUMNS,
    VECTORS,
    DeltaSparkTable,
    properties,
)

__all__ = ["TABLES"]

_ROW_FIELDS = "named_struct('row_id', _metadata.row_id, 'row_commit_version', _metadata.row_commit_version)"
_TRACKED = f"*, {_ROW_FIELDS} AS _metadata"
_COMMITS = (*INSERTS, *CHANGES, "INSERT INTO {t} {rows:60:70}", "DELETE FROM {t} WHERE id > 66")
_CHECKPOINTED = (
    *_COMMITS[:4],
    "!checkpoint",
    *_COMMITS[4:],
    "!checkpoint",
    "INSERT INTO {t} {rows:80:85}",
    "DELETE FROM {t} WHERE id = 84",
)
_CHECKPOINT_COLUMNS = ("id", "i", "s", "ts", "dec9", "day", "st")
_FEED = {"delta.enableChangeDataFeed": "true"}
_FED = (
    *INSERTS,
    *CHANGES,
    "OPTIMIZE {t}",
    "INSERT OVERWRITE {t} {rows:5:15}",
    "RESTORE TABLE {t} TO VERSION AS OF 4",
    "DELETE FROM {t}",
    "INSERT INTO {t} {rows:70:75}",
)
_TRACKING = {"delta.enableRowTracking": "true"}
_LEAP = "TIMESTAMP'2024-02-29 23:30:00Z'"
_TOP_LEVEL = "spark.databricks.delta.checkpointV2.topLevelFileFormat"
_SMALL_PARTS = ("spark.databricks.delta.checkpoint.partSize", "3")


def _checkpointed(
    chosen: dict[str, str], *settings: tuple[str, str], violation: str = "", always: bool = False
) -> DeltaSparkTable:
    return DeltaSparkTable(
        _CHECKPOINTED,
        _CHECKPOINT_COLUMNS,
        "PARTITIONED BY (s)",
        properties(chosen),
        settings,
        violation=violation,
        always=always,
    )


def _stats(json: str, struct: str) -> dict[str, str]:
    chosen = {"delta.checkpoint.writeStatsAsJson": json, "delta.checkpoint.writeStatsAsStruct": struct}
    return {**VECTORS, **chosen}


_V2 = {**VECTORS, "delta.checkpointPolicy": "v2"}
_V2_MAPPED = {**_V2, **_TRACKING, "delta.enableInCommitTimestamps": "true", "delta.columnMapping.mode": "id"}

TABLES: dict[str, DeltaSparkTable] = {
    "rows_tracked": DeltaSparkTable(
        (*INSERTS, *CHANGES, "OPTIMIZE {t}", "UPDATE {t} SET i = 5 WHERE id IN (4, 7, 31)"),
        properties=properties(VECTORS, _TRACKING),
        select=_TRACKED,
        features=frozenset({"rowTracking"}),
    ),
    "rows_tracked_copied": DeltaSparkTable(
        (*INSERTS, *CHANGES, "ALTER TABLE {t} RENAME COLUMN i TO ii", "OPTIMIZE {t}"),
        clause="PARTITIONED BY (s)",
        properties=properties(MAPPED, _TRACKING),
        select=_TRACKED,
        features=frozenset({"rowTracking"}),
    ),
    "rows_tracked_later": DeltaSparkTable(
        (
            *INSERTS,
            "DELETE FROM {t} WHERE id IN (1, 2, 30)",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking'='true')",
            *CHANGES,
        ),
        properties=properties(VECTORS),
        select=_TRACKED,
        # Version 4 supports the feature, 5 gives the rows their ids, 6 enables it.
        first=6,
        features=frozenset({"rowTracking"}),
    ),
    "feed": DeltaSparkTable(_FED, clause="PARTITIONED BY (s)", properties=properties(VECTORS, _FEED), changes=0),
    "feed_copied": DeltaSparkTable(_FED, ("id", "i", "s", "st", "tstz"), properties=properties(_FEED), changes=0),
    "feed_mapped": DeltaSparkTable(
        (
            "ALTER TABLE {t} RENAME COLUMN i TO renamed",
            "ALTER TABLE {t} RENAME COLUMN s TO i",
            "INSERT INTO {t} SELECT id, i, s FROM ({rows:0:20})",
            "UPDATE {t} SET renamed = 1 WHERE id < 5",
            "DELETE FROM {t} WHERE id > 12",
        ),
        clause="PARTITIONED BY (s)",
        properties=properties(MAPPED, VECTORS, _FEED),
        changes=2,
    ),
    "feed_later": DeltaSparkTable(
        (
            *INSERTS,
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed'='true')",
            "ALTER TABLE {t} ADD COLUMN extra string",
            "INSERT INTO {t} SELECT *, 'e' FROM ({rows:40:50})",
            "UPDATE {t} SET extra = 'changed' WHERE id % 10 = 4",
        ),
        properties=properties(VECTORS, enableInCommitTimestamps="true"),
        changes=3,
    ),
    "clustered": DeltaSparkTable(
        (
            *INSERTS,
            "OPTIMIZE {t}",
            "ALTER TABLE {t} CLUSTER BY (i)",
            "INSERT INTO {t} {rows:40:60}",
            "OPTIMIZE {t} FULL",
            "DELETE FROM {t} WHERE id = 3",
            "ALTER TABLE {t} CLUSTER BY NONE",
        ),
        ("id", "i", "s", "st"),
        "CLUSTER BY (id, st.b.c)",
        properties(VECTORS, MAPPED),
        features=frozenset({"clustering", "domainMetadata"}),
    ),
    "checkpoint_classic": _checkpointed(VECTORS),
    "checkpoint_structs": _checkpointed(_stats("false", "true")),
    "checkpoint_bare": _checkpointed(_stats("false", "false"), violation="has a deletion vector but no numRecords"),
    "checkpoint_multipart": _checkpointed({}, _SMALL_PARTS),
    "checkpoint_v2_json": _checkpointed(_V2, _SMALL_PARTS, (_TOP_LEVEL, "json"), always=True),
    "checkpoint_v2_parquet": _checkpointed(_V2, _SMALL_PARTS, (_TOP_LEVEL, "parquet")),
    "checkpoint_v2_mapped": _checkpointed(_V2_MAPPED),
    "compacted_log": DeltaSparkTable(
        (*_COMMITS[:5], "!compaction 1 4", *_COMMITS[5:], "!compaction 5 7"),
        properties=properties(VECTORS),
        always=True,
    ),
    "columns": DeltaSparkTable(
        (
            "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id >= 0)",
            f"INSERT INTO {{t}} (id, at) SELECT id, {_LEAP} + make_interval(0, 0, 0, id % 3) FROM range(0, 20, 1, 2)",
            f"INSERT INTO {{t}} (id, at, d) VALUES (50, NULL, NULL), (51, {_LEAP}, -1)",
            "ALTER TABLE {t} ALTER COLUMN d SET DEFAULT 8",
            "ALTER TABLE {t} ADD COLUMN later string",
            "INSERT INTO {t} (id) VALUES (60)",
            "UPDATE {t} SET d = DEFAULT WHERE id = 51",
            "DELETE FROM {t} WHERE id = 3",
        ),
        {
            "id": ("bigint", ""),
            "at": ("timestamp", ""),
            "key": ("bigint GENERATED BY DEFAULT AS IDENTITY (START WITH 10 INCREMENT BY -5)", ""),
            "doubled": ("bigint GENERATED ALWAYS AS (id * 2)", ""),
            "day": ("date GENERATED ALWAYS AS (CAST(at AS date))", ""),
            "d": ("int DEFAULT 7", ""),
        },
        "PARTITIONED BY (day)",
        properties({"delta.feature.allowColumnDefaults": "supported"}, VECTORS),
        features=frozenset({"allowColumnDefaults", "checkConstraints", "generatedColumns", "identityColumns"}),
    ),
    "clone": DeltaSparkTable(
        (
            (
                "CREATE TABLE delta.`{p}/clone of` (id bigint, s string) USING delta PARTITIONED BY (s) "
                "TBLPROPERTIES ('delta.enableDeletionVectors'='true')"
            ),
            "INSERT INTO delta.`{p}/clone of` SELECT id, concat('a b%/', id % 3) FROM range(0, 30, 1, 2)",
            "DELETE FROM delta.`{p}/clone of` WHERE id IN (3, 13, 24)",
            "CREATE TABLE {t} SHALLOW CLONE delta.`{p}/clone of`",
            "DELETE FROM {t} WHERE id = 4",
            "INSERT INTO {t} VALUES (100, 'own')",
            "DELETE FROM delta.`{p}/clone of` WHERE id > 4",
            "!checkpoint",
        ),
        columns={},
        always=True,
    ),
    "restored": DeltaSparkTable(
        (
            *INSERTS,
            *CHANGES,
            "RESTORE TABLE {t} TO VERSION AS OF 2",
            "INSERT INTO {t} {rows:70:80}",
            "RESTORE TABLE {t} TO VERSION AS OF 4",
        ),
        properties=properties(VECTORS),
    ),
    "in_commit_times": DeltaSparkTable(
        (*INSERTS, *CHANGES),
        properties=properties(enableInCommitTimestamps="true"),
        features=frozenset({"inCommitTimestamp"}),
    ),
    "in_commit_times_later": DeltaSparkTable(
        (*INSERTS, "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps'='true')", *CHANGES),
        features=frozenset({"inCommitTimestamp"}),
    ),
    "optimized": DeltaSparkTable(
        (
            *INSERTS,
            *CHANGES,
            "OPTIMIZE {t} ZORDER BY (id, i)",
            "DELETE FROM {t} WHERE id IN (1, 35)",
            "SET spark.databricks.delta.retentionDurationCheck.enabled=false",
            "VACUUM {t} RETAIN 0 HOURS",
            "INSERT INTO {t} {rows:70:80}",
        ),
        properties=properties(VECTORS),
        # Vacuum deleted what older versions need.
        first=7,
    ),
    "replaced": DeltaSparkTable(
        (
            *INSERTS,
            "INSERT INTO {t} REPLACE WHERE id < 10 {rows:3:6}",
            "INSERT OVERWRITE {t} {rows:50:60}",
            "!overwrite",
            "INSERT INTO {t} VALUES (NULL, 7)",
            "INSERT OVERWRITE {t} PARTITION (x = 'a b1') SELECT 100",
            "DELETE FROM {t}",
        ),
    ),
    "hostile_path": DeltaSparkTable(
        (*_COMMITS[:5], "!checkpoint", "UPDATE {t} SET i = 3"),
        ("id", "i", "s"),
        "PARTITIONED BY (s)",
        properties(VECTORS, _FEED),
        changes=0,
        folder="a b%20c+d=é&{}[x]~'",
    ),
    "old_protocol": DeltaSparkTable(
        (
            "INSERT INTO {t} {rows:0:20}",
            "ALTER TABLE {t} ADD COLUMN st.b.z int",
            "ALTER TABLE {t} ALTER COLUMN i FIRST",
            "DELETE FROM {t} WHERE id = 3",
            "ALTER TABLE {t} ALTER COLUMN s COMMENT 'text'",
        ),
        ("id", "i", "s", "st"),
        properties=(("delta.minReaderVersion", "1"), ("delta.minWriterVersion", "2")),
    ),
    "features_dropped": DeltaSparkTable(
        (
            *INSERTS,
            "DELETE FROM {t} WHERE id % 3 = 0",
            "ALTER TABLE {t} DROP FEATURE deletionVectors",
            "UPDATE {t} SET i = 3 WHERE id = 4",
            "ALTER TABLE {t} DROP FEATURE v2Checkpoint",
            "DELETE FROM {t} WHERE id = 4",
        ),
        properties=properties(VECTORS, checkpointPolicy="v2"),
    ),
    "converted": DeltaSparkTable(
        (
            "!parquet",
            "CONVERT TO DELTA parquet.`{p}/converted` PARTITIONED BY (p_date date, p_string string, p_int int)",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
            "DELETE FROM {t} WHERE id = 5",
            "UPDATE {t} SET p_string = 'a%b' WHERE id = 6",
        ),
        {"id": COLUMNS["id"], **{name: PARTITION_COLUMNS[name] for name in ("p_date", "p_string", "p_int")}},
    ),
    "iceberg_compatible": DeltaSparkTable(
        (*INSERTS, "DELETE FROM {t} WHERE id % 3 = 0"),
        ("id", "i", "s", "tstz", "arr", "structs", "deep", "m"),
        "PARTITIONED BY (s)",
        properties(MAPPED, enableIcebergCompatV2="true"),
        features=frozenset({"icebergCompatV2", "columnMapping"}),
    ),
    "other_features": DeltaSparkTable(
        (*INSERTS, "DELETE FROM {t} WHERE id % 3 = 0"),
        properties=properties({"delta.feature.vacuumProtocolCheck": "supported"}, appendOnly="false"),
        features=frozenset({"vacuumProtocolCheck", "appendOnly"}),
    ),
}
