"""The operations that the harness kills at every point, and whose every request it disturbs: an entry for each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

import deltaberg
from tests.crash.clean_ups import convert_deletes, expire, join_deletes, remove_orphans, rewrite_manifests
from tests.crash.clones import clone, clone_again, clone_iceberg, cut_off_history
from tests.crash.delta_deeds import (
    HIDING,
    append_and_compact,
    append_often,
    compact_beside_delete,
    merge_hiding,
    merge_rows,
    purge_a_column,
    purge_rows,
    rows,
    several,
    upgrade_for_iceberg,
    vacuum,
    values,
    verbs,
)
from tests.crash.starts import COLUMNS, INCOMING, PART_COLUMNS
from tests.crash.targets import CATALOGS, Target

__all__ = ["BEFORE", "OPERATIONS", "Operation"]


#: The rows of every start, as the value by id.
BEFORE = {one: 10 * one for one in range(1, 7)}


@dataclass(frozen=True)
class Operation:
    """One operation.

    Parameters
    ----------
    name
        What the harness calls it.
    run
        What does it; it is acknowledged when this returns.
    after
        The rows that the table has then, as the value by id.
    start
        The table that it starts from, by its name in ``starts.STARTS``.
    keeps_from
        The first version that can be read before, after and in between. A clean-up takes the earlier ones.
    versions
        How many versions it makes; each of them may be what a crash leaves.
    kind
        Where it happens: one of ``targets.KINDS``.
    in_catalog
        Whether it changes what the catalog says of the table, and no version of it: its name, or whether it is there.
    """

    name: str
    run: Callable[[Target], object]
    after: Mapping[int, int] = field(default_factory=lambda: BEFORE)
    start: str = "plain"
    keeps_from: int = 0
    versions: int = 1
    kind: str = "delta"
    in_catalog: bool = False


#: What a maintenance does beside a vacuum, which has its own clock.
_UPKEEP = deltaberg.MaintenancePolicy(min_files=2, max_commits=1, steps=["compact", "checkpoint"])
_MERGED = {1: 11, 2: 20, 3: 30, 5: 50, 6: 60, 7: 70}
_FAR = dt.datetime(2100, 1, 1, tzinfo=dt.timezone.utc)
_APPENDED = values(*range(1, 9))

_ALL = [
    Operation(
        "create",
        lambda at: at.create(COLUMNS),
        {},
        "nothing",
    ),
    Operation(
        "create with rows",
        lambda at: at.write(rows(7, 8)),
        values(7, 8),
        "nothing",
    ),
    Operation("append", lambda at: at.table.append(rows(7, 8)), _APPENDED),
    Operation("append to partitions", lambda at: at.table.append(rows(7, 8, part="c")), _APPENDED, "parts"),
    Operation("append by name mapping", lambda at: at.table.append(rows(7, 8)), _APPENDED, "mapped"),
    Operation("append and compact", append_and_compact, _APPENDED, "compacting itself", versions=2),
    Operation("append and compact the log", lambda at: at.table.append(rows(7, 8)), _APPENDED, "compacting"),
    Operation("append with progress", lambda at: at.table.append(rows(7, 8), txn=("app", 1)), _APPENDED),
    Operation(
        "append a column",
        lambda at: at.table.append(rows(7, 8).append_column("more", [["x", "y"]]), schema_mode="merge"),
        _APPENDED,
    ),
    Operation(
        "append up to a checkpoint and a clean-up", append_often, values(*range(1, 10)), keeps_from=1, versions=3
    ),
    Operation("overwrite", lambda at: at.table.overwrite(rows(7, 8)), values(7, 8)),
    Operation(
        "overwrite with other columns",
        lambda at: at.table.overwrite(rows(7).append_column("more", [["x"]]), schema_mode="overwrite"),
        values(7),
    ),
    Operation(
        "overwrite where",
        lambda at: at.table.overwrite(rows(7, part="a"), where="part = 'a'"),
        values(2, 4, 6, 7),
        "parts",
    ),
    Operation(
        "overwrite partitions",
        lambda at: at.table.overwrite(rows(8, part="b"), dynamic=True),
        values(1, 3, 5, 8),
        "parts",
    ),
    Operation("delete by vectors", lambda at: at.table.delete("id IN (1, 5, 6)"), values(2, 3, 4), "vectors"),
    Operation("delete by writing anew", lambda at: at.table.delete("id IN (1, 5, 6)"), values(2, 3, 4)),
    Operation(
        "delete from a table with everything",
        lambda at: at.table.delete("id IN (1, 5)"),
        values(2, 3, 4, 6),
        "tracked",
    ),
    Operation(
        "update by vectors",
        lambda at: at.table.update({"value": "value * 10"}, "id IN (1, 6)"),
        {**BEFORE, 1: 100, 6: 600},
        "vectors",
    ),
    Operation(
        "update by writing anew",
        lambda at: at.table.update({"part": "'c'", "value": "-value"}, "id % 2 = 0"),
        {one: -value if one % 2 == 0 else value for one, value in BEFORE.items()},
        "parts",
    ),
    Operation(
        "update a table with everything",
        lambda at: at.table.update({"value": "value + 1"}, "id < 3"),
        {**BEFORE, 1: 11, 2: 21},
        "tracked",
    ),
    Operation(
        "overwrite where any condition",
        lambda at: at.table.overwrite(rows(7, 9), where="id % 2 = 1 AND id > 1"),
        values(1, 2, 4, 6, 7, 9),
        "tracked",
    ),
    Operation("merge by vectors", merge_rows, _MERGED, "vectors"),
    Operation("merge by writing anew", merge_rows, _MERGED),
    Operation("merge into a table with everything", merge_rows, _MERGED, "tracked"),
    Operation("upsert", lambda at: at.table.upsert(rows(5, 7, part="a"), "id"), {**BEFORE, 7: 70}, "parts"),
    Operation("enable row tracking", lambda at: at.table.alter().set({"delta.enableRowTracking": "true"}).commit()),
    Operation("alter", lambda at: at.table.alter().add("more", pa.string()).set({"owner": "ada"}).commit()),
    Operation(
        "move and describe",
        lambda at: at.table.alter().move("value", first=True).comment("id", "one").describe(name="ours").commit(),
    ),
    Operation(
        "rename and drop", lambda at: at.table.alter().add("x", pa.int32()).rename("x", "y").commit(), start="mapped"
    ),
    Operation(
        "convert",
        lambda at: deltaberg.convert_to_delta(
            at.location, partition_by={"part": pa.string()}, storage_options=dict(at.options)
        ),
        start="folder",
    ),
    Operation("delete in partitions", lambda at: at.table.delete("id > 3"), values(1, 2, 3), "parts"),
    Operation("compact", lambda at: at.table.compact()),
    Operation("compact in groups", lambda at: at.table.compact(group_size=1), start="three parts", versions=3),
    Operation("order by a curve", lambda at: at.table.compact(z_order_by=["id", "value"], target_file_size=1)),
    Operation("compact beside a delete", compact_beside_delete, values(1, 2, 4, 5, 6), "vectors", versions=2),
    Operation("purge deleted rows", purge_rows, values(1, 2, 4, 5, 6), "vectors", versions=2),
    Operation("upgrade for Iceberg", upgrade_for_iceberg, values(1, 2, 4, 5, 6), "vectors", versions=5),
    Operation("purge a dropped column", purge_a_column, start="mapped", versions=4),
    Operation("partition anew", lambda at: at.table.alter().partition_by("value").commit(), start="mapped"),
    Operation(
        "end column mapping",
        lambda at: at.table.alter().set({"delta.columnMapping.mode": "none"}).commit(),
        start="mapped",
    ),
    Operation("drop a feature", lambda at: at.table.drop_feature("deletionVectors"), start="vectors", versions=5),
    Operation("cut off the history", cut_off_history, start="without vectors", keeps_from=4),
    Operation("transaction of several changes", several, values(3, 4, 5, 6)),
    Operation("transaction of several operations", verbs, values(8, 9)),
    Operation("repair", lambda at: at.table.repair(), start="lost"),
    Operation("restore", lambda at: at.table.restore(0, unsafe_expired=True), values(0, 1, 2, 3, 4)),
    Operation("clone", clone, start="nothing"),
    Operation("clone again", clone_again, values(4, 5, 6, 7, 8), start="cloned"),
    Operation("cluster", lambda at: at.table.compact(), start="clustered"),
    Operation("maintain", lambda at: at.table.maintain(_UPKEEP, dry_run=False)),
    Operation("vacuum", vacuum, keeps_from=2, versions=2),
    Operation("checkpoint", lambda at: at.table.checkpoint(), versions=0),
    Operation("compact the log", lambda at: at.table.compact_log(1, 2), versions=0),
    Operation("clean up the log", lambda at: at.table.cleanup_metadata(_FAR), keeps_from=1, versions=0),
]


def _all_at_once(at: Target) -> None:
    """Append, alter, replace and append again in one transaction of an Iceberg table."""
    with at.table.transaction() as transaction:
        transaction.append(rows(7))
        transaction.alter().set({"owner": "ada"}).add("more", pa.string())
        transaction.overwrite(rows(8).append_column("more", [["x"]]))
        transaction.append(rows(9))


_CREATED = Operation("create with rows", lambda at: at.write(rows(7, 8)), values(7, 8), "iceberg nothing")
_ADDED = Operation("append", lambda at: at.table.append(rows(7, 8)), _APPENDED, "iceberg")
_REPLACED = Operation(
    "overwrite where",
    lambda at: at.table.overwrite(rows(7, part="a"), where="part = 'a'"),
    values(2, 4, 6, 7),
    "iceberg parts",
)
_ALTERED = Operation(
    "alter", lambda at: at.table.alter().add("more", pa.string()).set({"owner": "ada"}).commit(), start="iceberg"
)
_SEVERAL = Operation("transaction", _all_at_once, values(8, 9), "iceberg")
_MERGED_HIDING = Operation("merge by delete files", merge_hiding, _MERGED, "iceberg")


def _hide_twice(at: Target) -> None:
    """Hide rows of one file by two operations of a transaction, and rows that an earlier commit has hidden in part."""
    at.table.delete("id = 1", strategy=HIDING)
    with at.table.transaction() as transaction:
        transaction.update({"value": "value + 1"}, "id IN (2, 3)", strategy=HIDING)
        transaction.delete("id IN (4, 6)", strategy=HIDING)


def _add_file(at: Target) -> None:
    """Add the file that is beside the table."""
    table = at.table
    table.add_files([f"{table.location}/{INCOMING}"])


def _pick(at: Target) -> None:
    """Replace a partition on a branch, append to another one on main, and pick what the branch has."""
    at.table.alter().create_branch("side").commit()
    replaced = at.table.overwrite(rows(8, part="b"), dynamic=True, branch="side")
    at.table.append(rows(9, part="a"))
    at.table.cherrypick_snapshot(replaced.snapshot_id)


def _roll_back(at: Target) -> None:
    """Go back to the parent of the newest snapshot."""
    at.table.alter().create_tag("was").rollback_to_snapshot(at.table.history()[1].snapshot_id).commit()


def _two_tables(at: Target) -> None:
    """Append to a table and move a row of it to another one, in one transaction of both."""
    several, one, other = at.transaction()
    with several:
        one.append(rows(7, 8))
        one.delete("id = 6")
        other.append(rows(6))
        other.alter().set({"owner": "ada"})


_TWO_TABLES = Operation(
    "rest: transaction of two tables",
    _two_tables,
    values(*range(1, 6), 7, 8),
    "iceberg beside another",
    kind="rest",
)
_ROLLED_BACK = Operation("roll back", _roll_back, values(0, 1, 2, 3, 4), "iceberg")
_ICEBERG = [
    Operation("create", lambda at: at.create(COLUMNS), {}, "iceberg nothing"),
    _CREATED,
    Operation(
        "create anew", lambda at: at.create(PART_COLUMNS, partition_by=["part"], if_exists="replace"), {}, "iceberg"
    ),
    _ADDED,
    Operation("append with progress", lambda at: at.table.append(rows(7, 8), txn=("app", 1)), _APPENDED, "iceberg"),
    Operation("append to version 1", _ADDED.run, _APPENDED, "iceberg of version 1"),
    Operation("append to version 3", _ADDED.run, _APPENDED, "iceberg of version 3"),
    Operation("append and merge manifests", _ADDED.run, _APPENDED, "tidy iceberg"),
    Operation("append to partitions", lambda at: at.table.append(rows(7, 8, part="c")), _APPENDED, "iceberg parts"),
    Operation("append sorted rows in ORC", _ADDED.run, _APPENDED, "iceberg sorted in orc"),
    Operation("append sorted rows in Avro", _ADDED.run, _APPENDED, "iceberg sorted in avro"),
    Operation(
        "add a file",
        _add_file,
        _APPENDED,
        "iceberg beside a file",
    ),
    Operation("publish", lambda at: at.table.publish("load"), _APPENDED, "iceberg staged"),
    Operation("pick an overwrite", _pick, {1: 10, 3: 30, 5: 50, 8: 80, 9: 90}, "iceberg parts", versions=4),
    _ROLLED_BACK,
    Operation(
        "append a column",
        lambda at: at.table.append(rows(7, 8).append_column("more", [["x", "y"]]), schema_mode="merge"),
        _APPENDED,
        "iceberg of version 3",
    ),
    Operation("overwrite", lambda at: at.table.overwrite(rows(7, 8)), values(7, 8), "tidy iceberg"),
    Operation(
        "overwrite with other columns",
        lambda at: at.table.overwrite(rows(7).append_column("more", [["x"]]), schema_mode="overwrite"),
        values(7),
        "iceberg",
    ),
    _REPLACED,
    Operation(
        "overwrite partitions",
        lambda at: at.table.overwrite(rows(8, part="b"), dynamic=True),
        values(1, 3, 5, 8),
        "iceberg parts",
    ),
    Operation(
        "delete by keys",
        lambda at: at.table.delete_by_keys(pa.table({"id": [2, 5]})),
        values(1, 3, 4, 6),
        "iceberg parts",
    ),
    Operation("delete a file", lambda at: at.table.delete("id < 3"), values(3, 4, 5, 6), "iceberg of version 3"),
    Operation("delete a partition", lambda at: at.table.delete("part = 'b'"), values(1, 3, 5), "iceberg parts"),
    Operation("delete everything", lambda at: at.table.delete(None), {}, "iceberg of version 1"),
    Operation(
        "delete rows by writing anew",
        lambda at: at.table.delete("id IN (1, 5)"),
        values(2, 3, 4, 6),
        "iceberg of version 1",
    ),
    Operation(
        "delete rows by vectors",
        lambda at: at.table.delete("id IN (1, 5)", strategy=HIDING),
        values(2, 3, 4, 6),
        "iceberg of version 3",
    ),
    Operation(
        "delete rows by delete files",
        lambda at: at.table.delete("id IN (1, 5)", strategy=HIDING),
        values(2, 3, 4, 6),
        "iceberg parts",
    ),
    Operation(
        "hide rows of a file twice",
        _hide_twice,
        {2: 21, 3: 31, 5: 50},
        "iceberg of version 3",
        versions=2,
    ),
    Operation(
        "update by writing anew",
        lambda at: at.table.update({"part": "'c'", "value": "-value"}, "id % 2 = 0"),
        {one: -value if one % 2 == 0 else value for one, value in BEFORE.items()},
        "iceberg parts",
    ),
    _MERGED_HIDING,
    Operation("merge with row ids", merge_rows, _MERGED, "iceberg of version 3"),
    Operation("upsert", lambda at: at.table.upsert(rows(5, 7, part="a"), "id"), {**BEFORE, 7: 70}, "iceberg parts"),
    Operation("compact", lambda at: at.table.compact(), start="tidy iceberg"),
    Operation("purge deleted rows", purge_rows, values(1, 2, 4, 5, 6), "iceberg of version 3", versions=2),
    Operation("compact with row ids", lambda at: at.table.compact(), start="iceberg of version 3"),
    Operation("count distinct values", lambda at: at.table.compute_table_stats(), start="iceberg"),
    Operation("count partitions", lambda at: at.table.compute_partition_stats(), start="iceberg parts"),
    Operation("rewrite manifests", rewrite_manifests, start="iceberg"),
    Operation("rewrite manifests of version 1", rewrite_manifests, start="iceberg of version 1"),
    Operation("rewrite manifests with row ids", rewrite_manifests, start="iceberg of version 3"),
    Operation(
        "order by a curve",
        lambda at: at.table.compact(hilbert_by=["id", "value"], target_file_size=1),
        start="iceberg of version 3",
    ),
    Operation(
        "compact beside a delete", compact_beside_delete, values(1, 2, 4, 5, 6), "iceberg of version 3", versions=2
    ),
    Operation("compact beside deleted positions", compact_beside_delete, values(1, 2, 4, 5, 6), "iceberg", versions=2),
    _ALTERED,
    Operation("alter a tidy table", _ALTERED.run, start="tidy iceberg"),
    Operation(
        "rename, move and drop",
        lambda at: at.table.alter().add("x", pa.int32()).rename("x", "y").move("value", first=True).commit(),
        start="iceberg",
    ),
    Operation(
        "partition and raise the version",
        lambda at: at.table.alter().partition_by("bucket(2, id)").set({"format-version": "3"}).commit(),
        start="iceberg",
    ),
    _SEVERAL,
    Operation("transaction of version 1", _all_at_once, values(8, 9), "iceberg of version 1"),
    Operation("expire snapshots", expire, start="iceberg", keeps_from=3),
    Operation("expire snapshots of version 1", expire, start="iceberg of version 1", keeps_from=3),
    Operation("repair", lambda at: at.table.repair(), start="iceberg lost"),
    Operation("remove orphans", remove_orphans, start="iceberg beside a file", versions=0),
    Operation("convert to positions", convert_deletes, start="iceberg with deletes"),
    Operation("convert to vectors", convert_deletes, start="iceberg with deletes before version 3"),
    Operation("join position deletes", join_deletes, start="iceberg with deletes"),
    Operation("join into vectors", join_deletes, start="iceberg with deletes before version 3"),
]
#: Those of a catalog, which knows a table by its name.
_OF_CATALOGS = [
    Operation("drop", Target.drop, {}, "iceberg", in_catalog=True),
    Operation("rename", Target.rename, start="iceberg", in_catalog=True),
    Operation("register", Target.register, start="iceberg", in_catalog=True),
]
# In a REST catalog, an expiry first sets the tag that guards it, which is a version of its own.
_ALL += [
    replace(one, name=f"{kind}: {one.name}", kind=kind, versions=one.versions + (kind == "rest" and one.run is expire))
    for kind in ("iceberg", *CATALOGS)
    for one in (_ICEBERG if kind == "iceberg" else [*_ICEBERG, *_OF_CATALOGS])
]
_ALL += [
    _TWO_TABLES,
    # No older snapshot can be read while the files go.
    Operation("drop a directory", Target.drop, {}, "iceberg", keeps_from=99, kind="iceberg", in_catalog=True),
    Operation("drop a directory of Delta", Target.drop, {}, "vectors", keeps_from=99, in_catalog=True),
    # A REST catalog gives clones no place.
    *(Operation(f"{kind}: clone", clone_iceberg, start="iceberg nothing", kind=kind) for kind in ("iceberg", "sqlite")),
]
#: Each operation by its name.
OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _ALL}
