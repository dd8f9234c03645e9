"""Runs a race on one table, and has it checked."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.crash.aftermath import local_files
from tests.crash.servers import serving
from tests.crash.targets import CATALOGS, Target
from tests.races.deletions import check_deletions, needed_files
from tests.races.kinds import COLUMNS
from tests.races.replay import check_race, check_snapshot_race
from tests.races.upkeep import OFTEN, RETENTION
from tests.support import moto_s3
from tests.support.delta_builder import DeltaBuilder
from tests.support.faulty_proxy import Fault, FaultyProxy, Seen, conditional_put, running
from tests.support.serial_log import read_folder
from tests.support.snapshot_log import newest_metadata
from tests.support.tally import Tally
from tests.support.versioned_bucket import VersionedBucket

__all__ = [
    "PATIENT",
    "REPARTITIONED",
    "Race",
    "bad_network",
    "race_in_bucket",
    "race_in_database",
    "race_on_disk",
    "race_through_rest",
    "vacuum_races",
]

_ROOT = Path(__file__).resolve().parents[2]
#: The processes that change the table; and those that read it meanwhile.
_PROCESSES, _READERS = 8, 2
#: What a gateway answers though the catalog has carried out the request.
_OF_GATEWAYS = (409, 500, 502, 503, 504)
#: How long a client waits for an answer over a bad network, in seconds.
_TIMEOUT = 3
#: Options of a client that gets over a bad network.
PATIENT = {"s3.request-timeout": str(_TIMEOUT), "max_retries": "10"}
_DAY = 86_400


@dataclass(frozen=True)
class Race:
    """How long a race is.

    Parameters
    ----------
    turns
        How often each process does something, at least.
    seed
        What its decisions come from.
    without
        The kinds that are left out.
    kind
        Where the table is: one of ``targets.KINDS``.
    uri
        Where the database of the catalog listens.
    sparks
        How many of the processes write by a Spark of their own, which has an eighth of the turns.
    least
        How often each process commits, at least.
    weights
        How often processes do what they do otherwise at other times.
    ahead
        By how many days the clock of the store is ahead of the clocks of the processes.
    is_plain
        Whether the table has no feature, so that any engine can change it.
    has_feed
        Whether the table records its changes.
    pace
        The least number of seconds that a turn takes. Without it, no file would outlive its retention on a fast
        machine.
    """

    turns: int
    seed: int
    without: tuple[str, ...] = ()
    kind: str = "delta"
    uri: str = ""
    sparks: int = 0
    least: int = 0
    weights: Mapping[str, int] = field(default_factory=dict)
    ahead: float = 0.0
    is_plain: bool = False
    has_feed: bool = False
    pace: float = 0.0
    processes: int = _PROCESSES
    readers: int = _READERS
    patience: float = field(default=1800, repr=False)


#: A race of tables whose partitioning changes, under which an overwrite of partitions would replace other rows.
REPARTITIONED = Race(0, 0, weights={"partition anew": 12, "drop a feature": 4}, without=("overwrite partitions",))
#: What is removed in the first seconds is old then by every clock.
_LEAST_SECONDS = 24


def vacuum_races(turns: int, seed: int) -> dict[str, Race]:
    """Return races in which vacuums, also such as are killed, run beside each other, writers, readers and restores.

    The clock of the store is right, a week ahead, or a week behind. A table without features is restored by deltalake.
    """
    races = {}
    for clock, ahead in (("the right clock", 0), ("a clock ahead", 7), ("a clock behind", -7)):
        weights = {**OFTEN, "restore": 10}
        race = Race(turns, seed, weights=weights, ahead=ahead, pace=_LEAST_SECONDS / turns)
        races[f"vacuums, {clock}"] = race
        # Several operations of one transaction record no changes.
        races[f"vacuums beside a feed, {clock}"] = replace(race, has_feed=True, without=("several operations",))
        weights = {**OFTEN, "restore by deltalake": 10}
        races[f"vacuums beside deltalake, {clock}"] = replace(race, weights=weights, is_plain=True)
    return races


def _create(root: Path, race: Race) -> None:
    """Make an empty table whose rows get ids, whose commits record their time, and which allows deletion vectors."""
    builder = DeltaBuilder(root)
    properties = {
        "delta.logRetentionDuration": f"interval {RETENTION} days",
        "delta.deletedFileRetentionDuration": f"interval {RETENTION} days",
        "delta.checkpointInterval": "7",
    }
    if race.is_plain:
        builder.commit(builder.protocol(1, 2), builder.metadata(COLUMNS, ["part"], properties))
    else:
        properties["delta.enableInCommitTimestamps"] = properties["delta.enableDeletionVectors"] = "true"
        features = ["rowTracking", "domainMetadata", "inCommitTimestamp"]
        if race.has_feed:
            properties["delta.enableChangeDataFeed"] = "true"
            features.append("changeDataFeed")
        protocol = builder.features("deletionVectors", writer_only=features)
        first = [protocol, builder.metadata(COLUMNS, ["part"], properties)]
        builder.commit({"commitInfo": {"inCommitTimestamp": 1_700_000_000_000}}, *first)
    os.utime(builder.log / f"{0:020}.json", (1_700_000_000, 1_700_000_000))


def _create_iceberg(at: Target) -> None:
    """Make an empty table that hides rows, whose manifests are merged soon, and of whose metadata files few stay."""
    properties = {
        "commit.retry.num-retries": "1000",
        "commit.retry.min-wait-ms": "1",
        "commit.retry.max-wait-ms": "100",
        "commit.manifest.min-count-to-merge": "5",
        "write.metadata.previous-versions-max": "50",
        "write.metadata.delete-after-commit.enabled": "true",
        "format-version": "2" if at.kind in CATALOGS else "3",
        **{f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "update", "merge")},
    }
    at.prepare()
    at.create(COLUMNS, partition_by="part", properties=properties)


def race_on_disk(folder: Path, race: Race, name: str = "race on this machine") -> Tally:
    """Race on a table in a folder."""
    root, archive = folder / "table", folder / "archive"
    root.mkdir()
    at = Target(str(root), kind=race.kind, uri=race.uri)
    if race.kind == "delta":
        (archive / "_delta_log").mkdir(parents=True)
        _create(root, race)
        tally, notes = _run(name, at, race, folder, archive)
        commits = {**read_folder(archive), **read_folder(root)}
        places = (root, archive)

        def found(path: str) -> Path:
            return next((place / path for place in places if (place / path).exists()), root / path)

        check_race(tally, commits, notes, lambda path: found(path).read_bytes())
        stored = (found(f"_delta_log/{version:020}.json").stat().st_mtime for version in commits)
        times = {version: int((time - race.ahead * _DAY) * 1000) for version, time in zip(commits, stored, strict=True)}
        gone = {path for path in needed_files(commits) if not (root / path).exists()}
        tally.lost += [f"{path} is live, and is not there" for path in sorted(gone)]
        taken = check_deletions(tally, commits, times, notes)
        return _summed(tally, notes, len(commits) - 1, taken)
    _create_iceberg(at)
    tally, notes = _run(name, at, race, folder, None)
    return _check_snapshots(at, local_files(root), tally, notes)


def race_in_database(folder: Path, race: Race, name: str = "race in PostgreSQL") -> Tally:
    """Race in a SQL catalog whose database is a server."""
    with serving(race.kind, str(folder)) as uri:
        return race_on_disk(folder, replace(race, uri=uri), name)


def race_through_rest(folder: Path, race: Race, name: str = "race through REST", *, timeout: int = _TIMEOUT) -> Tally:
    """Race through a REST catalog that is behind a bad gateway.

    Parameters
    ----------
    timeout
        How many seconds the processes wait for an answer. The server answers one of them at a time.
    """
    root = folder / "table"
    root.mkdir()
    with serving("rest", str(root)) as uri, running(uri) as gateway:
        _create_iceberg(Target(str(root), kind="rest", uri=uri))
        bad_network(gateway, race.seed, timeout, is_commit=lambda seen: seen.method == "POST", failures=_OF_GATEWAYS)
        waits = {"rest.client.socket-timeout-ms": str(timeout * 1000)}
        at = Target(str(root), waits, "rest", gateway.endpoint)
        tally, notes = _run(name, at, race, folder, None)
        gateway.settle()
        _check_snapshots(Target(str(root), kind="rest", uri=uri), local_files(root), tally, notes)
    # The server is pyiceberg: it takes the time of a snapshot for that of the metadata, though a property that another
    # client set between making and sending the snapshot is younger.
    tally.wrong[:] = [fault for fault in tally.wrong if fault != "the times of the metadata-log are not in order"]
    return tally


def race_in_bucket(
    folder: Path,
    bucket: VersionedBucket,
    gateway: FaultyProxy,
    race: Race,
    name: str = "race on S3",
    more: Mapping[str, str] | None = None,
) -> Tally:
    """Race on a table in a bucket of which no version of an object is ever lost.

    Parameters
    ----------
    bucket
        The bucket, as the checker sees it.
    gateway
        What the processes reach it through.
    more
        More options of the processes.
    """
    at = Target(f"s3://{bucket.name}/t", {**moto_s3.options(gateway.endpoint), **(more or {})}, race.kind)
    if race.kind == "iceberg":
        direct = Target(at.location, bucket.options, race.kind)
        _create_iceberg(direct)
        tally, notes = _run(name, at, race, folder, None)
        gateway.settle()
        for key, count in bucket.times_written("t/metadata/v").items():
            if count > 1 and key.endswith(".metadata.json"):
                tally.doubled.append(f"{key} was written {count} times")
        return _check_snapshots(direct, bucket.files("t"), tally, notes)
    _create(folder / "table", race)
    bucket.upload(folder / "table", "t")
    tally, notes = _run(name, at, race, folder, None)
    gateway.settle()
    commits = {}
    for version, found in bucket.log_entries("t").items():
        commits[version] = found[0]
        if len(found) > 1:
            tally.doubled.append(f"version {version} was written {len(found)} times")
    check_race(tally, commits, notes, lambda path: bucket.get_ever(f"t/{path}"))
    gone = needed_files(commits) - bucket.files("t").keys()
    tally.lost += [f"{path} is live, and is not there" for path in sorted(gone)]
    times = {version: _recorded_time(data) for version, data in commits.items()}
    return _summed(tally, notes, len(commits) - 1, check_deletions(tally, commits, times, notes))


def _recorded_time(entry: bytes) -> int:
    actions = [json.loads(line) for line in entry.splitlines()]
    time: int = next(action["commitInfo"]["inCommitTimestamp"] for action in actions if "commitInfo" in action)
    return time


def _check_snapshots(
    at: Target, files: Mapping[str, Callable[[], bytes]], tally: Tally, notes: list[dict[str, Any]]
) -> Tally:
    metadata = newest_metadata(files, at.open().metadata_location.rpartition("/")[2])
    check_snapshot_race(tally, metadata, notes, files)
    own = sum(name.startswith("racer-") for name in metadata["properties"])
    return _summed(tally, notes, len(metadata["snapshots"]) + own)


def bad_network(
    proxy: FaultyProxy,
    seed: int,
    timeout: int = _TIMEOUT,
    *,
    is_commit: Callable[[Seen], bool] = conditional_put,
    failures: tuple[int, ...] = (408, 409, 412, 500, 503),
) -> None:
    """Lose, delay, repeat and cut requests and answers by chance, also those of commits.

    A delayed commit lands seconds after it was given up, behind the commits of others. The probe of the store is
    spared: nothing is begun without its answer.

    Parameters
    ----------
    timeout
        How many seconds the clients wait for an answer.
    """
    generator = random.Random(seed)
    puts = [
        Fault(answer="none"),
        Fault(answer="cut"),
        Fault(forwards=0, answer="none"),
        Fault(forwards=2),
        Fault(before=timeout + 1),
        Fault(after=timeout + 1),
        *(Fault(answer=status) for status in failures),
        Fault(forwards=0, answer=503),
    ]
    others = [Fault(answer="none"), Fault(forwards=0, answer=503), Fault(forwards=2), Fault(after=0.05)]

    def trouble(seen: Seen) -> Fault | None:
        """Threads ask in any order, so that a seed repeats the faults, but not where they hit."""
        if ".deltaberg-probe-" in seen.target:
            return None
        if is_commit(seen):
            return generator.choice(puts) if generator.random() < 0.3 else None
        return generator.choice(others) if seen.method != "POST" and generator.random() < 0.05 else None

    proxy.trouble = trouble


def _run(name: str, at: Target, race: Race, folder: Path, archive: Path | None) -> tuple[Tally, list[dict[str, Any]]]:
    notes = folder / "notes"
    notes.mkdir()
    told = {
        "location": at.location,
        "options": dict(at.options),
        "kind": at.kind,
        "uri": at.uri,
        "turns": race.turns,
        "seed": race.seed,
        "without": race.without,
        "sparks": race.sparks,
        "least": race.least,
        "weights": dict(race.weights),
        "ahead": race.ahead,
        "pace": race.pace,
        "processes": race.processes,
        "readers": race.readers,
        "notes": str(notes),
        "stop": str(folder / "stop"),
        "archive": "" if archive is None else str(archive),
    }
    tally = Tally(name, "commits")
    with tally.timed():
        ended = subprocess.run(
            [sys.executable, "-m", "tests.races.pack"],
            cwd=_ROOT,
            input=json.dumps(told),
            capture_output=True,
            text=True,
            timeout=race.patience,
            check=False,
        )
    if ended.returncode:
        tally.wrong.append(f"a process ended badly: {ended.stderr[-2000:]}")
    lines = [json.loads(line) for path in sorted(notes.iterdir()) for line in path.read_text().splitlines()]
    return tally, lines


def _summed(tally: Tally, notes: list[dict[str, Any]], commits: int, deleted: int = 0) -> Tally:
    tally.tried = tally.planned = commits
    count = Counter[str]({"files vacuumed": deleted})
    for note in notes:
        count["reads"] += "read" in note or "changes" in note
        count["restores"] += note.get("claim", {}).get("restores") is not None
        count["retries"] += note.get("retries", 0)
        count["conflicts"] += "refused" in note
        count["unknown"] += "unknown" in note
        count["late reads"] += "late" in note
    tally.note = ", ".join(f"{number} {what}" for what, number in count.items() if number)
    return tally
