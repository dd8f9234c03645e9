"""The whole harness, and the table of what was tried and what was lost: ``make proof``.

The tests of ``tests/crash``, ``tests/races`` and ``tests/model`` run the same code on a sample. Here nothing is
left out: every crash point of every operation, every fault at every request, races and random operations at full size,
and streams of both formats whose driver or task is killed at each step of a batch.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

from deltaberg.choices import Format
from tests.crash.operations import OPERATIONS, Operation
from tests.crash.places import InBucket, InCatalog, catalog_behind_gateway
from tests.crash.points import Nursery, kill_everywhere
from tests.crash.refusals import refuse_everywhere
from tests.crash.requests import disturb_everywhere
from tests.races.drops import race_of_drops
from tests.races.expiry import race_of_expiries, table_to_expire
from tests.races.race import (
    PATIENT,
    REPARTITIONED,
    Race,
    bad_network,
    race_in_bucket,
    race_in_database,
    race_on_disk,
    race_through_rest,
    vacuum_races,
)
from tests.races.upkeep import OFTEN
from tests.spark.killed_sources import STEPS, ids_of_killed_query
from tests.support import faulty_proxy, moto_s3, postgres
from tests.support.scratch import prefer_memory
from tests.support.tally import Tally, table_of
from tests.support.versioned_bucket import VersionedBucket

__all__ = ["main"]


def _chosen(wanted: str) -> list[Operation]:
    return [operation for operation in OPERATIONS.values() if wanted in operation.name]


def _crashes(folder: Path, options: argparse.Namespace) -> Iterator[Tally]:
    without = "postgres" if postgres.binaries() is None else ""
    with Nursery() as nursery:
        for operation in _chosen(options.only):
            if operation.kind == without:
                continue
            yield kill_everywhere(operation, nursery, folder, options.most, random.Random(options.seed))


def _in_directories(wanted: str) -> list[Operation]:
    return [operation for operation in _chosen(wanted) if operation.kind in ("delta", "iceberg")]


def _refusals(folder: Path, options: argparse.Namespace) -> Iterator[Tally]:
    for operation in _in_directories(options.only):
        yield refuse_everywhere(operation, folder, options.most, random.Random(options.seed))


def _faults(folder: Path, options: argparse.Namespace) -> Iterator[Tally]:
    with moto_s3.running() as endpoint, faulty_proxy.running(endpoint) as proxy:
        for operation in _in_directories(options.only):
            bucket = VersionedBucket(endpoint)
            place = InBucket(operation, proxy, bucket, folder / f"{len(list(folder.iterdir()))}" / "original")
            yield disturb_everywhere(operation, place, options.most, random.Random(options.seed))
            bucket.close()
    root = _made(folder / "rest") / "table"
    with catalog_behind_gateway(root) as proxy:
        for operation in _chosen(options.only):
            if operation.kind == "rest":
                place_in_catalog = InCatalog(operation, proxy, root)
                yield disturb_everywhere(operation, place_in_catalog, options.most, random.Random(options.seed))


def _model(_: Path, options: argparse.Namespace) -> Iterator[Tally]:
    for kind, kernels in (("delta", "native"), ("delta", "python"), ("iceberg", "native"), ("iceberg", "python")):
        what = "model" if kind == "delta" else "model of Iceberg"
        tally = Tally(f"{what}, {kernels} kernels", "runs", options.runs, options.runs)
        if options.only not in tally.scenario:
            continue
        command = [sys.executable, "-m", "tests.model.run", "--format", kind]
        command += ["--seed", str(options.seed), "--runs", str(options.runs)]
        ended = subprocess.run(
            [*command, "--steps", "50"],
            env={**os.environ, "DELTABERG_KERNELS": kernels},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        lines = ended.stdout.splitlines()
        if ended.returncode < 0 or not lines:
            tally.wrong.append(f"{' '.join(command[1:])} ended with {ended.returncode} and told nothing")
            yield tally
            continue
        found = json.loads(lines[-1])
        tally.note, tally.seconds = f"{found['steps']} steps", found["seconds"]
        if found["fault"]:
            tally.wrong.append(f"repeat with {' '.join(command[1:])} --steps 50\n{ended.stdout}")
        yield tally


def _races(folder: Path, options: argparse.Namespace) -> Iterator[Tally]:
    whole = Race(options.turns, options.seed)
    spark = replace(whole, turns=max(8, options.turns // 4), sparks=2)
    parts = replace(REPARTITIONED, turns=max(1, options.turns // 4), seed=options.seed)
    for number, (kind, name, race) in enumerate(
        (
            ("delta", "race on this machine", whole),
            ("iceberg", "race of Iceberg on this machine", whole),
            ("sqlite", "race in a SQL catalog on this machine", whole),
            ("delta", "race of new partitions", parts),
            ("iceberg", "race of Iceberg of new partitions", parts),
            ("delta", "race with Spark", spark),
            ("iceberg", "race of Iceberg with Spark", spark),
        )
    ):
        if options.only in name:
            yield race_on_disk(_made(folder / f"{number}"), replace(race, kind=kind), name)
    if options.only in "race in PostgreSQL" and postgres.binaries() is not None:
        race = Race(max(1, options.turns // 4), options.seed, kind="postgres")
        yield race_in_database(_made(folder / "postgres"), race)
    if options.only in "race through REST":
        # Beside other work on the machine, the server's answers have been seconds late.
        race = Race(max(1, options.turns // 8), options.seed, kind="rest")
        yield race_through_rest(_made(folder / "rest"), race, timeout=15)
    with moto_s3.running() as endpoint, faulty_proxy.running(endpoint) as proxy:
        for kind, name, share, more in (
            ("delta", "race on S3", 4, {}),
            ("iceberg", "race of Iceberg on S3", 4, {}),
            ("delta", "race over a bad network", 8, PATIENT),
            ("iceberg", "race of Iceberg over a bad network", 8, PATIENT),
        ):
            if options.only not in name:
                continue
            if more:
                bad_network(proxy, options.seed)
            bucket = VersionedBucket(endpoint)
            race = Race(max(1, options.turns // share), options.seed, kind=kind)
            yield race_in_bucket(_made(folder / bucket.name), bucket, proxy, race, name, more)
            bucket.close()


def _drops(folder: Path, options: argparse.Namespace) -> Iterator[Tally]:
    for kind in get_args(Format):
        if options.only in (name := f"drops beside writers, {kind}"):
            for number in range(4):
                place = _made(folder / f"{kind}-{number}") / "t"
                seed = options.seed + number
                yield race_of_drops(place, kind, 8, max(1, options.turns // 2), seed, f"{name}, {number + 1} of 4")


def _expiries(folder: Path, options: argparse.Namespace) -> Iterator[Tally]:
    for kind, where in (("iceberg", "in a directory"), ("sqlite", "in a SQL catalog"), ("rest", "through REST")):
        if options.only in (name := f"expiries {where}"):
            with table_to_expire(_made(folder / kind), kind) as open_table:
                yield race_of_expiries(open_table, 8, max(1, options.turns // 4), options.seed, name)


def _vacuums(folder: Path, options: argparse.Namespace) -> Iterator[Tally]:
    for number, (name, race) in enumerate(vacuum_races(max(1, options.turns // 2), options.seed).items()):
        if options.only in name:
            yield race_on_disk(_made(folder / f"{number}"), race, name)
    # The client of a store does not survive the fork of a process that is to be killed.
    weights = {**OFTEN, "vacuum that is killed": 0}
    with moto_s3.running() as endpoint, faulty_proxy.running(endpoint) as proxy:
        for name, more in (("vacuums on S3", {}), ("vacuums over a bad network", PATIENT)):
            if options.only not in name:
                continue
            if more:
                bad_network(proxy, options.seed)
            bucket = VersionedBucket(endpoint)
            race = Race(max(1, options.turns // 8), options.seed, weights=weights)
            yield race_in_bucket(_made(folder / bucket.name), bucket, proxy, race, name, more)
            bucket.close()


def _streams(folder: Path, options: argparse.Namespace) -> Iterator[Tally]:
    for table_format in get_args(Format):
        tally = Tally(f"stream of {table_format}, killed", "steps", planned=len(STEPS))
        if options.only not in tally.scenario:
            continue
        started = time.monotonic()
        for step in STEPS:
            try:
                expected, delivered = ids_of_killed_query(_made(folder / f"{table_format} {step}"), table_format, step)
            except AssertionError as error:
                tally.wrong.append(f"{step}: {error}")
                continue
            tally.tried += 1
            tally.lost += [f"{step}: row {one}" for one in (Counter(expected) - Counter(delivered)).elements()]
            tally.doubled += [f"{step}: row {one}" for one in (Counter(delivered) - Counter(expected)).elements()]
        tally.seconds = time.monotonic() - started
        yield tally


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


#: The parts by their names.
PARTS: dict[str, Callable[[Path, argparse.Namespace], Iterator[Tally]]] = {
    "crashes": _crashes,
    "refusals": _refusals,
    "faults": _faults,
    "races": _races,
    "vacuums": _vacuums,
    "expiries": _expiries,
    "drops": _drops,
    "model": _model,
    "streams": _streams,
}


def main() -> int:
    """Run the parts that are named, print the table, and return 1 if anything is not as it has to be."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"what runs, by default all: {', '.join(PARTS)}")
    parser.add_argument("--only", default="", metavar="TEXT", help="only scenarios with this text in their names")
    parser.add_argument(
        "--most", type=int, metavar="N", help="try only N points of each scenario of crashes, refusals and faults"
    )
    parser.add_argument("--turns", type=int, default=500, metavar="N", help="how often each process of a race acts")
    parser.add_argument("--runs", type=int, default=100, metavar="N", help="how many tables the model makes")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    print(f"seed {options.seed}; repeat with --seed {options.seed}", flush=True)
    if postgres.binaries() is None:
        print("not tried: catalogs in PostgreSQL, whose programs are not there", flush=True)
    tallies = []
    # The races with Spark start its workers, which need the environment of the tests.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    prefer_memory()
    with tempfile.TemporaryDirectory(prefix="deltaberg-proof-") as folder:
        for name in options.parts or PARTS:
            place = Path(folder, name)
            place.mkdir()
            for tally in PARTS[name](place, options):
                print(tally, flush=True)
                for sentence in tally.faults:
                    print(f"    {sentence}", flush=True)
                tallies.append(tally)
    if not tallies:
        parser.error(f"no scenario of these parts has {options.only!r} in its name")
    print(f"\n{table_of(tallies)}")
    return 1 if any(tally.faults for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
