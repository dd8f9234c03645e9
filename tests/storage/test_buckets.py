"""Tables in buckets: S3 and Azure on loopback, and memory."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, open_table
from deltaberg.errors import (
    DataFileNotFoundError,
    DeltabergError,
    InvalidArgumentError,
    StorageError,
    TableNotFoundError,
    UnsafePathError,
)
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from deltaberg.table.read.scan import bound_scan
from tests.storage.conftest import Bucket
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import Road
from tests.support.rows import ID, ids, ids_of

_NAMES = ["a b.parquet", "100%.parquet", "x=1+2&3.parquet", "ü/日本.parquet", "p=a%3Ab/q.parquet", "#?.parquet"]
_PARTITIONS = ["a/b", "c:d e", "%41", "é", None, "+"]


@pytest.fixture
def odd(builder: DeltaBuilder) -> Path:
    """A table with deletion vectors, odd paths, odd partition values and a checkpoint."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    adds = [
        builder.add(
            ids(10 * number, 10 * number + 1, 10 * number + 2),
            path=name,
            partition={"p": value},
            stats="full",
            vector=builder.vector([1], "u", prefix="d v" if number % 2 else ""),
        )
        for number, (name, value) in enumerate(zip(_NAMES, _PARTITIONS, strict=True))
    ]
    builder.create(schema, *adds[:3], partition_by=["p"], protocol=builder.features("deletionVectors"))
    builder.checkpoint(pointer=True)
    builder.commit(*adds[3:])
    return builder.root


_IDS = [10 * number + rest for number in range(len(_NAMES)) for rest in (0, 2)]


def test_vectors_and_odd_paths(bucket: Bucket, odd: Path, road: Road) -> None:
    table = open_table(bucket.upload(odd, "my tables/t%1"), "delta", storage_options=bucket.options)
    assert table.version == 1
    assert road.column(table.scan(), "id") == _IDS
    assert road.rows(table.scan("p = 'a/b'")) == [{"id": 0, "p": "a/b"}, {"id": 2, "p": "a/b"}]
    assert table.scan("id > 40").files().num_rows == 2


def test_time_travel_history_and_changes(bucket: Bucket, odd: Path) -> None:
    url = bucket.upload(odd, "t")
    table = open_table(url + "/", "delta", storage_options=bucket.options)
    assert [commit.version for commit in table.history()] == [1, 0]
    assert ids_of(open_table(url, "delta", storage_options=bucket.options, version=0)) == _IDS[:6]
    assert sorted(table.changes(1, derived=True).to_arrow()["id"].to_pylist()) == _IDS[6:]


def test_refresh_asks_only_for_what_is_new(s3: Bucket, builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    table = open_table(s3.upload(builder.root, "t"), "delta", storage_options=s3.options)
    before = table.scan()
    builder.commit(builder.add(ids(2)))
    s3.upload(builder.root, "t")
    assert table.refresh() is table
    assert (table.version, ids_of(table)) == (1, [1, 2])
    assert before.to_arrow()["id"].to_pylist() == [1]


def test_absolute_paths_stay_on_their_store(s3: Bucket, builder: DeltaBuilder) -> None:
    inside = builder.add(ids(1), path="f.parquet", log_path=f"{s3.url}/t/f.parquet")
    elsewhere = builder.add(ids(2), path="other/g.parquet", log_path=f"{s3.url}/t/other/g.parquet")
    builder.create(ID, inside, elsewhere)
    assert ids_of(open_table(s3.upload(builder.root, "t"), storage_options=s3.options)) == [1, 2]


@pytest.mark.parametrize("place", ["s3://another-bucket/f.parquet", "http://example.invalid/f.parquet", "/etc/passwd"])
def test_credentials_go_nowhere_else(s3: Bucket, builder: DeltaBuilder, place: str) -> None:
    builder.create(ID, builder.add(ids(1), path="f.parquet", log_path=place))
    table = open_table(s3.upload(builder.root, "t"), storage_options=s3.options)
    with pytest.raises((DataFileNotFoundError, UnsafePathError), match="location_map"):
        table.scan().to_arrow()


def test_a_moved_table_is_mapped(s3: Bucket, builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), path="f.parquet", log_path="hdfs://namenode:8020/old/t/f.parquet"))
    url = s3.upload(builder.root, "t")
    table = open_table(url, storage_options=s3.options, location_map={"hdfs://namenode:8020/old": s3.url})
    assert ids_of(table) == [1]


def test_no_table_and_no_bucket(bucket: Bucket) -> None:
    with pytest.raises(TableNotFoundError, match="nothing-here"):
        open_table(f"{bucket.url}/nothing-here", storage_options=bucket.options)
    with pytest.raises(StorageError) as caught:
        open_table(f"{bucket.url}-no-bucket/t", storage_options={**bucket.options, "max_retries": "0"})
    assert "no-bucket" in str(caught.value)


def test_a_file_that_is_gone(bucket: Bucket, odd: Path) -> None:
    import obstore

    url = bucket.upload(odd, "t")
    table = open_table(url, storage_options=bucket.options)
    obstore.delete(bucket.store(), "t/a b.parquet")
    with pytest.raises(DataFileNotFoundError, match=r"a b\.parquet"):
        table.scan().to_arrow()


def test_wrong_credentials(azure: Bucket, builder: DeltaBuilder) -> None:
    builder.create(ID)
    url = azure.upload(builder.root, "t")
    wrong = {**azure.options, "azure_storage_account_key": "d3Jvbmcga2V5", "max_retries": "0"}
    with pytest.raises(StorageError) as caught:
        open_table(url, storage_options=wrong)
    assert "d3Jvbmcga2V5" not in str(caught.value)


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    options = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_REGION": "x",
        "max_retries": "0",
    }
    with pytest.raises(StorageError) as caught:
        open_table("s3://bucket/t", storage_options=options)
    assert "s3://bucket" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_secrets_are_not_shown(s3: Bucket, odd: Path) -> None:
    table = open_table(s3.upload(odd, "t"), storage_options=s3.options)
    scan = table.scan("id > 5")
    shown = [
        repr(table),
        repr(scan),
        scan.explain(),
        repr(bound_scan(scan).read_spec),
        repr(bound_scan(scan).source),
        str(bound_scan(scan).plan),
    ]
    assert not [text for text in shown if "secret-s3" in text]


def test_spellings_of_pyiceberg(s3: Bucket, odd: Path) -> None:
    url = s3.upload(odd, "t")
    options = {
        "s3.endpoint": s3.options["AWS_ENDPOINT_URL"],
        "s3.region": "us-east-1",
        "s3.access-key-id": "k",
        "s3.secret-access-key": "secret-s3",
        "s3.path-style-access": "true",
    }
    for scheme in ("s3", "s3a", "s3n"):
        table = open_table(url.replace("s3://", f"{scheme}://"), storage_options=options)
        assert ids_of(table) == _IDS


def test_options_of_the_environment(s3: Bucket, odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = s3.upload(odd, "t")
    for name, value in s3.options.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert ids_of(open_table(url)) == _IDS


def test_odd_options_are_refused() -> None:
    for options in ({"AWS_ALLOW_HTTP": "perhaps"}, {"max_retries": "many"}, {"s3.nonsense": "1"}):
        with pytest.raises(InvalidArgumentError, match="storage option"):
            open_table("s3://bucket/t", storage_options=options)


def test_scans_travel_without_clients(s3: Bucket, odd: Path) -> None:
    table = open_table(s3.upload(odd, "t"), storage_options=s3.options)
    spec = pickle.loads(pickle.dumps(bound_scan(table.scan()).read_spec))
    assert spec.store.options == s3.options


def _ids_in_a_child(url: str, options: dict[str, str], results: Any) -> None:
    try:
        results.put(ids_of(DeltaTable(url, storage_options=options)))
    except DeltabergError as error:
        results.put(f"{type(error).__name__}: {error}")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(s3: Bucket, odd: Path, method: str) -> None:
    url = s3.upload(odd, "t")
    assert ids_of(open_table(url, storage_options=s3.options)) == _IDS
    context = multiprocessing.get_context(method)
    results = context.Queue()
    # A daemon, so that the end of the tests does not wait for it if it never ends.
    child = context.Process(target=_ids_in_a_child, args=(url, s3.options, results), daemon=True)  # type: ignore[attr-defined]
    child.start()
    answer = results.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    if method == "spawn":
        assert answer == _IDS
    else:
        assert "StorageError" in answer
        assert "spawn" in answer


def test_memory(odd: Path) -> None:
    location = parse_location("memory://tests/t")
    store = open_store(location)
    for path in odd.rglob("*"):
        if path.is_file():
            store.put(f"t/{path.relative_to(odd).as_posix()}", path.read_bytes())
    table = open_table("memory://tests/t")
    assert ids_of(table) == _IDS


def test_listing_starts_at_an_offset(s3: Bucket, builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    import obstore

    builder.create(ID, builder.add(ids(0)))
    for number in range(1, 12):
        builder.commit(builder.add(ids(number)))
    builder.checkpoint(10, pointer=True)
    url = s3.upload(builder.root, "t")
    offsets = []
    original = obstore.list

    def recorded(store: Any, prefix: str, *, offset: str | None = None, **rest: Any) -> Any:
        offsets.append(offset)
        return original(store, prefix, offset=offset, **rest)

    monkeypatch.setattr(obstore, "list", recorded)
    table = open_table(url, format="delta", storage_options=s3.options)
    assert ids_of(table) == list(range(12))
    assert len(offsets) == 1
    assert offsets[0] is not None
    assert f"t/_delta_log/{9:020d}.json" < offsets[0] < f"t/_delta_log/{10:020d}.json"
