"""Eight processes commit to one table at once: everything that was acknowledged is there, once, in one order."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable
from tests.storage.conftest import Bucket
from tests.support.delta_builder import DeltaBuilder
from tests.support.faulty_proxy import FaultyProxy
from tests.support.rows import ID
from tests.support.serial_log import History, check_history, read_folder, read_objects

pytestmark = pytest.mark.one_backend

_PROCESSES = 8
_ROOT = Path(__file__).resolve().parents[2]


def _race(location: str, options: dict[str, str], commits: int, seed: int) -> list[dict[str, Any]]:
    """Run the processes, and return what they say was acknowledged."""
    processes = []
    for number in range(_PROCESSES):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.commit.racer"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        told = {
            "location": location,
            "options": options,
            "commits": commits,
            "name": f"p{number}",
            "seed": seed + number,
        }
        process.stdin.write(json.dumps(told))
        process.stdin.close()
        process.stdin = None
        processes.append(process)
    lines = []
    for process in processes:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        lines += [json.loads(line) for line in out.splitlines()]
    return lines


def _check(history: History, acknowledged: list[dict[str, Any]], commits: int) -> None:
    assert not [line for line in acknowledged if "error" in line]
    assert len(acknowledged) == _PROCESSES * commits
    assert history.faults == []
    by_version = {line["version"]: line["token"] for line in acknowledged}
    assert [by_version[version] for version in sorted(by_version)] == history.tokens
    assert sorted(by_version) == list(range(1, len(acknowledged) + 1))
    assert history.added == {line["add"]: 1 for line in acknowledged}
    # It was a race.
    assert sum(line["retries"] for line in acknowledged) > 0


def _create(builder: DeltaBuilder) -> None:
    features = ["rowTracking", "domainMetadata", "inCommitTimestamp"]
    builder.create(
        pa.schema(ID),
        protocol=builder.features(writer_only=features),
        configuration={"delta.enableInCommitTimestamps": "true"},
    )
    # The first version of such a table records its time.
    actions = builder.commits[0]
    actions.insert(0, {"commitInfo": {"inCommitTimestamp": 1_700_000_000_000}})
    builder.commit(*actions, version=0)


def _live(table: DeltaTable) -> set[str]:
    return set(table.live_files.column("path").to_pylist())


@pytest.mark.req("DL-LOG-05", "DL-LOG-07", half="writer")
@pytest.mark.req("DL-GEN-01", half="writer")
@pytest.mark.req("DL-RT-13")
@pytest.mark.slow
def test_on_this_machine(builder: DeltaBuilder, seed: int) -> None:
    _create(builder)
    acknowledged = _race(str(builder.root), {}, 12, seed)
    history = check_history(read_folder(builder.root))
    _check(history, acknowledged, 12)
    assert _live(DeltaTable(builder.root)) == history.live


def _download(bucket: Bucket) -> dict[str, Callable[[], bytes]]:
    import obstore

    store = bucket.store()

    def reader(path: str) -> Callable[[], bytes]:
        return lambda: bytes(obstore.get(store, path).bytes())

    found = [meta["path"] for batch in obstore.list(store, prefix="t/_delta_log") for meta in batch]
    return {path: reader(path) for path in found}


@pytest.mark.req("DL-LOG-05", half="writer")
@pytest.mark.slow
def test_on_s3(builder: DeltaBuilder, s3: Bucket, behind: Bucket, s3_proxy: FaultyProxy, seed: int) -> None:
    """The gateway lets one conditional put through at a time: the emulator looks, and then writes."""
    assert s3_proxy.faults == []
    _create(builder)
    url = s3.upload(builder.root, "t")
    acknowledged = _race(url, behind.options, 5, seed)
    history = check_history(read_objects(_download(s3)))
    _check(history, acknowledged, 5)
    assert _live(DeltaTable(url, storage_options=s3.options)) == history.live


def test_the_checker_finds_faults() -> None:
    """What it does not complain about was looked at."""
    add = {"path": "a", "baseRowId": 0, "stats": '{"numRecords":5}'}

    def entry(*actions: dict[str, Any], **info: Any) -> bytes:
        return b"\n".join(json.dumps(action).encode() for action in ({"commitInfo": info}, *actions))

    good = {
        0: entry({"metaData": {}}, txnId="0", inCommitTimestamp=5),
        1: entry({"add": add}, txnId="1", readVersion=0, inCommitTimestamp=6),
        2: entry({"add": {**add, "path": "b", "baseRowId": 5}}, txnId="2", readVersion=1, inCommitTimestamp=7),
    }
    assert check_history(good).faults == []
    bad = {
        "the versions are": {0: good[0], 2: good[2]},
        "not one action": {**good, 2: b'{"add":{"path":"x"},"txn":{}}'},
        "read version 3": {**good, 2: entry(readVersion=3)},
        "not later than": {**good, 2: entry(inCommitTimestamp=6)},
        "more than once": {**good, 2: entry(txnId="1")},
        "added b twice": {**good, 2: entry({"add": {"path": "b"}}, {"add": {"path": "b"}})},
        "removed a twice": {**good, 2: entry({"remove": {"path": "a"}}, {"remove": {"path": "a"}})},
        "not live": {**good, 2: entry({"remove": {"path": "b"}})},
        "given twice": {**good, 2: entry({"add": {**add, "path": "b", "baseRowId": 4}})},
    }
    for fault, commits in bad.items():
        found = check_history(commits).faults
        assert any(fault in sentence for sentence in found), (fault, found)
