"""What becomes of conditional puts, and what is said of them, when the network or the store misbehaves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from deltaberg.errors import AuthenticationError, ObjectNotFoundError, StorageError, UnsupportedFeatureError
from deltaberg.storage import answers, upload
from deltaberg.storage.base import PutOutcome, PutResult, Storage
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from tests.storage.conftest import Bucket
from tests.support import faulty_proxy
from tests.support.faulty_proxy import Fault, FaultyProxy, conditional_put

pytestmark = pytest.mark.one_backend

#: For how many seconds a client waits that is to give up. All others wait for as long as this machine may stall.
_PATIENCE = 3
_OURS, _THEIRS = b"ours", b"theirs, which is longer"


@pytest.fixture
def store(behind: Bucket) -> Storage:
    """The store behind the gateway."""
    return open_store(parse_location(behind.url), {**behind.options, "max_retries": "3"})


@pytest.fixture
def hasty(behind: Bucket) -> Storage:
    """The same store, by a client that does not wait long for an answer."""
    options = {**behind.options, "s3.request-timeout": str(_PATIENCE), "max_retries": "3"}
    return open_store(parse_location(behind.url), options)


@pytest.fixture
def direct(s3: Bucket) -> Storage:
    """The same store as others see it, who have a better network."""
    return open_store(parse_location(s3.url), s3.options)


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between puts that are sent again, which do not pass."""
    found: list[float] = []
    monkeypatch.setattr(answers, "_wait", found.append)
    return found


def _put(store: Storage, data: bytes = _OURS) -> PutResult:
    return store.put("t/x", data, if_absent=True)


def _there(store: Storage) -> bytes | None:
    try:
        return store.get("t/x")
    except ObjectNotFoundError:
        return None


# What each fault leaves in the store, and what is said of the put.
_LOST_ANSWERS = {
    "the answer is lost": Fault(conditional_put, answer="none"),
    "the answer is cut": Fault(conditional_put, answer="cut"),
    "the answer comes too late": Fault(conditional_put, answer="late"),
    "the request is sent twice and the answer is lost": Fault(conditional_put, forwards=2, answer="none"),
    **{f"{status} hides a success": Fault(conditional_put, answer=status) for status in (408, 409, 500, 502, 503, 504)},
}
_LOST_REQUESTS = {
    "the request is lost": Fault(conditional_put, forwards=0, answer="none"),
    "the request waits": Fault(conditional_put, forwards=0, answer="late"),
    **{f"{status}": Fault(conditional_put, forwards=0, answer=status) for status in (408, 409, 500, 502, 503, 504)},
}


def _disturbed(fault: Fault, store: Storage, hasty: Storage, proxy: FaultyProxy) -> PutResult:
    """Put, with a fault; by the client that gives up if it would have no answer else."""
    proxy.faults.append(replace(fault))
    result = _put(hasty if fault.answer == "late" else store)
    proxy.settle(conditional_put, 1)
    return result


@pytest.mark.parametrize("name", _LOST_ANSWERS)
def test_a_put_whose_answer_is_lost_is_unknown(
    name: str, store: Storage, hasty: Storage, direct: Storage, s3_proxy: FaultyProxy
) -> None:
    result = _disturbed(_LOST_ANSWERS[name], store, hasty, s3_proxy)
    assert result.outcome is PutOutcome.UNKNOWN
    assert isinstance(result.cause, StorageError)
    assert "does not say whether the object was written" in str(result.cause)
    assert result.cause.context["path"].endswith("/t/x")
    # It took effect, and nothing was sent again: else the answer would be about our own object.
    assert _there(direct) == _OURS
    assert s3_proxy.count(conditional_put) == 1
    assert _put(store, _THEIRS).outcome is PutOutcome.EXISTS
    assert _there(direct) == _OURS


@pytest.mark.parametrize("name", _LOST_REQUESTS)
def test_a_put_that_is_lost_is_unknown_too(
    name: str, store: Storage, hasty: Storage, direct: Storage, s3_proxy: FaultyProxy
) -> None:
    assert _disturbed(_LOST_REQUESTS[name], store, hasty, s3_proxy).outcome is PutOutcome.UNKNOWN
    assert s3_proxy.count(conditional_put) == 1
    assert _there(direct) is None
    # The very same bytes may be put again.
    assert _put(store).outcome is PutOutcome.WRITTEN
    assert _there(direct) == _OURS


def test_a_put_can_land_after_it_was_given_up(hasty: Storage, direct: Storage, s3_proxy: FaultyProxy) -> None:
    lands = threading.Event()
    s3_proxy.faults.append(Fault(conditional_put, until=lands))
    assert _put(hasty).outcome is PutOutcome.UNKNOWN
    assert _there(direct) is None
    lands.set()
    s3_proxy.settle(conditional_put, 1)
    assert _there(direct) == _OURS


def test_a_put_that_lands_late_does_not_replace(
    store: Storage, hasty: Storage, direct: Storage, s3_proxy: FaultyProxy
) -> None:
    lands = threading.Event()
    s3_proxy.faults.append(Fault(conditional_put, until=lands))
    assert _put(hasty).outcome is PutOutcome.UNKNOWN
    assert _put(store, _THEIRS).outcome is PutOutcome.WRITTEN
    lands.set()
    s3_proxy.settle(conditional_put, 2)
    assert _there(direct) == _THEIRS


def test_a_gateway_that_repeats_requests_hides_our_own_success(
    store: Storage, direct: Storage, s3_proxy: FaultyProxy
) -> None:
    """The answer is about our own object: nobody but who reads it back can tell."""
    s3_proxy.faults.append(Fault(conditional_put, forwards=2))
    assert _put(store).outcome is PutOutcome.EXISTS
    assert _there(direct) == _OURS


def test_a_refusal_is_no_doubt(store: Storage, direct: Storage, s3_proxy: FaultyProxy) -> None:
    direct.put("t/x", _THEIRS)
    assert _put(store) == PutResult(PutOutcome.EXISTS)
    s3_proxy.faults.append(Fault(conditional_put, forwards=0, answer=412))
    assert _put(store) == PutResult(PutOutcome.EXISTS)
    assert _there(direct) == _THEIRS


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, StorageError),
        (401, AuthenticationError),
        (403, AuthenticationError),
        (404, StorageError),
        (405, StorageError),
        (411, StorageError),
        (413, StorageError),
        (501, UnsupportedFeatureError),
    ],
)
def test_what_surely_was_not_written_raises(
    status: int, error: type[Exception], store: Storage, direct: Storage, s3_proxy: FaultyProxy
) -> None:
    s3_proxy.faults.append(Fault(conditional_put, forwards=0, answer=status))
    with pytest.raises(error, match="t/x") as caught:
        _put(store)
    assert not isinstance(caught.value, ObjectNotFoundError)
    assert s3_proxy.count(conditional_put) == 1
    assert _there(direct) is None


def test_a_busy_store_is_asked_again(
    store: Storage, direct: Storage, s3_proxy: FaultyProxy, waits: list[float]
) -> None:
    s3_proxy.faults.append(Fault(conditional_put, times=2, forwards=0, answer=429))
    assert _put(store).outcome is PutOutcome.WRITTEN
    assert s3_proxy.count(conditional_put) == 3
    assert waits == sorted(waits)
    assert len(waits) == 2
    s3_proxy.faults.append(Fault(conditional_put, times=99, forwards=0, answer=429))
    with pytest.raises(StorageError, match="429"):
        store.put("t/y", _OURS, if_absent=True)
    assert s3_proxy.count(conditional_put) == 7
    assert [meta.path for meta in direct.walk("t")] == ["t/x"]


def test_a_server_that_is_not_there_has_written_nothing(waits: list[float]) -> None:
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "hush"}
    store = open_store(parse_location("s3://bucket/t"), {**options, "AWS_REGION": "x"})
    with pytest.raises(StorageError, match="s3://bucket/t/x") as caught:
        _put(store)
    assert len(waits) == 3
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("fault", [Fault(answer="none"), Fault(answer="late"), Fault(answer=500)], ids=repr)
def test_azure_behind_the_same_gateway(fault: Fault, azure: Bucket) -> None:
    with faulty_proxy.running(azure.options["azure_endpoint"]) as proxy:
        options = {**azure.options, "azure_endpoint": proxy.endpoint}
        store = open_store(parse_location(azure.url), options)
        hasty = open_store(parse_location(azure.url), {**options, "timeout": f"{_PATIENCE}s"})
        lost = replace(fault, matches=conditional_put)
        assert _disturbed(lost, store, hasty, proxy).outcome is PutOutcome.UNKNOWN
        assert proxy.count(conditional_put) == 1
        assert _put(store, _THEIRS) == PutResult(PutOutcome.EXISTS)
        assert _there(store) == _OURS
        # A conflict of another kind does not say that there is an object.
        proxy.faults.append(Fault(conditional_put, forwards=0, answer=409))
        assert store.put("t/y", _OURS, if_absent=True).outcome is PutOutcome.UNKNOWN
        assert store.probe_conditional_put("t")


def test_a_bucket_that_is_not_there(bucket: Bucket) -> None:
    store = open_store(parse_location(f"{bucket.url}-no-bucket"), {**bucket.options, "max_retries": "0"})
    with pytest.raises(StorageError, match="there is no such bucket or container"):
        _put(store)


def test_an_impossible_name(bucket: Bucket) -> None:
    store = open_store(parse_location(bucket.url), bucket.options)
    for name in ("a//b", "a/\n", "../x"):
        with pytest.raises(StorageError, match="the store cannot hold an object of this name"):
            store.put(name, _OURS, if_absent=True)


def test_wrong_credentials_write_nothing(azure: Bucket) -> None:
    wrong = {**azure.options, "azure_storage_account_key": "d3Jvbmcga2V5", "max_retries": "0"}
    with pytest.raises(AuthenticationError) as caught:
        _put(open_store(parse_location(azure.url), wrong))
    assert "d3Jvbmcga2V5" not in str(caught.value)
    assert _there(open_store(parse_location(azure.url), azure.options)) is None


def test_a_bucket_that_is_not_there_is_never_taken_for_a_missing_object(bucket: Bucket) -> None:
    location = parse_location(f"{bucket.url}-missing")
    store = open_store(location, {**bucket.options, "max_retries": "0"})
    calls: list[Callable[[], Any]] = [
        lambda: store.put("t/x", _OURS),
        lambda: store.put("t/x", _OURS, if_absent=True),
        lambda: store.open_output("t/x").close(),
        lambda: store.get("t/x"),
        lambda: store.delete("t/x"),
        lambda: list(store.list_from("t")),
        lambda: list(store.walk("t")),
    ]
    for call in calls:
        with pytest.raises(StorageError) as caught:
            call()
        assert not isinstance(caught.value, ObjectNotFoundError)
        assert "-missing" in str(caught.value)
    failures = store.delete_many(["t/x", "t/y"])
    assert [failure.path for failure in failures] == ["t/x", "t/y"]
    assert all("no such bucket" in str(failure.error) for failure in failures)


def test_conditional_puts_that_are_switched_off(s3: Bucket) -> None:
    store = open_store(parse_location(s3.url), {**s3.options, "aws_conditional_put": "disabled"})
    with pytest.raises(UnsupportedFeatureError, match="no conditional put"):
        _put(store)
    assert not store.probe_conditional_put("t")


def test_a_store_that_ignores_the_condition_is_found(store: Storage, direct: Storage, s3_proxy: FaultyProxy) -> None:
    s3_proxy.faults.append(Fault(conditional_put, times=99, without="if-none-match"))
    assert not store.probe_conditional_put("t/_delta_log")
    assert list(direct.walk("")) == []
    # Once for a bucket.
    before = s3_proxy.count(conditional_put)
    assert not store.probe_conditional_put("another table")
    assert s3_proxy.count(conditional_put) == before == 2


@pytest.mark.parametrize("status", [501, 500, 403])
def test_a_probe_without_an_answer(status: int, store: Storage, s3_proxy: FaultyProxy) -> None:
    s3_proxy.faults.append(Fault(conditional_put, times=99, forwards=0, answer=status))
    if status == 501:
        assert not store.probe_conditional_put("t")
        return
    for _ in range(2):
        with pytest.raises(StorageError, match=r"denies access|does not say whether it honours"):
            store.probe_conditional_put("t")
    # No answer is kept that nobody gave.
    s3_proxy.faults.clear()
    assert store.probe_conditional_put("t")


def test_a_probe_survives_lost_answers(store: Storage, direct: Storage, s3_proxy: FaultyProxy) -> None:
    s3_proxy.faults.append(Fault(conditional_put, answer="none"))
    assert store.probe_conditional_put("t")
    assert list(direct.walk("")) == []


def test_a_store_that_lets_nobody_delete_is_probed_all_the_same(store: Storage, s3_proxy: FaultyProxy) -> None:
    s3_proxy.faults.append(Fault(lambda seen: seen.method in ("POST", "DELETE"), times=99, forwards=0, answer=403))
    assert store.probe_conditional_put("t")


def test_bytes_are_never_mixed(behind: Bucket, direct: Storage, s3_proxy: FaultyProxy) -> None:
    """Writers put one name again and again over a bad network: of each round's objects one is there, whole."""
    options = {**behind.options, "s3.request-timeout": str(_PATIENCE)}
    stores = [open_store(parse_location(behind.url), {**options, "max_retries": str(n)}) for n in range(4)]
    kinds = [
        Fault(answer="none"),
        Fault(forwards=2),
        Fault(answer="late"),
        Fault(answer=500),
        Fault(forwards=0, answer=503),
    ]
    turn, lock = 0, threading.Lock()

    def trouble(seen: Any) -> Fault | None:
        nonlocal turn
        if not conditional_put(seen):
            return None
        with lock:
            turn += 1
            return replace(kinds[turn % len(kinds)]) if turn % 2 else None

    s3_proxy.trouble = trouble
    with ThreadPoolExecutor(len(stores)) as pool:
        for number in range(6):
            contents = [b"%d" % writer * (200_000 + writer) for writer in range(len(stores))]
            work = [
                pool.submit(one.put, f"t/{number}", data, if_absent=True)
                for one, data in zip(stores, contents, strict=True)
            ]
            outcomes = [one.result().outcome for one in work]
            assert outcomes.count(PutOutcome.WRITTEN) <= 1
            try:
                there = contents.index(direct.get(f"t/{number}"))
            except ObjectNotFoundError:
                assert set(outcomes) == {PutOutcome.UNKNOWN}
                continue
            # Who is said to have written it did, and nobody else is told so.
            assert all(outcome is not PutOutcome.WRITTEN for at, outcome in enumerate(outcomes) if at != there)


def test_reads_are_repeated_and_never_short(store: Storage, direct: Storage, s3_proxy: FaultyProxy) -> None:
    data = bytes(range(256)) * 3000
    direct.put("t/x", data)
    reads = (
        lambda: store.get("t/x"),
        lambda: store.get_ranges("t/x", [(0, len(data))])[0],
        lambda: store.open("t/x").read(),
    )
    for read in reads:
        for answer in ("none", "cut", 500, 503):
            s3_proxy.faults.append(Fault(lambda seen: seen.method == "GET", answer=answer))
            try:
                assert read() == data
            except StorageError:
                # A body that ends early cannot always be read on; it must not pass for the whole.
                assert answer == "cut"
            s3_proxy.faults.clear()


@pytest.mark.parametrize("part", ["partNumber=2", "uploads", "uploadId"])
def test_an_upload_that_fails_is_not_visible(
    part: str, store: Storage, direct: Storage, s3_proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beginning it, sending a part, or finishing it: the writer is told, and no later write passes for a success."""
    monkeypatch.setattr(upload, "_PART_BYTES", 5 << 20)

    def write() -> None:
        with store.open_output("t/x") as file:
            for _ in range(30):
                file.write(bytes(1 << 20))

    method = "PUT" if part == "partNumber=2" else "POST"
    s3_proxy.faults.append(
        Fault(lambda seen: seen.method == method and part in seen.target, times=99, forwards=0, answer=403)
    )
    with pytest.raises(AuthenticationError, match="t/x"):
        write()
    assert list(direct.walk("t")) == []
    file = store.open_output("t/x")

    def write_on() -> None:
        for _ in range(100):
            file.write(bytes(1 << 20))
        file.close()

    with pytest.raises(AuthenticationError, match="the store denies access"):
        write_on()
    file.close()
    with pytest.raises(StorageError, match="the file is closed"):
        file.write(b"more")
    assert list(direct.walk("t")) == []


_PAGE = Fault(
    lambda seen: seen.method in ("PUT", "POST"), 99, 0, answer=200, body=b"<title>Sign in</title>", kind="text/html"
)


def _put_in_parts(store: Storage) -> None:
    with store.open_output("t/x") as output:
        output.write(b"x" * (9 << 20))


_WRITES: dict[str, Callable[[Any], object]] = {
    "whole": lambda store: store.put("t/x", _OURS),
    "parts": _put_in_parts,
    "copy": lambda store: store.copy("t/y", "t/x"),
}


@pytest.mark.parametrize("way", _WRITES)
def test_a_page_is_not_taken_for_a_success(way: str, store: Storage, direct: Storage, s3_proxy: FaultyProxy) -> None:
    """It has a status of success, and a tag, as the pages of web servers do."""
    direct.put("t/y", _THEIRS)
    s3_proxy.faults.append(replace(_PAGE))
    with pytest.raises(StorageError, match="t/x"):
        _WRITES[way](store)
    assert _there(direct) is None
    s3_proxy.reset()
    _WRITES[way](store)
    assert _there(direct) is not None


@pytest.mark.parametrize("way", ["whole", "parts"])
def test_a_page_of_an_azure_gateway(way: str, azure: Bucket) -> None:
    with faulty_proxy.running(azure.options["azure_endpoint"]) as proxy:
        store = open_store(parse_location(azure.url), {**azure.options, "azure_endpoint": proxy.endpoint})
        proxy.faults.append(replace(_PAGE))
        with pytest.raises(StorageError, match="does not come from the store"):
            _WRITES[way](store)
        proxy.reset()
        _WRITES[way](store)
        assert _there(store) is not None


def test_stores_are_known_by_their_answers(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that is put whole costs one request."""
    store: Any = open_store(parse_location(bucket.url), bucket.options)
    monkeypatch.setattr(store, "head", None)
    for data in (b"", _OURS):
        assert store.put("t/x", data) == PutResult(PutOutcome.WRITTEN)
    # Buckets that encrypt by keys of their own give other tags.
    assert answers.is_receipt(None, b"") is answers.is_receipt('"1"', b"") is False
    assert answers.is_receipt('"5e7f2a1b-264"', _OURS) is answers.is_receipt(f'"{"0" * 32}"', _OURS) is False


def test_an_object_that_others_have_replaced_was_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hints and marks have names that every writer uses, and the tags of this store are no digests."""
    store: Any = open_store(parse_location("memory:///"), {})
    head = store.head

    def replaced(path: str) -> Any:
        monkeypatch.setattr(store, "head", head)
        store.put(path, _THEIRS)
        return head(path)

    monkeypatch.setattr(store, "head", replaced)
    assert store.put("t/x", _OURS) == PutResult(PutOutcome.WRITTEN)
    assert _there(store) == _THEIRS
