"""Deletion vectors that would fill the memory are refused by changes, as scans never had to hold them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from pyroaring import BitMap64

from deltaberg import DeltaTable
from deltaberg.errors import CorruptDeletionVectorError
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of
from tests.support.vectors import bitmap_bytes, z85

_MAGIC = struct.unpack("<I", bitmap_bytes([0])[:4])[0]
_ALL = 1 << 32


def _vector_of_everything(cardinality: int) -> dict[str, Any]:
    """Return a vector of four billion rows in less than a megabyte."""
    bitmap = BitMap64()
    bitmap.add_range(2, _ALL)
    bitmap.run_optimize()
    body = struct.pack("<I", _MAGIC) + bytes(bitmap.serialize())
    assert len(body) < 1 << 20
    return {"storageType": "i", "pathOrInlineDv": z85(body), "sizeInBytes": len(body), "cardinality": cardinality}


@pytest.mark.parametrize("cardinality", [_ALL - 2, 1])
@pytest.mark.parametrize("change", ["delete", "update", "merge"])
def test_a_vector_of_more_rows_than_its_file_is_refused(builder: DeltaBuilder, change: str, cardinality: int) -> None:
    builder.create(
        ID,
        builder.add(ids(1, 2, 3), stats={"numRecords": 3}, vector=_vector_of_everything(cardinality)),
        configuration={"delta.enableDeletionVectors": "true"},
        protocol=builder.features("deletionVectors"),
    )
    table = DeltaTable(builder.root)
    assert ids_of(table) == [1, 2]
    changes: dict[str, Callable[[], object]] = {
        "delete": lambda: table.delete("id = 1"),
        "update": lambda: table.update({"id": "id + 10"}, "id = 1"),
        "merge": lambda: table.merge(ids(1), "target.id = source.id").when_matched_delete().execute(),
    }
    with pytest.raises(CorruptDeletionVectorError, match="the deletion vector has"):
        changes[change]()
    assert (DeltaTable(builder.root).version, ids_of(table)) == (0, [1, 2])
