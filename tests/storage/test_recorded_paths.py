"""What metadata records for a location leads back to it."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from deltaberg.errors import InvalidArgumentError, UnsafePathError
from deltaberg.storage.location import Location, PathResolver, parse_location

pytestmark = pytest.mark.one_backend

_ROOTS = ["/data/a table%20", "s3://bucket/ware house/#t?", "s3://bucket", "az://container/t", "memory://m/t", "/"]
_CHARACTERS = "ab /%25:#?+&=;@!$'()*,~é日\U0001f600\\\"<>[]{}|^`\x01\x7f-._"


def _names(rng: random.Random) -> list[str]:
    names = [
        "x.parquet",
        "p=a%2Fb/x y.parquet",
        "a:b/c",
        "http:/x",
        "file:/x",
        "%",
        "%41",
        "..x/y..",
        "_log/.x",
        "a?b#c",
    ]
    for _ in range(300):
        name = "".join(rng.choices(_CHARACTERS, k=rng.randint(1, 12)))
        parts = [part for part in name.split("/") if part not in ("", ".", "..")]
        if parts:
            names.append("/".join(parts))
    return names


@pytest.mark.parametrize("root", _ROOTS)
@pytest.mark.parametrize("encoded", [True, False])
def test_what_is_recorded_is_resolved(root: str, encoded: bool, rng: random.Random) -> None:
    resolver = PathResolver(parse_location(root), encoded=encoded)
    for name in _names(rng):
        place = resolver.root.join(name)
        recorded = resolver.record(place)
        assert resolver.resolve(recorded) == place, name
        if encoded:
            assert recorded.isascii()
            assert recorded.isprintable()
            assert " " not in recorded
            assert not recorded.startswith("/")
            # Nor can it be taken for a URI with a scheme.
            assert ":" not in recorded
        # Elsewhere in the same store: a clone, or another folder for data.
        other = resolver.root._replace(path=("/" if root.startswith("/") else "") + f"else where/{name}")
        assert resolver.resolve(resolver.record(other)) == other, name


@pytest.mark.parametrize(
    ("root", "base"),
    [
        ("/data/t", "file:///data/t"),
        ("/data/t", "file:/data/t/"),
        ("/data/t", "/data/t"),
        ("s3://bucket/t", "s3a://bucket/t"),
        ("abfs://c@account.dfs.core.windows.net/t", "abfss://c@account.dfs.core.windows.net/t/"),
    ],
)
def test_tables_keep_the_spelling_of_their_location(root: str, base: str, rng: random.Random) -> None:
    resolver = PathResolver(parse_location(root), encoded=False)
    for name in _names(rng):
        recorded = resolver.record(resolver.root.join(name), base)
        assert recorded == f"{base.rstrip('/')}/{name}"
        assert resolver.resolve(recorded) == resolver.root.join(name)


def test_paths_as_delta_writers_record_them() -> None:
    resolver = PathResolver(parse_location("/t"))
    for name, recorded in {
        "date=2024-01-01/part-0.snappy.parquet": "date=2024-01-01/part-0.snappy.parquet",
        "p=a%2Fb c/x.parquet": "p=a%252Fb%20c/x.parquet",
        "p=é+ü/x.parquet": "p=%C3%A9+%C3%BC/x.parquet",
    }.items():
        assert resolver.record(Location("file", "", f"/t/{name}")) == recorded
    assert resolver.record(Location("file", "", "/o her/x")) == "file:///o%20her/x"
    assert resolver.record(Location("s3", "b", "k y")) == "s3://b/k%20y"


def test_what_cannot_be_recorded() -> None:
    mapped = PathResolver(parse_location("/t"), {"/old": "/t"})
    with pytest.raises(InvalidArgumentError, match="location_map"):
        mapped.record(Location("file", "", "/t/x"))
    with pytest.raises(UnsafePathError, match="not valid Unicode"):
        PathResolver(parse_location("/t")).record(Location("file", "", "/t/\udcff"))


@pytest.mark.parametrize(
    ("path", "encoded"), [("a%00b", True), ("a\0b", False), ("file:///t/a\0b", False), ("../a", True)]
)
def test_paths_that_are_refused_are_named_with_their_table(path: str, encoded: bool) -> None:
    resolver = PathResolver(parse_location("/t"), encoded=encoded)
    with pytest.raises(UnsafePathError, match=r"contains (a zero byte|'\.\.')") as raised:
        resolver.locate(pa.chunked_array([["sound", path]]), "" if encoded else "/t/")
    assert raised.value.context == {"path": path, "table": "/t"}
    assert "\0" not in str(raised.value)
