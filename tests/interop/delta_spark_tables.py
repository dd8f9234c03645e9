"""What a table is that delta-spark writes for `test_delta_spark`, and the columns of most of them.

In a statement ``{t}`` is the table, ``{p}`` the folder in which all tables lie, and ``{rows:a:b}`` a query of its rows
with the ids from ``a`` up to ``b``, which is not one of them. Statements that begin with ``!`` are no SQL: they name
steps of `write_delta_tables`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tests.interop.iceberg_spark_tables import COLUMNS as SHARED_COLUMNS

__all__ = [
    "CHANGES",
    "COLUMNS",
    "FLAT",
    "INSERTS",
    "MAPPED",
    "PARTITION_COLUMNS",
    "VECTORS",
    "DeltaSparkTable",
    "properties",
]

_ROWS = re.compile(r"\{rows:(\d+):(\d+)\}")

#: Each column with its type and what it is computed from: ``id``, a bigint.
COLUMNS: dict[str, tuple[str, str]] = {
    **SHARED_COLUMNS,
    "by": ("tinyint", "CAST(IF(id % 5 = 1, NULL, id % 256 - 128) AS tinyint)"),
    "sm": ("smallint", "CAST(IF(id % 6 = 1, NULL, (id % 3 - 1) * 32767) AS smallint)"),
    "dec1": ("decimal(1,0)", "CAST(id % 19 - 9 AS decimal(1,0))"),
    "dec18": ("decimal(18,18)", "CAST((id % 9 - 4) * 0.123456789012345678 AS decimal(18,18))"),
    "dec38s": ("decimal(38,38)", "CAST((id % 9 - 4) * 0.12345678901234567890123456789012345678 AS decimal(38,38))"),
    "ch": ("char(4)", "IF(id % 7 = 2, NULL, concat('c', id % 3))"),
    "vc": ("varchar(6)", "IF(id % 7 = 3, NULL, concat('vü ', id % 4))"),
    "nested": (
        "struct<dec: array<decimal(20,5)>, z: map<timestamp_ntz, struct<y: tinyint, bin: binary>>, no: struct<x: int>>",
        (
            "IF(id % 5 = 2, NULL, named_struct('dec', array(CAST(id AS decimal(20,5)), NULL), 'z', map(TIMESTAMP_NTZ"
            "'1582-10-10 01:02:03.000004', named_struct('y', CAST(id % 100 AS tinyint), 'bin', CAST('é' AS binary))), "
            "'no', IF(id % 2 = 0, NULL, named_struct('x', NULL))))"
        ),
    ),
    "lists": (
        "array<array<map<int, array<date>>>>",
        "array(NULL, array(map(1, array(DATE'9999-12-31', NULL)), map()))",
    ),
}
FLAT = tuple(name for name, (kind, _) in COLUMNS.items() if "<" not in kind)
#: Columns of each type that can partition a table.
PARTITION_COLUMNS = {
    "p_bool": ("boolean", "IF(id % 3 = 0, NULL, id % 2 = 0)"),
    "p_byte": ("tinyint", "CAST(IF(id % 4 = 0, NULL, -128) AS tinyint)"),
    "p_short": ("smallint", "CAST(IF(id % 4 = 1, NULL, 32767) AS smallint)"),
    "p_int": ("int", "CAST(IF(id % 4 = 2, NULL, -2147483648) AS int)"),
    "p_long": ("bigint", "IF(id % 4 = 3, NULL, 9223372036854775807)"),
    "p_float": ("float", "CAST(element_at(array('NaN', '-Infinity', '0.1', NULL), CAST(id % 4 + 1 AS int)) AS float)"),
    "p_double": (
        "double",
        (
            "CAST(element_at(array('NaN', '1e10', '-0.3333333333333333', NULL, '4.9E-324'), CAST(id % 5 + 1 AS int)) "
            "AS double)"
        ),
    ),
    "p_decimal": ("decimal(20,4)", "CAST(IF(id % 5 = 0, NULL, (id % 3 - 1) * 1234567890123456.5) AS decimal(20,4))"),
    "p_date": ("date", "IF(id % 5 = 1, NULL, date_add(DATE'1969-12-31', CAST(id % 3 * 20000 AS int)))"),
    "p_ts": (
        "timestamp",
        "IF(id % 5 = 2, NULL, TIMESTAMP'1969-12-31 23:59:58Z' + make_interval(0, id % 3, 0, 0, 0, 0, id % 2 * 1.25))",
    ),
    "p_ntz": (
        "timestamp_ntz",
        "IF(id % 5 = 3, NULL, TIMESTAMP_NTZ'2024-03-10 02:30:00' + make_interval(0, 0, 0, 0, 0, 0, id % 2 / 1000000))",
    ),
    "p_string": ("string", "IF(id % 5 = 4, NULL, concat('part ', id % 2))"),
    "p_binary": ("binary", "CAST(element_at(array('abc', 'ü÷', NULL), CAST(id % 3 + 1 AS int)) AS binary)"),
}
VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
INSERTS = ("INSERT INTO {t} {rows:0:20}", "INSERT INTO {t} {rows:20:40}")
#: Deletes, updates and merges, of tables that have the columns id, i and s.
CHANGES = (
    "DELETE FROM {t} WHERE id % 3 = 0",
    "UPDATE {t} SET i = -1, s = 'changed' WHERE id % 10 = 4",
    (
        "MERGE INTO {t} t USING (SELECT * FROM ({rows:30:50})) n ON t.id = n.id "
        "WHEN MATCHED AND n.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET s = 'merged' "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN DELETE"
    ),
)


def properties(*parts: dict[str, str], **more: str) -> tuple[tuple[str, str], ...]:
    """Join table properties; a keyword is a property whose name begins with ``delta.``."""
    joined = {name: value for part in parts for name, value in part.items()}
    return tuple({**joined, **{f"delta.{name}": value for name, value in more.items()}}.items())


@dataclass(frozen=True)
class DeltaSparkTable:
    """A table: how it is created, and the statements after that.

    Parameters
    ----------
    clause
        What follows the columns where it is created, such as ``PARTITIONED BY``.
    settings
        Of the session that writes and reads it.
    select
        What Spark reads of it.
    first
        The first version that is read; the files of older ones may be gone.
    changes
        The version from which the change feed is read; None for no change feed.
    folder
        Its name where that is special.
    features
        Those that the table is there for.
    differs
        Why Spark reads other rows than we do, where it does.
    violation
        What a validating reader says against the newest version.
    always
        Whether it is in every run of the tests, not only where all judges are asked for.
    """

    statements: tuple[str, ...]
    columns: tuple[str, ...] | dict[str, tuple[str, str]] = ("id", "i", "s")
    clause: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    select: str = "*"
    first: int = 0
    changes: int | None = None
    folder: str | None = None
    features: frozenset[str] = field(default_factory=frozenset)
    differs: str = ""
    violation: str = ""
    always: bool = False

    @property
    def zone(self) -> str:
        """The time zone of the session."""
        return dict(self.settings).get("spark.sql.session.timeZone", "UTC")

    def definitions(self) -> dict[str, tuple[str, str]]:
        """Return the columns with type and expression."""
        return self.columns if isinstance(self.columns, dict) else {name: COLUMNS[name] for name in self.columns}

    def create(self) -> str:
        """Return the statement that creates it."""
        columns = ", ".join(f"`{name}` {kind}" for name, (kind, _) in self.definitions().items())
        listed = ", ".join(f"'{name}'='{value}'" for name, value in self.properties)
        return f"CREATE TABLE {{t}} ({columns}) USING delta {self.clause}" + f" TBLPROPERTIES ({listed})" * bool(listed)

    def filled(self, statement: str, table: str, folder: str) -> str:
        """Return a statement with its places filled."""
        values = ", ".join(f"{expression} AS `{name}`" for name, (_, expression) in self.definitions().items())
        made = _ROWS.sub(lambda match: f"SELECT {values} FROM range({match[1]}, {match[2]}, 1, 2)", statement)
        return made.replace("{t}", table).replace("{p}", folder)
