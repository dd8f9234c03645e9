"""How many requests a listing costs, and what it makes of keys that stand for directories."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import obstore
import pytest

from deltaberg.storage import remote
from deltaberg.storage.base import Storage
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from tests.storage.conftest import Bucket
from tests.support import moto_s3
from tests.support.faulty_proxy import FaultyProxy

pytestmark = pytest.mark.one_backend


@pytest.fixture
def client(s3: Bucket) -> Any:
    """The store's own client, which takes any key."""
    boto_client = boto3.client(
        "s3",
        endpoint_url=s3.options["AWS_ENDPOINT_URL"],
        region_name=moto_s3.REGION,
        aws_access_key_id=moto_s3.KEY,
        aws_secret_access_key=moto_s3.SECRET,
    )
    yield boto_client
    boto_client.close()


@pytest.fixture
def store(behind: Bucket) -> Storage:
    """The store behind the gateway, which counts requests."""
    return open_store(parse_location(behind.url), behind.options)


def _asked(proxy: FaultyProxy) -> list[dict[str, list[str]]]:
    found = [parse_qs(urlsplit(seen.target).query) for seen in proxy.seen]
    proxy.seen.clear()
    return found


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many keys a page of the server has, so that few objects fill many."""
    monkeypatch.setattr("moto.settings.get_s3_default_max_keys", lambda: 10)
    monkeypatch.setattr(remote, "_LISTED_AT_ONCE", 10)
    return 10


def test_a_listing_does_not_walk_below(s3: Bucket, store: Storage, s3_proxy: FaultyProxy, pages: int) -> None:
    """A log beside two directories of objects, whose pages are not asked for."""
    direct = open_store(parse_location(s3.url), s3.options)
    commits = [f"{version:020}.json" for version in range(30)]
    expected = [*commits, "_last_checkpoint", "~"]
    for name in expected:
        direct.put(f"t/_log/{name}", b"{}")
    for folder in ("_sidecars", "_staged"):
        for number in range(6 * pages):
            direct.put(f"t/_log/{folder}/{number:04}", b"")

    def names(offset: str = "") -> list[str]:
        return [meta.path.rpartition("/")[2] for meta in store.list_from("t/_log", offset)]

    assert names() == expected
    assert all(query.get("delimiter") == ["/"] for query in _asked(s3_proxy))
    assert names(commits[25]) == expected[25:]
    asked = _asked(s3_proxy)
    assert f"t/_log/{commits[24]}" < asked[0]["start-after"][0] < f"t/_log/{commits[25]}"
    # One page for what is listed, and at most one for each directory, in place of the 12 that are below.
    assert len(asked) <= 4
    assert names("_m") == ["~"]
    assert len(_asked(s3_proxy)) <= 4


def test_keys_that_mark_directories(client: Any, s3: Bucket, store: Storage) -> None:
    """Consoles make empty objects whose keys end with a slash."""
    for key in ("d/", "d/x", "empty/"):
        client.put_object(Bucket=s3.url.removeprefix("s3://"), Key=key, Body=b"")
    assert [meta.path for meta in store.list_from("d")] == ["d/x"]
    assert [meta.path for meta in store.walk("d")] == ["d/x"]
    assert list(store.list_from("empty")) == []
    assert not store.has_objects("empty")
    assert store.directories("") == ["d", "empty"]
    assert store.directories("empty") == []
    assert [meta.path for meta in store.list_from("d", "a")] == ["d/x"]


def test_markers_beside_objects(client: Any, s3: Bucket, store: Storage) -> None:
    """A directory that is marked lies among objects; one has an empty object of the same name beside it."""
    for key in ("t/a", "t/both", "t/both/", "t/sub/", "t/sub/x/", "t/z"):
        client.put_object(Bucket=s3.url.removeprefix("s3://"), Key=key, Body=b"")
    wanted = ["t/a", "t/both", "t/z"]
    for offset in ("", "a"):
        assert [meta.path for meta in store.list_from("t", offset)] == wanted
    assert [meta.path for meta in store.walk("t")] == wanted
    assert [store.get(meta.path) for meta in store.walk("")] == [b"", b"", b""]
    assert not store.has_objects("t/sub")
    assert store.has_objects("t")


def test_stores_that_list_from_no_offset(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Azure and S3 Express are asked for the directory, never for all that is below."""
    opened = open_store(parse_location(bucket.url), bucket.options)
    if bucket.url.startswith("s3"):
        monkeypatch.setattr(remote, "_S3_EXPRESS", bucket.url[-4:])
    for name in ("a", "b", "c", "b.d/x"):
        opened.put(f"t/{name}", b"")

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("a listing of all that is below")

    monkeypatch.setattr(obstore, "list", refused)
    assert [meta.path for meta in opened.list_from("t", "b")] == ["t/b", "t/c"]
