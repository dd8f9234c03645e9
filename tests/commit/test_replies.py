"""Commits whose requests or answers are lost, late or repeated: each is there once, or it is said that nobody knows."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from deltaberg import DeltaTable, find_commit
from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import AuthenticationError, CommitUnknownError, InvalidArgumentError, StorageError
from deltaberg.table.commit.commit import ClockedPolicy
from tests.storage.conftest import Bucket
from tests.support.below_verbs import begin
from tests.support.delta_builder import DeltaBuilder
from tests.support.faulty_proxy import Fault, FaultyProxy, Seen, conditional_put
from tests.support.rows import ids
from tests.support.serial_log import History, check_history, read_objects

pytestmark = pytest.mark.one_backend


class _Remote:
    """A table in a bucket: as we see it, through the gateway, and as others do."""

    def __init__(self, builder: DeltaBuilder, bucket: Bucket, behind: Bucket) -> None:
        builder.create(ids(1).schema, builder.add(ids(1), stats="full"))
        self.builder = builder
        self.bucket = bucket
        self.url = bucket.upload(builder.root, "t")
        options = {**behind.options, "max_retries": "2"}
        self.ours = DeltaTable(self.url, storage_options=options)
        #: The same by a client that does not wait long for an answer.
        self.hasty = DeltaTable(self.url, storage_options={**options, "s3.request-timeout": "2"})
        self.theirs = DeltaTable(self.url, storage_options=bucket.options)
        for table in (self.ours, self.hasty, self.theirs):
            # Stores are probed once for each bucket: not while faults are counted.
            table.transaction()

    def begin(self, table: DeltaTable, name: str, waits: Callable[[float], object] = lambda _: None) -> Transaction:
        transaction = begin(table, policy=ClockedPolicy(wait=waits, sends=4))
        transaction.add_actions([LogAction("add", self.builder.add(None, path=name, stats={"numRecords": 1})["add"])])
        return transaction

    def behind(self, fault: Fault) -> DeltaTable:
        """Return our table by the client that gives up if it would have no answer else."""
        return self.hasty if fault.answer == "late" else self.ours

    def objects(self) -> dict[str, Callable[[], bytes]]:
        import obstore

        store = self.bucket.store()

        def reader(path: str) -> Callable[[], bytes]:
            return lambda: bytes(obstore.get(store, path).bytes())

        found = [meta["path"] for batch in obstore.list(store, prefix="t/_delta_log") for meta in batch]
        return {path: reader(path) for path in found}

    def history(self) -> History:
        return check_history(read_objects(self.objects()))

    def delete(self, *names: str) -> None:
        import obstore

        obstore.delete(self.bucket.store(), [f"t/_delta_log/{name}" for name in names])


@pytest.fixture
def remote(builder: DeltaBuilder, s3: Bucket, behind: Bucket) -> _Remote:
    """The table."""
    return _Remote(builder, s3, behind)


_FAULTS = {
    "the answer is lost": Fault(conditional_put, answer="none"),
    "the answer is cut": Fault(conditional_put, answer="cut"),
    "the answer comes too late": Fault(conditional_put, answer="late"),
    "the request is lost": Fault(conditional_put, forwards=0, answer="none"),
    "the request is sent twice": Fault(conditional_put, forwards=2),
    "the request is sent twice, and the answer is lost": Fault(conditional_put, forwards=2, answer="none"),
    "the request is lost, and 503 comes": Fault(conditional_put, forwards=0, answer=503),
    "the request is lost, and 200 comes": Fault(conditional_put, forwards=0, answer=200),
    **{f"{status} hides a success": Fault(conditional_put, answer=status) for status in (408, 409, 412, 500, 503, 504)},
}


@pytest.mark.req("DL-LOG-05", half="writer")
@pytest.mark.parametrize("name", _FAULTS)
def test_a_commit_is_there_once(remote: _Remote, s3_proxy: FaultyProxy, name: str) -> None:
    fault = _FAULTS[name]
    s3_proxy.faults.append(replace(fault))
    ours = remote.behind(fault)
    result = remote.begin(ours, "mine.parquet").commit("WRITE")
    assert s3_proxy.faults[0].times == 0
    assert (result.version, ours.version) == (1, 1)
    history = remote.history()
    assert (history.faults, history.tokens) == ([], [result.token])
    assert history.added["mine.parquet"] == 1
    found = find_commit(remote.url, result.token, storage_options=remote.bucket.options)
    assert found is not None
    assert (found.version, found.added_files, found.operation) == (1, 1, "WRITE")


@pytest.mark.parametrize("name", _FAULTS)
def test_a_lost_race_is_seen_through_a_fault(remote: _Remote, s3_proxy: FaultyProxy, name: str) -> None:
    """Another commit lands between our listing and our put, and the answer to the put is disturbed."""
    transaction = remote.begin(remote.behind(_FAULTS[name]), "mine.parquet")
    others = remote.begin(remote.theirs, "theirs.parquet")

    def first(seen: Seen) -> bool:
        if conditional_put(seen) and others.result is None:
            others.commit()
        return conditional_put(seen)

    s3_proxy.faults.append(replace(_FAULTS[name], matches=first))
    result = transaction.commit("WRITE")
    assert (result.version, result.retries) == (2, 1)
    history = remote.history()
    assert (history.faults, history.tokens) == ([], [others.token, result.token])
    assert history.added == {"mine.parquet": 1, "theirs.parquet": 1, next(iter(remote.builder.rows)): 1}


@pytest.mark.parametrize("lands", ["behind our second request", "behind the commits of others"])
def test_a_delayed_put_lands_once(remote: _Remote, s3_proxy: FaultyProxy, lands: str) -> None:
    """The first request is held back until it was given up, and arrives after what was done about it."""
    held, arrives = threading.Event(), threading.Event()
    s3_proxy.faults.append(Fault(conditional_put, until=arrives))
    others = remote.begin(remote.theirs, "theirs.parquet")

    def wait(_: float) -> None:
        # The request has timed out, was not found, and is going to be sent again.
        held.set()
        if lands == "behind the commits of others" and others.result is None:
            others.commit()

    transaction = remote.begin(remote.hasty, "mine.parquet", wait)
    result = transaction.commit("WRITE")
    assert held.is_set()
    arrives.set()
    s3_proxy.settle()
    history = remote.history()
    assert history.faults == []
    assert history.tokens.count(result.token) == 1
    assert history.added["mine.parquet"] == 1
    assert result.version == (2 if others.result else 1)


def _clean_up(remote: _Remote, newest: int) -> None:
    """Write a checkpoint as others do, and delete the log entries before it."""
    import obstore

    builder = remote.builder
    for version in range(1, newest + 1):
        if version > builder.version:
            path = f"t/_delta_log/{version:020d}.json"
            builder.commit_text(remote.objects()[path](), version)
            lines = (builder.log / f"{version:020d}.json").read_text().splitlines()
            builder.commits[version] = [json.loads(line) for line in lines]
    builder.checkpoint(newest)
    name = f"{newest:020d}.checkpoint.parquet"
    obstore.put(remote.bucket.store(), f"t/_delta_log/{name}", (builder.log / name).read_bytes())
    remote.delete(*(f"{version:020d}.json" for version in range(newest)))


def test_a_delayed_put_into_a_hole_changes_nothing(remote: _Remote, s3_proxy: FaultyProxy) -> None:
    """The request is given up, others commit and clean up, and only then it arrives: on a version that is dead."""
    arrives = threading.Event()
    s3_proxy.faults.append(Fault(conditional_put, until=arrives))
    others = [remote.begin(remote.theirs, "one.parquet")]

    def wait(_: float) -> None:
        if others[0].result is None:
            others[0].commit()

    transaction = remote.begin(remote.hasty, "mine.parquet", wait)
    result = transaction.commit("WRITE")
    assert result.version == 2
    remote.theirs.refresh()
    assert remote.begin(remote.theirs, "two.parquet").commit().version == 3
    _clean_up(remote, 3)
    assert not [name for name in remote.objects() if name.endswith("01.json")]
    arrives.set()
    s3_proxy.settle()
    late = [name for name in remote.objects() if name.endswith("00001.json")]
    assert late, "the request should have arrived by now"
    table = DeltaTable(remote.url, storage_options=remote.bucket.options)
    paths = table.live_files.column("path").to_pylist()
    assert sorted(paths) == sorted(["mine.parquet", "one.parquet", "two.parquet", *remote.builder.rows])
    assert table.version == 3
    assert remote.begin(table, "three.parquet").commit().version == 4
    found = find_commit(remote.url, result.token, storage_options=remote.bucket.options)
    # Its own entry was cleaned up; the late one shows the same files, which the newest version holds.
    assert found is not None
    assert found.version == 1


def test_nobody_knows(remote: _Remote, s3_proxy: FaultyProxy) -> None:
    """The store takes the commit and does not answer any more; the token finds it later."""
    taken: list[Seen] = []

    def everything(seen: Seen) -> bool:
        if conditional_put(seen):
            taken.append(seen)
        return bool(taken)

    s3_proxy.faults.append(Fault(everything, times=1000, answer="none"))
    transaction = remote.begin(remote.ours, "mine.parquet")
    with pytest.raises(CommitUnknownError, match="not known whether it took effect") as caught:
        transaction.commit("WRITE")
    assert caught.value.context["token"] == transaction.token
    assert isinstance(caught.value.__cause__, StorageError)
    found = find_commit(remote.url, transaction.token, storage_options=remote.bucket.options)
    assert found is not None
    assert found.version == 1
    assert remote.history().added["mine.parquet"] == 1


def test_a_store_that_keeps_nothing_is_not_believed(remote: _Remote, s3_proxy: FaultyProxy) -> None:
    s3_proxy.faults.append(Fault(conditional_put, times=1000, forwards=0, answer=200))
    with pytest.raises(CommitUnknownError, match="the store does not show what it says it has"):
        remote.begin(remote.ours, "mine.parquet").commit("WRITE")
    assert s3_proxy.faults[0].times == 996
    assert remote.ours.refresh().version == 0


def test_surely_nothing_was_sent(remote: _Remote, s3_proxy: FaultyProxy) -> None:
    """A refused put is not an unknown commit: the store's own error comes, and the same change can be begun again."""
    s3_proxy.faults.append(Fault(conditional_put, forwards=0, answer=403))
    transaction = remote.begin(remote.ours, "mine.parquet")
    with pytest.raises(AuthenticationError) as caught:
        transaction.commit("WRITE")
    assert not isinstance(caught.value, CommitUnknownError)
    assert find_commit(remote.url, transaction.token, storage_options=remote.bucket.options) is None
    with pytest.raises(InvalidArgumentError, match="not committed, and has ended"):
        transaction.commit("WRITE")
    assert remote.begin(remote.ours, "mine.parquet").commit("WRITE").version == 1
