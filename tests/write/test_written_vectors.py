"""Deletion vectors as they are written: several to a file, and none in the log."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, kernels
from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.data import written_vectors
from deltaberg.delta.data.deletion_vectors import locate_vectors
from deltaberg.delta.data.written_vectors import VectorWriter
from deltaberg.errors import InvalidArgumentError
from deltaberg.files.read.bitmaps import load_bitmap
from deltaberg.files.read.task import BitmapRef
from deltaberg.kernels.results import DELETION_VECTOR
from deltaberg.storage.location import PathResolver, parse_location
from deltaberg.storage.stores import StoreSpec, open_store
from tests.support.below_verbs import begin
from tests.support.delta_builder import DeltaBuilder
from tests.support.log_entries import actions_at
from tests.support.rows import ID, ids, ids_of

_SIX, _TWO = [3, 4, 7, 11, 18, 29], [0, 9]


def _write(root: Path, *several: Sequence[int]) -> list[dict[str, Any]]:
    place = parse_location(root)
    with VectorWriter(open_store(place), place) as writer:
        return [writer.add(pa.array(positions, pa.uint64())) for positions in several]


def _read(root: Path, descriptor: dict[str, Any]) -> list[int]:
    place = parse_location(root)
    (found,) = locate_vectors(pa.array([descriptor], DELETION_VECTOR), PathResolver(place)).to_pylist()
    positions: list[int] = kernels.bitmap_positions(
        load_bitmap(BitmapRef(**found), StoreSpec(), True), 1 << 20
    ).to_pylist()
    return positions


@pytest.mark.req("DL-DV-12", "DL-DV-13", "DL-DV-14", "DL-DV-21", half="writer")
@pytest.mark.req("DL-DV-06", "DL-DV-07", "DL-DV-24", half="writer")
def test_in_a_file(tmp_path: Path) -> None:
    six, two = _write(tmp_path, _SIX, _TWO)
    rest = {name: value for name, value in six.items() if name != "pathOrInlineDv"}
    assert rest == {"storageType": "u", "offset": 1, "sizeInBytes": 44, "cardinality": 6}
    assert (two["sizeInBytes"], two["cardinality"]) == (36, 2)
    assert (two["pathOrInlineDv"], two["offset"]) == (six["pathOrInlineDv"], 53)
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    assert len(data) == 97
    assert data[49:53] == bytes.fromhex("ac d7 4a 79")
    identity = uuid.UUID(bytes=kernels.z85_decode(six["pathOrInlineDv"]))
    assert len(six["pathOrInlineDv"]) == 20
    assert file.name == f"deletion_vector_{identity}.bin"
    assert [_read(tmp_path, one) for one in (six, two)] == [_SIX, _TWO]
    (alone,) = _write(tmp_path, _TWO)
    (file,) = set(tmp_path.iterdir()) - {file}
    body = "d1 d3 39 64 01 00 00 00 00 00 00 00 00 00 00 00 3a 30 00 00 01 00 00 00 00 00 01 00 10 00 00 00 00 00 09 00"
    assert file.read_bytes() == bytes.fromhex("01 00 00 00 24" + body + "2a 67 18 46")
    assert alone["offset"] == 1


def test_the_smallest_ones_share_a_file(tmp_path: Path) -> None:
    """The VACUUM of delta-spark fails on a table of which a vector is in the log."""
    properties = {"delta.enableDeletionVectors": "true"}
    table = create_table(tmp_path / "t", ID, properties=properties)
    for first in (0, 10, 20):
        table.append(ids(*range(first, first + 10)))
    table.delete("id IN (1, 11, 21, 22)")
    vectors = [action["add"]["deletionVector"] for action in actions_at(tmp_path / "t", 4) if "add" in action]
    assert [vector["storageType"] for vector in vectors] == ["u", "u", "u"]
    assert len({vector["pathOrInlineDv"] for vector in vectors}) == 1
    assert len(list((tmp_path / "t").glob("*.bin"))) == 1
    assert ids_of(table) == [one for one in range(30) if one not in (1, 11, 21, 22)]


def test_a_full_file_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the first two has 97 bytes."""
    monkeypatch.setattr(written_vectors, "_FILE", 97)
    found = _write(tmp_path, _SIX, _TWO, _TWO)
    assert [one["offset"] for one in found] == [1, 53, 1]
    assert sorted(len(file.read_bytes()) for file in tmp_path.iterdir()) == [45, 97]
    assert [_read(tmp_path, one) for one in found] == [_SIX, _TWO, _TWO]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    place = parse_location(tmp_path)

    def fail() -> None:
        with VectorWriter(open_store(place), place) as writer:
            writer.add(pa.array(_SIX, pa.uint64()))
            writer.close()
            writer.add(pa.array(_TWO, pa.uint64()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("DL-DV-12", half="writer")
@pytest.mark.req("DL-DV-25")
def test_what_must_not_be_written(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(*range(10)), stats="full"), protocol=builder.features("deletionVectors"))
    table = DeltaTable(builder.root)
    vector = builder.vector(_TWO, "i")
    members = {**builder.add(ids(*range(10)), stats="full", path="other.parquet")["add"], "deletionVector": vector}

    def add(**changed: Any) -> None:
        with begin(table) as transaction:
            transaction.add_actions([LogAction("add", members).with_members(changed)])

    with pytest.raises(InvalidArgumentError, match="needs statistics with the number of its rows"):
        add(stats=None)
    with pytest.raises(InvalidArgumentError, match="has no offset"):
        add(deletionVector={**vector, "offset": 1})
    assert table.version == 0
    add()
    assert ids_of(table) == sorted([*range(10), *range(1, 9)])
    assert table.scan().count() == 18
