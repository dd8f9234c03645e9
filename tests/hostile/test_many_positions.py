"""Vectors and delete files that name billions of rows in a few bytes are refused before anybody expands them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptDeletionVectorError, TooLargeError
from deltaberg.files.read import deletes
from tests.support.delta_builder import DeltaBuilder
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.vectors import dv_file, full_bitmap

#: All rows but the first, which is there for the verbs to change.
_VECTOR = struct.pack("<I", 1681511377) + full_bitmap(first=1)
_DELETED = (1 << 32) - 1
_ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def _delta(root: Path, recorded: int, rows: int | None) -> None:
    """Make a table of one file: how many rows its vector has, and how many itself, are ``recorded`` and ``rows``."""
    builder = DeltaBuilder(root)
    vector = builder.vector([1]) | {"sizeInBytes": len(_VECTOR), "cardinality": recorded}
    next(root.glob("*.bin")).write_bytes(dv_file([_VECTOR])[0])
    stats = "none" if rows is None else {"numRecords": rows}
    added = builder.add(_ROWS, vector=vector, stats=stats)
    builder.create(
        _ROWS.schema,
        added,
        protocol=builder.features("deletionVectors"),
        configuration={"delta.enableDeletionVectors": "true"},
    )


def _iceberg(root: Path, recorded: int, rows: int | None) -> None:
    builder = IcebergBuilder(root, {"id": "long"}, format_version=3)
    file = builder.data([{"id": 1}, {"id": 2}, {"id": 3}])
    (vector,) = builder.deletion_vectors({file.path: [1]})
    blob = struct.pack(">i", len(_VECTOR)) + _VECTOR + struct.pack(">I", zlib.crc32(_VECTOR))
    path = Path(vector.path)
    path.write_bytes(b"PFA1" + blob + path.read_bytes()[4:])
    vector.size, vector.rows = path.stat().st_size, recorded
    vector.more |= {"content_offset": 4, "content_size_in_bytes": len(blob)}
    file.rows = file.rows if rows is None else rows
    builder.commit(file, vector)


_VERBS: dict[str, Callable[[Any, str], object]] = {
    "delete": lambda table, strategy: table.delete("id = 1", strategy=strategy),
    "update": lambda table, strategy: table.update({"id": "7"}, "id = 1", strategy=strategy),
    "merge": lambda table, strategy: (
        table.merge(pa.table({"id": [1]}), "target.id = source.id", strategy=strategy).when_matched_delete().execute()
    ),
}


@pytest.mark.parametrize("verb", _VERBS)
@pytest.mark.parametrize(
    ("recorded", "rows", "kind"),
    [
        (_DELETED, 3, CorruptDeletionVectorError),
        (_DELETED, None, CorruptDeletionVectorError),
        (1, 3, CorruptDeletionVectorError),
        (_DELETED, 1 << 40, TooLargeError),
    ],
    ids=["more than the file", "a file of unknown length", "more than recorded", "lies everywhere"],
)
@pytest.mark.parametrize("make", [_delta, _iceberg])
def test_a_vector(
    tmp_path: Path, make: Callable[[Path, int, int | None], None], recorded: int, rows: int | None, kind: Any, verb: str
) -> None:
    make(tmp_path / "t", recorded, rows)
    table = open_table(tmp_path / "t")
    before = sorted((tmp_path / "t").rglob("*"))
    with pytest.raises(kind, match=r"has [0-9]+ (rows|positions)") as caught:
        _VERBS[verb](table, "merge-on-read")
    assert "deletion_vector: " in str(caught.value) or "file: " in str(caught.value)
    assert kind is CorruptDeletionVectorError or "copy-on-write" in str(caught.value)
    assert sorted((tmp_path / "t").rglob("*")) == before
    # A mask of the rows of the file is all that a reader makes of it.
    assert table.scan().to_arrow().to_pydict() == {"id": [1]}


@pytest.mark.parametrize("kind", ["position", "equality"])
def test_a_delete_file(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal or ascending numbers are a few bytes of Parquet, however many they are."""
    builder = IcebergBuilder(tmp_path, {"id": "long"})
    file = builder.data([{"id": 1}, {"id": 2}])
    made_deletes = (
        builder.position_deletes([(file, 1)]) if kind == "position" else builder.equality_deletes([1], [{"id": 2}])
    )
    path = Path(made_deletes.path)
    monkeypatch.setattr(deletes, "_MOST_ROWS", 1 << 16)
    pq.write_table(pq.read_table(path).take(pa.array([0] * ((1 << 16) + 1))), path)
    assert path.stat().st_size < 1 << 16
    made_deletes.size = path.stat().st_size
    builder.commit(file)
    builder.commit(made_deletes)
    with pytest.raises(TooLargeError, match="a delete file has") as caught:
        open_table(tmp_path).scan().to_arrow()
    assert str(path) in str(caught.value)
    assert "rewrite" in str(caught.value)
