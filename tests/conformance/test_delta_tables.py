"""Delta tables that other engines wrote: rows and log state of the newest and of every older version, by every road."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from deltaberg import DeltaTable, open_table
from deltaberg.delta.data.deletion_vectors import unique_id
from deltaberg.errors import DeltabergError, TableNotFoundError
from deltaberg.storage.location import decode_path
from tests.support.canon import digest
from tests.support.roads import Road
from tests.support.shared import shared_directory

#: Tables of which Spark's own reader does not give exactly the rows, and why.
BY_ARROW = {
    "golden--kernel-timestamp-TIMESTAMP_MILLIS": "the column time is of type timestamp, but .* in the file",
    "golden--parquet-all-types-legacy-format": "the column array_of_prims has an old layout",
    "golden--parquet-decimal-dictionaries-v2": "it is encoded by DELTA_BINARY_PACKED",
    "golden--spark-variant-checkpoint": "the column v is of type variant",
    "golden--type-widening": "the column byte_long is of type long, but int8 in the file",
    "golden--type-widening-nested": "the column struct.a is of type long, but int32 in the file",
    "golden-hive--deltatbl-map-types-correctly": "its dates may be of the hybrid Julian calendar",
}

#: Tables of which the files that a log names are not all there, or not as it says, and what is found.
NOT_WHOLE: dict[str, dict[str, int]] = {}

_COUNTS = {"local": 0, "spark": 0}


@cache
def _index() -> dict[str, dict[str, Any]]:
    shared = shared_directory()
    if shared is None:
        return {}
    index = json.loads((shared / "conformance" / "index.json").read_text(encoding="utf-8"))
    return {name: entry for name, entry in index.items() if entry["format"] == "delta"}


def _names(expect: str) -> list[str]:
    return [name for name, entry in _index().items() if entry["expect"] == expect]


def _with_versions() -> list[str]:
    return [name for name, entry in _index().items() if entry.get("versions")]


def _state(table: DeltaTable) -> tuple[int, str]:
    """Return the number of live files, and the hash of their paths and deletion vectors."""
    live = table._snapshot.live.table
    vectors = (unique_id(vector) for vector in live.column("deletionVector").to_pylist())
    paths = [
        decode_path(path) + (f"|{vector}" if vector else "")
        for path, vector in zip(live.column("path").to_pylist(), vectors, strict=True)
    ]
    return len(paths), hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()


def test_the_index_is_there(conformance: Path) -> None:
    assert (len(_names("rows")), len(_names("log")), len(_names("error"))) == (92, 10, 10)
    assert len(_with_versions()) == 46


@pytest.mark.parametrize("name", _names("rows"))
def test_newest_version(name: str, conformance: Path, road: Road) -> None:
    entry = _index()[name]
    if "variant" in name and road.is_spark_3:
        _COUNTS[road.name] += 1
        pytest.skip("Spark 3.5 has no variants")
    table = open_table(conformance / entry["dir"], "delta")
    assert table.version == entry["state"]["version"]
    assert _state(table) == (entry["state"]["files"], entry["state"]["paths_sha256"])
    found = road.table(table.scan())
    assert found.num_rows == entry["rows"]
    assert digest(found) == entry["sha256"]
    road.assert_native(BY_ARROW.get(name))
    _COUNTS[road.name] += 1


@pytest.mark.req("DL-OPS-11")
@pytest.mark.parametrize("name", _names("rows"))
def test_all_that_they_name_is_there(name: str, conformance: Path) -> None:
    table = open_table(conformance / _index()[name]["dir"], "delta")
    assert table.verify(depth="footers").counts == NOT_WHOLE.get(name, {})


@pytest.mark.parametrize("name", _with_versions())
def test_older_versions(name: str, conformance: Path) -> None:
    entry = _index()[name]
    for version, expected in entry["versions"].items():
        table = open_table(conformance / entry["dir"], "delta", version=int(version))
        assert _state(table) == (expected["files"], expected["paths_sha256"]), version
        if "sha256" in expected:
            # These hashes were made over the bytes of variants, not over their JSON.
            assert digest(table.scan().to_arrow(), variants=False) == expected["sha256"], version


@pytest.mark.parametrize("name", _names("log"))
def test_log_without_files(name: str, conformance: Path) -> None:
    entry = _index()[name]
    table = open_table(conformance / entry["dir"], "delta")
    state = entry["state"]
    assert table.version == state["version"]
    assert _state(table) == (state["files"], state["paths_sha256"])


@pytest.mark.parametrize("name", _names("error"))
def test_refusal(name: str, conformance: Path) -> None:
    entry = _index()[name]
    with pytest.raises(DeltabergError) as raised:
        open_table(conformance / entry["dir"])
    words = entry["expected_text"].lower()
    if "not a delta table" in words:
        assert isinstance(raised.value, TableNotFoundError)
    else:
        wanted = {"no metadata": "no metadata", "no protocol": "no protocol", "reader version 99": "reader version 99"}
        clue = next((said for key, said in wanted.items() if key in words), "version 1 is missing")
        assert clue in str(raised.value).lower()


def test_every_table_was_read_by_every_road(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    """Print how many tables each road read; the tests above have run before."""
    chosen = [item.name for item in request.session.items if item.name.startswith("test_newest_version[")]
    if not chosen:
        pytest.skip("it counts what the tests of the newest versions read, which were not chosen")
    for road in ("local", "spark"):
        names = [name for name in chosen if f"[{road}-" in name or f"-{road}]" in name]
        assert _COUNTS[road] == len(names), f"{road}: of {len(names)} chosen tables {_COUNTS[road]} were read"
    assert sum(_COUNTS.values()) == len(chosen)
    with capsys.disabled():
        print(f"\nDelta conformance tables read: {_COUNTS['local']} locally, {_COUNTS['spark']} through Spark")
