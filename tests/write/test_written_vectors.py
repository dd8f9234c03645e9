"""Deletion vectors as they are written: in the log, and several to a file."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, kernels
from deltaberg.delta.actions.log_action import LogAction
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
from tests.support.rows import ID, ids, ids_of

_SIX, _TWO = [3, 4, 7, 11, 18, 29], [0, 9]
_MAGIC = 4


def _write(root: Path, *several: Sequence[int], inline: int | None = None) -> list[dict[str, Any]]:
    place = parse_location(root)
    with VectorWriter(open_store(place), place, inline=inline) as writer:
        return [writer.add(pa.array(positions, pa.uint64())) for positions in several]


def _read(root: Path, descriptor: dict[str, Any]) -> list[int]:
    place = parse_location(root)
    (found,) = locate_vectors(pa.array([descriptor], DELETION_VECTOR), PathResolver(place)).to_pylist()
    positions: list[int] = kernels.bitmap_positions(
        load_bitmap(BitmapRef(**found), StoreSpec(), True), 1 << 20
    ).to_pylist()
    return positions


@pytest.mark.req("DL-DV-09", "DL-DV-13", half="writer")
@pytest.mark.req("DL-DV-14", half="writer")
@pytest.mark.req("DL-DV-06", half="writer")
def test_in_the_log(tmp_path: Path) -> None:
    six, two = _write(tmp_path, _SIX, _TWO)
    assert six == {
        "storageType": "i",
        "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 44,
        "cardinality": 6,
    }
    assert (two["sizeInBytes"], two["cardinality"]) == (36, 2)
    assert list(tmp_path.iterdir()) == []
    assert [_read(tmp_path, one) for one in (six, two)] == [_SIX, _TWO]
    # The limit is the size of the last vector that the log holds.
    places = [_write(tmp_path, _SIX, inline=limit)[0]["storageType"] for limit in (43, 44)]
    assert places == ["u", "i"]
    # A length that is no multiple of four is padded, and the descriptor says how much counts.
    (odd,) = _write(tmp_path, [1])
    assert odd["sizeInBytes"] % 4 != 0
    assert len(odd["pathOrInlineDv"]) == -(-odd["sizeInBytes"] // 4) * 5
    assert _read(tmp_path, odd) == [1]


@pytest.mark.req("DL-DV-12", "DL-DV-21", half="writer")
@pytest.mark.req("DL-DV-24", half="writer")
@pytest.mark.req("DL-DV-07", half="writer")
def test_in_a_file(tmp_path: Path) -> None:
    six, two = _write(tmp_path, _SIX, _TWO, inline=0)
    assert (six["storageType"], six["offset"], six["sizeInBytes"], six["cardinality"]) == ("u", 1, 44, 6)
    assert (two["pathOrInlineDv"], two["offset"]) == (six["pathOrInlineDv"], 53)
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    assert len(data) == 97
    assert data[49:53] == bytes.fromhex("ac d7 4a 79")
    identity = uuid.UUID(bytes=kernels.z85_decode(six["pathOrInlineDv"]))
    assert len(six["pathOrInlineDv"]) == 20
    assert file.name == f"deletion_vector_{identity}.bin"
    assert [_read(tmp_path, one) for one in (six, two)] == [_SIX, _TWO]
    (alone,) = _write(tmp_path, _TWO, inline=0)
    (file,) = set(tmp_path.iterdir()) - {file}
    body = "d1 d3 39 64 01 00 00 00 00 00 00 00 00 00 00 00 3a 30 00 00 01 00 00 00 00 00 01 00 10 00 00 00 00 00 09 00"
    assert file.read_bytes() == bytes.fromhex("01 00 00 00 24" + body + "2a 67 18 46")
    assert alone["offset"] == 1


def test_the_log_stays_small(tmp_path: Path) -> None:
    many = [[number, number + 70_000] for number in range(1000)]
    found = _write(tmp_path, *many)
    inline = [one for one in found if one["storageType"] == "i"]
    assert 0 < len(inline) < 1000
    assert sum(one["sizeInBytes"] for one in inline) <= 16 << 10
    assert [_read(tmp_path, one) for one in found[::100]] == many[::100]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    place = parse_location(tmp_path)

    def fail() -> None:
        with VectorWriter(open_store(place), place, inline=0) as writer:
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
    (vector,) = _write(builder.root, _TWO)
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
