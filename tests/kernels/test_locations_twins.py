"""Locations of recorded paths and fingerprints: both backends agree, and locations are those that paths resolve to."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError, UnsafePathError
from deltaberg.storage.location import PathResolver, parse_location
from tests.kernels.twins import Raised, backends, twins
from tests.support.effort import examples

_PIECES = [
    *("a", "b.parquet", "p=1", "ä", "😀", " ", "+", "&", "\\", "\x00"),
    *("/", "/", "//", "./", "../", ".", "..", "...", ":", ":/", "file:", "s3://bucket/t/", "s3a://bucket/"),
    *("%", "%2", "%20", "%2F", "%2f", "%2E", "%2e%2E/", "%25", "%2520", "%3A", "%C3%A4", "%C3", "%A4", "%zz", "%00"),
]
_paths = st.lists(st.sampled_from(_PIECES), max_size=8).map("".join)
_roots = st.sampled_from(["s3://bucket/t", "s3://bucket", "/t", "/", "memory://m/a b"])
_prefixes = st.sampled_from(["", "", "s3://bucket/t/", "/t/", "a/"])
_maps = st.sampled_from(
    [
        None,
        {"s3://bucket/t": "/here"},
        {"a": "/here"},
        {"/a": "/here", "s3a://bucket/p=1": "s3://other/x"},
        {"..": "/x"},
    ]
)


@examples(400)
@given(st.lists(_paths | st.none(), max_size=6), _prefixes, st.booleans(), st.integers(0, 2))
def test_locations(paths: list[str | None], prefix: str, encoded: bool, first: int) -> None:
    given_paths = pa.array(paths, pa.string()).slice(first)
    found = twins(lambda kernels: kernels.locate_paths(given_paths, prefix, "s3://bucket/ü/", encoded))
    assert len(found) == len(given_paths)
    for location in found.drop_null().to_pylist():
        assert location.startswith("s3://bucket/ü/")
        assert not {"", ".", ".."} & set(location[len("s3://bucket/ü/") :].split("/"))


@examples(400)
@given(st.lists(_paths, max_size=6), _roots, _maps, _prefixes, st.booleans(), st.booleans())
def test_locations_are_where_each_path_leads(
    paths: list[str], root: str, mapping: dict[str, str] | None, prefix: str, encoded: bool, any_store: bool
) -> None:
    resolver = PathResolver(parse_location(root), mapping, encoded, any_store)
    # Only Iceberg's paths begin with the location of the table, and they are not encoded.
    recorded = [path if encoded else prefix + path for path in paths]
    expected = _outcome(lambda: [str(resolver.resolve(path)) for path in recorded])
    columns = pa.chunked_array([recorded], pa.string())
    assert _outcome(lambda: resolver.locate(columns, "" if encoded else prefix).to_pylist()) == expected


def _outcome(work: Callable[[], list[str]]) -> list[str] | str:
    """Return what is found, or what the error says that refuses a path."""
    try:
        return work()
    except UnsafePathError as error:
        return f"{error.message}: {error.context['path']}"


@pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__)
def test_paths_that_need_more_than_joining(kernels: ModuleType) -> None:
    paths = ["p=a%20b/x", "/x", "S3://bucket/x", "a/%2E./x", "%C3", "", "./.", "./a//b/", "a:b", "./s3:%2Fx", None]
    found = kernels.locate_paths(pa.array(paths), "", "/t/", True)
    assert found.to_pylist() == ["/t/p=a b/x", *[None] * 6, "/t/a/b", "/t/a:b", None, None]


def test_only_text_is_located() -> None:
    found = twins(lambda kernels: kernels.locate_paths(pa.array([b"a"]), "", "/t/", True), messages=False)
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError


@examples(200)
@given(st.binary(max_size=200), st.integers(0, 199), st.integers(1, 255))
def test_fingerprints(data: bytes, place: int, change: int) -> None:
    found = twins(lambda kernels: kernels.fingerprint(data))
    assert 0 <= found < 1 << 64
    if place < len(data):
        other = bytes([*data[:place], data[place] ^ change, *data[place + 1 :]])
        assert twins(lambda kernels: kernels.fingerprint(other)) != found
