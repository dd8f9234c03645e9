"""What the processes of the races do, an entry for each.

To add one, write a function that does it and returns what it claims, and list it below.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from deltaberg.errors import DataFileNotFoundError, InvalidArgumentError, VersionNotFoundError
from deltaberg.table.commit.commit import CommitResult

__all__ = ["COLUMNS", "KINDS", "KINDS_OF_ICEBERG", "PARTS", "Claim", "Kind", "Racer", "Row"]

#: Where rows go.
PARTS = ["a", "b", "c", "d"]
COLUMNS = pa.schema([("id", pa.int64()), ("value", pa.int64()), ("part", pa.string())])
#: An id, a value and a part.
Row = tuple[int, int, str]


@dataclass
class Claim:
    """What a commit did, so that the checker can do the same to rows in plain Python.

    Parameters
    ----------
    removes
        The rows that went: ``{"all": True}``, ``{"parts": [...]}``, ``{"ids": [...]}``, or those of a part with a
        smaller value, ``{"part": ..., "below": ...}``. Ids that are not there are no fault.
    adds
        The rows that came.
    changes
        The new values by id of rows that stayed, where they were there.
    raises
        What was added to the values of all rows of a part, as ``{"part": ..., "by": ...}``.
    sets
        The name of a property that nobody else sets.
    restores
        The version whose rows are there again, and no others.
    """

    removes: dict[str, Any] = field(default_factory=dict)
    adds: list[Row] = field(default_factory=list)
    changes: dict[int, int] = field(default_factory=dict)
    raises: dict[str, Any] = field(default_factory=dict)
    sets: str = ""
    restores: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the members."""
        return asdict(self)


def as_arrow(rows: list[Row]) -> pa.Table:
    """Return rows as a table."""
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], COLUMNS)


class Racer:
    """One process: its table, and ids that nobody else gives."""

    def __init__(self, table: Any, number: int, seed: int) -> None:
        # Of either format; each kind uses what its format has.
        self.table: Any = table
        self.number = number
        self.generator = random.Random(seed)
        self._given = 0
        #: What makes rows into data that the table takes.
        self.data: Callable[[list[Row]], Any] = as_arrow
        #: What the step claims, known before it commits.
        self.claim = Claim()
        #: Writes down a commit at once, where the step goes on after it.
        self.report: Callable[[CommitResult | list[CommitResult]], object] = lambda _: None
        #: Snapshots that are on no branch, or on another one than main; and those that main was moved to.
        self.aside: set[int] = set()
        self.moved_to: set[int] = set()
        #: What the store needs, by how many days its clock is ahead, and where what was deleted is kept.
        self.options: dict[str, str] = {}
        self.ahead = 0.0
        self.archive = Path()

    def fresh(self, count: int | None = None, part: str | None = None) -> list[Row]:
        """Return rows with new ids, all of one part if one is named."""
        rows = []
        for _ in range(count or self.generator.randrange(1, 6)):
            self._given += 1
            place = part or self.generator.choice(PARTS)
            rows.append((self.number * 1_000_000 + self._given, self.generator.randrange(1000), place))
        return rows

    def part(self) -> str:
        """Return a part by chance."""
        return self.generator.choice(PARTS)

    def known(self, most: int) -> list[Row]:
        """Return some rows that the table object sees."""
        rows = self.rows()
        return self.generator.sample(rows, min(most, len(rows)))

    def rows(self) -> list[Row]:
        """Return all rows that the table object sees."""
        return [tuple(row.values()) for row in self.table.scan(columns=COLUMNS.names).to_arrow().to_pylist()]


class Kind(NamedTuple):
    """Something that a process does.

    Parameters
    ----------
    name
        What it is called.
    weight
        How often it is done, beside the others.
    run
        What does it to a table of either format. It sets ``racer.claim`` before it commits, and returns the result, or
        one for each commit of which all claim the same; None where it commits nothing.
    """

    name: str
    weight: int
    run: Callable[[Racer], CommitResult | list[CommitResult] | None]


def _append(racer: Racer) -> Any:
    rows = racer.fresh()
    racer.claim = Claim(adds=rows)
    return racer.table.append(racer.data(rows))


def _append_once(racer: Racer) -> Any:
    """Append with progress, and once more with the same progress, which does nothing."""
    rows = racer.fresh()
    racer.claim = Claim(adds=rows)
    # Each number is larger than all before.
    progress = (f"app-{racer.number}", rows[0][0])
    result = racer.table.append(racer.data(rows), txn=progress)
    again = racer.table.append(racer.data(rows), txn=progress)
    if again.committed:
        raise AssertionError("the same progress was committed twice")
    return result


def _overwrite_part(racer: Racer) -> Any:
    part = racer.part()
    rows = racer.fresh(part=part)
    racer.claim = Claim({"parts": [part]}, rows)
    return racer.table.overwrite(racer.data(rows), where=f"part = '{part}'")


def _overwrite_parts(racer: Racer) -> Any:
    rows = racer.fresh(2)
    racer.claim = Claim({"parts": sorted({row[2] for row in rows})}, rows)
    return racer.table.overwrite(racer.data(rows), dynamic=True)


def _overwrite_all(racer: Racer) -> Any:
    rows = racer.fresh(8)
    racer.claim = Claim({"all": True}, rows)
    return racer.table.overwrite(racer.data(rows))


_STRATEGIES = [None, None, "copy-on-write"]


def _delete_ids(racer: Racer) -> Any:
    """Delete rows that were seen, each perhaps in a file of its own."""
    ids = [row[0] for row in racer.known(3)]
    if not ids:
        return None
    racer.claim = Claim({"ids": ids})
    where = f"id IN ({', '.join(map(str, ids))})"
    return racer.table.delete(where, strategy=racer.generator.choice(_STRATEGIES))


def _delete_where(racer: Racer) -> Any:
    """Delete by a condition that rows of others may come to fulfil meanwhile."""
    part, below = racer.part(), racer.generator.randrange(300)
    racer.claim = Claim({"part": part, "below": below})
    where = f"part = '{part}' AND value < {below}"
    return racer.table.delete(where, strategy=racer.generator.choice(_STRATEGIES))


def _raise_part(racer: Racer) -> Any:
    """Add to all values of a part: one that is lost, or made twice, shows."""
    part, more = racer.part(), racer.generator.randrange(1, 9)
    racer.claim = Claim(raises={"part": part, "by": more})
    strategy = racer.generator.choice(_STRATEGIES)
    return racer.table.update({"value": f"value + {more}"}, f"part = '{part}'", strategy=strategy)


def _several(racer: Racer) -> Any:
    """Append, delete and append in one transaction."""
    first, part, second = racer.fresh(), racer.part(), racer.fresh()
    racer.claim = Claim({"parts": [part]}, [row for row in first if row[2] != part] + second)
    with racer.table.transaction() as transaction:
        transaction.append(racer.data(first))
        transaction.delete(f"part = '{part}'")
        transaction.append(racer.data(second))
    return transaction.result


def _compact(racer: Racer) -> Any:
    """Put the files of a part together, often in an order, or purge them. Conflicts of a group are in the result."""
    racer.table.refresh()
    if racer.generator.random() < 0.25:
        return racer.table.reorg(f"part = '{racer.part()}'").commits
    orders: list[dict[str, Any]] = [{}, {"sort_by": "id desc"}, {"hilbert_by": ["id", "value"]}]
    order = racer.generator.choice(orders)
    return racer.table.compact(f"part = '{racer.part()}'", **order).commits


def _rewrite_manifests(racer: Racer) -> Any:
    """Put the entries of manifests into fewer ones, or those of all into others of half the size."""
    racer.table.refresh()
    all_of_them = racer.generator.random() < 0.5
    size = 4000 if all_of_them else None
    done = racer.table.rewrite_manifests(rewrite_all=all_of_them, target_size=size)
    return [] if done.commit is None else [done.commit]


def _join_deletes(racer: Racer) -> Any:
    """Write position delete files anew, of which version 2 has some."""
    racer.table.refresh()
    return racer.table.rewrite_position_delete_files(f"part = '{racer.part()}'", rewrite_all=True).commit


def _delete_keys(racer: Racer) -> Any:
    """Delete rows that were seen by an equality delete file, as streams of changes do."""
    ids = [row[0] for row in racer.known(3)]
    if not ids:
        return None
    racer.claim = Claim({"ids": ids})
    return racer.table.delete_by_keys(pa.table({"id": ids}))


def _convert_keys(racer: Racer) -> Any:
    """Turn equality deletes into positions or vectors."""
    racer.table.refresh()
    return racer.table.convert_equality_deletes().commit


def _update(racer: Racer) -> Any:
    rows = racer.known(3)
    if not rows:
        return None
    value = racer.generator.randrange(1000)
    racer.claim = Claim(changes={row[0]: value for row in rows})
    where = f"id IN ({', '.join(str(row[0]) for row in rows)})"
    return racer.table.update({"value": value}, where, strategy=racer.generator.choice(_STRATEGIES))


def _merge(racer: Racer) -> Any:
    """Delete one row that was seen, update others, and insert new ones."""
    rows = racer.known(3)
    if not rows:
        return None
    gone, *kept = rows
    value, fresh = racer.generator.randrange(1000), racer.fresh(2)
    racer.claim = Claim({"ids": [gone[0]]}, fresh, {row[0]: value for row in kept})
    source = racer.data([(gone[0], -1, gone[2]), *((row[0], value, row[2]) for row in kept), *fresh])
    merge = racer.table.merge(
        source, "target.id = source.id", strategy=racer.generator.choice(_STRATEGIES)
    ).when_matched_delete("source.value < 0")
    return merge.when_matched_update({"value": "source.value"}).when_not_matched_insert_all().execute()


def _overwrite_rows(racer: Racer) -> Any:
    """Replace rows by a condition that does not choose partitions."""
    rows = racer.known(2)
    if not rows:
        return None
    fresh = racer.fresh(2)
    racer.claim = Claim({"ids": [row[0] for row in rows]}, fresh)
    where = f"id IN ({', '.join(str(row[0]) for row in rows)})"
    return racer.table.overwrite(racer.data(fresh), where=where, check=False)


def _alter(racer: Racer) -> Any:
    racer.claim = Claim()
    return racer.table.alter().set({"racer": str(racer.fresh(1)[0][0])}).commit()


def _partition_anew(racer: Racer) -> Any:
    """Partition the table by other columns, for which Delta tables write all files anew."""
    ways: list[list[str]] = [["part"], ["value"], ["part", "value"], []]
    name = f"racer-{racer.fresh(1)[0][0]}"
    racer.claim = Claim(sets=name)
    if not hasattr(racer.table, "version"):
        ways += [["bucket(4, id)", "part"], ["truncate(100, value)"]]
    change = racer.table.refresh().alter().partition_by(*racer.generator.choice(ways))
    return change.set({name: "1"}).commit()


def _checkpoint(racer: Racer) -> None:
    racer.table.refresh()
    racer.table.checkpoint()


def _compact_log(racer: Racer) -> None:
    racer.table.refresh()
    last = racer.table.version
    if last == 0:
        return
    try:
        racer.table.compact_log(max(0, last - 5), last)
    except VersionNotFoundError:
        # The clean-up of another process took the first of them.
        return


def _clean_up(racer: Racer) -> None:
    racer.table.cleanup_metadata()


def _restore(racer: Racer) -> Any:
    """Go back a few versions of a Delta table."""
    newest = racer.table.refresh().version
    if newest < 2:
        return None
    target = newest - racer.generator.randrange(1, min(newest, 6))
    racer.claim = Claim(restores=target)
    try:
        return racer.table.restore(target).commit
    except (VersionNotFoundError, DataFileNotFoundError):
        # The clean-up of another process took the version, or a vacuum its files.
        return None
    except InvalidArgumentError as error:
        # Where vacuums have clocks of their own.
        if "a vacuum may be deleting" not in error.message:
            raise
        return None


def _clone(racer: Racer) -> None:
    """Clone the state that the table object sees, and find the same rows in the clone."""
    (number, _, _), *_ = racer.fresh(1)
    place = f"{racer.table.location.rpartition('/')[0]}/clones/{number}"
    racer.table.refresh()
    rows = racer.rows()
    racer.table.clone(place, storage_options=racer.options)
    table = type(racer.table)(place, storage_options=racer.options)
    found = sorted(tuple(row.values()) for row in table.scan(columns=COLUMNS.names).to_arrow().to_pylist())
    if found != sorted(rows):
        raise AssertionError(f"the clone {place} has {len(found)} rows, and its source {len(rows)}")


_ALL = [
    Kind("append", 40, _append),
    Kind("append once", 10, _append_once),
    Kind("overwrite where", 10, _overwrite_part),
    Kind("overwrite partitions", 10, _overwrite_parts),
    Kind("overwrite all", 2, _overwrite_all),
    Kind("delete rows", 10, _delete_ids),
    Kind("delete where", 6, _delete_where),
    Kind("update a part", 6, _raise_part),
    Kind("several operations", 4, _several),
    Kind("compact", 4, _compact),
    Kind("overwrite by a condition", 5, _overwrite_rows),
    Kind("update", 10, _update),
    Kind("merge", 8, _merge),
    Kind("alter", 1, _alter),
    Kind("partition anew", 0, _partition_anew),
    Kind("checkpoint", 3, _checkpoint),
    Kind("compact the log", 4, _compact_log),
    Kind("clean up the log", 4, _clean_up),
    Kind("go back", 3, _restore),
    Kind("clone", 2, _clone),
]


def _delete_part(racer: Racer) -> Any:
    part = racer.part()
    racer.claim = Claim({"parts": [part]})
    return racer.table.delete(f"part = '{part}'")


def _replace_and_append(racer: Racer) -> Any:
    """Replace a part and append in one transaction."""
    part = racer.part()
    first, second = racer.fresh(part=part), racer.fresh()
    racer.claim = Claim({"parts": [part]}, first + second)
    with racer.table.transaction() as transaction:
        transaction.overwrite(racer.data(first), where=f"part = '{part}'")
        transaction.append(racer.data(second))
    return transaction.result


def _set_own(racer: Racer) -> Any:
    """Set a property that nobody else sets, so that none may be lost."""
    name = f"racer-{racer.fresh(1)[0][0]}"
    racer.claim = Claim(sets=name)
    return racer.table.alter().set({name: "1"}).commit()


def _stage(racer: Racer) -> Any:
    """Stage rows, and let the ``wap.id`` tell who publishes them what they are."""
    if racer.table.snapshot_id is None:
        # REST servers look at the sequence number of a snapshot only if it has a parent, as Iceberg's own library does.
        return None
    rows = racer.fresh(2)
    racer.claim = Claim(adds=rows)
    result = racer.table.append(racer.data(rows), properties={"wap.id": json.dumps(rows)})
    racer.aside.add(result.snapshot_id)
    return result


def _publish(racer: Racer) -> Any:
    """Publish what was staged by any process, which another one may do at the same moment."""
    racer.table.refresh()
    staged = [one for one in racer.table.metadata.snapshots.values() if "wap.id" in one.summary]
    if not staged:
        return None
    chosen = racer.generator.choice(staged)
    wap_id = chosen.summary["wap.id"]
    racer.claim = Claim(adds=[(one, value, part) for one, value, part in json.loads(wap_id)])
    return _unless_moved(racer, racer.table.publish(wap_id), chosen.snapshot_id)


def _unless_moved(racer: Racer, result: CommitResult, picked: int) -> CommitResult | None:
    """Return the result of a pick, unless main was moved to the snapshot itself, which is known."""
    if result.snapshot_id != picked:
        return result
    racer.moved_to.add(picked)
    return None


def _append_aside(racer: Racer) -> tuple[str, int] | None:
    """Append to a new branch of main, and return the name of the branch and the snapshot; None without rows in main."""
    racer.table.refresh()
    if racer.table.snapshot_id is None:
        return None
    rows = racer.fresh(2)
    branch = f"side-{rows[0][0]}"
    racer.table.alter().create_branch(branch).commit()
    racer.claim = Claim(adds=rows)
    result = racer.table.append(racer.data(rows), branch=branch)
    racer.aside.add(result.snapshot_id)
    racer.report(result)
    return branch, result.snapshot_id


def _pick(racer: Racer) -> Any:
    """Append to a branch, and pick the snapshot for main, which others have moved or not."""
    made = _append_aside(racer)
    return None if made is None else _unless_moved(racer, racer.table.cherrypick_snapshot(made[1]), made[1])


def _fast_forward(racer: Racer) -> None:
    """Append to a branch, and move main forward to it, which is refused if others have moved main."""
    made = _append_aside(racer)
    if made is not None:
        racer.table.alter().fast_forward("main", made[0]).commit()
        racer.moved_to.add(made[1])


_ALL_OF_ICEBERG = [
    Kind("append", 40, _append),
    Kind("delete rows", 10, _delete_ids),
    Kind("delete where", 6, _delete_where),
    Kind("update a part", 6, _raise_part),
    Kind("update", 8, _update),
    Kind("merge", 8, _merge),
    Kind("overwrite by a condition", 5, _overwrite_rows),
    Kind("append and delete", 4, _several),
    Kind("overwrite where", 10, _overwrite_part),
    Kind("overwrite partitions", 10, _overwrite_parts),
    Kind("overwrite all", 2, _overwrite_all),
    Kind("delete a part", 5, _delete_part),
    Kind("several operations", 6, _replace_and_append),
    Kind("compact", 5, _compact),
    Kind("rewrite manifests", 4, _rewrite_manifests),
    Kind("join deletes", 5, _join_deletes),
    Kind("delete keys", 5, _delete_keys),
    Kind("convert deletes by keys", 4, _convert_keys),
    Kind("clone", 2, _clone),
    Kind("alter", 5, _set_own),
    Kind("partition anew", 0, _partition_anew),
    Kind("stage", 5, _stage),
    Kind("publish", 8, _publish),
    Kind("pick", 4, _pick),
    Kind("fast-forward", 4, _fast_forward),
]
#: Each kind by its name.
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
KINDS_OF_ICEBERG: dict[str, Kind] = {kind.name: kind for kind in _ALL_OF_ICEBERG}
