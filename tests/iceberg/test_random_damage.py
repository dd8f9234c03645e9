"""Metadata and delete files damaged at random: reading raises one of our exceptions or returns rows of the table.

pyarrow decodes Parquet and ORC files, and may end the process on damaged ones. They are damaged in other tests.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from deltaberg import open_table
from deltaberg.errors import DeltabergError
from deltaberg.files.read import deletes
from deltaberg.files.read.delete_cache import KeptReads
from tests.support.iceberg_builder import IcebergBuilder


@pytest.fixture
def builder(tmp_path: Path) -> IcebergBuilder:
    """A table with deletes of every kind, all of it in Avro and Puffin."""
    spec = [{"source-id": 2, "name": "s", "transform": "identity"}]
    table = IcebergBuilder(tmp_path / "t", {"id": "long", "s": "string"}, format_version=3, specs=[spec])
    files = [
        table.data([{"id": 10 * at + n, "s": "x"} for n in range(10)], format="avro", partition={"s": "x"})
        for at in range(3)
    ]
    table.commit(*files)
    table.commit(
        table.position_deletes([(files[0], 3)], format="avro"),
        table.equality_deletes([1], [{"id": 15}], format="avro", partition={"s": "x"}),
        *table.deletion_vectors({files[2].path: [1, 9]}, {"s": "x"}),
    )
    return table


def _damaged(whole: bytes, rng: random.Random) -> bytes:
    data = bytearray(whole)
    place = rng.randrange(len(data))
    kind = rng.randrange(4)
    if kind == 0:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[place] = rng.randrange(256)
    elif kind == 2:
        del data[place:]
    else:
        data[place : place + rng.randrange(1, 40)] = bytes(rng.randrange(20))
    return bytes(data)


@pytest.mark.parametrize("pattern", ["metadata/m*.avro", "metadata/snap-*.avro", "data/*.puffin", "data/*.avro"])
def test_damaged_files(
    builder: IcebergBuilder, rng: random.Random, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    paths = sorted(builder.root.glob(pattern))
    raised = 0
    for _ in range(80):
        path = rng.choice(paths)
        whole = path.read_bytes()
        path.write_bytes(_damaged(whole, rng))
        monkeypatch.setattr(deletes, "_kept", KeptReads())
        try:
            table = open_table(builder.root)
            table.scan("id > 4 and s = 'x'").to_arrow()
            table.scan(columns=["id", "_pos", "_row_id"]).to_arrow()
        except DeltabergError:
            raised += 1
        path.write_bytes(whole)
    assert raised > 2
    monkeypatch.setattr(deletes, "_kept", KeptReads())
    found = open_table(builder.root).scan().to_arrow().column("id").to_pylist()
    assert sorted(found) == [n for n in range(30) if n not in (3, 15, 21, 29)]
