"""Random deletes of both kinds, compared with models that follow the specification word for word."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.iceberg.deletes.index import apply_deletes
from tests.support.effort import tries
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile

_FORMATS = ("parquet", "avro", "orc")
_KEYS = 12


class _Delete(NamedTuple):
    content: int
    group: int
    sequence: int
    names: str | None
    is_global: bool
    is_vector: bool
    only: str | None


def _applies(delete: _Delete, path: str, group: int, sequence: int, has_vector: bool, paths: Sequence[str]) -> bool:
    """Return which delete files apply, following the specification rule by rule."""
    if delete.content == 2:
        return sequence < delete.sequence and (delete.is_global or delete.group == group)
    if delete.is_vector:
        return delete.names == path and sequence <= delete.sequence
    if has_vector or sequence > delete.sequence:
        return False
    if delete.names is not None:
        return delete.names == path
    return delete.group == group and (delete.only not in paths or delete.only == path)


@pytest.mark.thorough
@pytest.mark.req("ICE-SCAN-12")
def test_random_deletes_and_files_against_the_rules(rng: random.Random) -> None:
    for _ in range(tries(1000)):
        files = [(f"f{number}", rng.randrange(3), rng.randrange(5)) for number in range(rng.randrange(6))]
        paths = [path for path, _, _ in files]
        deletes = []
        vectors = set()
        for _ in range(rng.randrange(8)):
            content, names = rng.choice([1, 2]), rng.choice([None, *paths, "other"])
            is_vector = content == 1 and names is not None and names not in vectors and rng.random() < 0.3
            if is_vector:
                vectors.add(names)
            is_global = rng.random() < 0.3
            only = rng.choice([None, *paths, "f", "other"])
            deletes.append(_Delete(content, rng.randrange(3), rng.randrange(6), names, is_global, is_vector, only))
        data = pa.table(
            {
                "file_path": pa.array([file[0] for file in files], pa.string()),
                "group": pa.array([file[1] for file in files], pa.int64()),
                "sequence_number": pa.array([file[2] for file in files], pa.int64()),
            }
        )
        table = pa.table(
            {
                "group": pa.array([delete.group for delete in deletes], pa.int64()),
                "sequence_number": pa.array([delete.sequence for delete in deletes], pa.int64()),
                "content": pa.array([delete.content for delete in deletes], pa.int32()),
                "file_format": ["puffin" if delete.is_vector else "parquet" for delete in deletes]
                or pa.array([], "str"),
                "referenced_data_file": pa.array([delete.names for delete in deletes], pa.string()),
                "only_path": pa.array([delete.only for delete in deletes], pa.string()),
                "is_global": pa.array([delete.is_global for delete in deletes], pa.bool_()),
            }
        )
        applied = apply_deletes(data, table)
        for number, (path, group, sequence) in enumerate(files):
            vector: list[int | None] = [
                at
                for at, delete in enumerate(deletes)
                if delete.is_vector and _applies(delete, path, group, sequence, True, paths)
            ]
            expected = [
                at
                for at, delete in enumerate(deletes)
                if not delete.is_vector and _applies(delete, path, group, sequence, bool(vector), paths)
            ]
            assert [applied.vector[number].as_py()] == (vector or [None])
            got = applied.deletes[number].as_py() or []
            assert sorted(got) == expected, (files, deletes)
            ages = [-deletes[at].sequence for at in got if deletes[at].content == 2]
            assert ages == sorted(ages), (files, deletes)


class _Live(NamedTuple):
    file: IcebergFile
    ids: list[int]
    sequence: int


class _Model:
    """A table, and everything that was done to it."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.rng = rng
        self.version = rng.choice([2, 3])
        by_a = [{"source-id": 2, "name": "a", "transform": "identity"}]
        self.builder = IcebergBuilder(
            root, {"id": "long", "a": "string"}, format_version=self.version, specs=[by_a, ()]
        )
        self.live: list[_Live] = []
        #: (sequence, path, position, whether it is of a deletion vector)
        self.positions: list[tuple[int, str, int, bool]] = []
        #: (sequence, partition or all, keys)
        self.keys: list[tuple[int, str | None, set[int]]] = []

    def commit(self) -> None:
        """Add files and deletes."""
        sequence = self.builder.sequence + 1
        new = [self._data(sequence) for _ in range(self.rng.randrange(3))]
        vectors = {path for _, path, _, is_vector in self.positions if is_vector}
        plain = [found for found in self.live if found.file.path not in vectors]
        if plain and self.rng.random() < 0.7:
            new.append(self._position_deletes(plain, sequence))
        if plain and self.version == 3 and self.rng.random() < 0.5:
            one = self.rng.choice(plain)
            chosen = self.rng.sample(range(len(one.ids)), self.rng.randrange(1, len(one.ids) + 1))
            new += self.builder.deletion_vectors({one.file.path: chosen}, one.file.partition)
            self.positions += [(sequence, one.file.path, pos, True) for pos in chosen]
        if self.rng.random() < 0.6:
            new.append(self._equality_deletes(sequence))
        self.builder.commit(*new)

    def _data(self, sequence: int) -> IcebergFile:
        a = self.rng.choice("xy")
        ids = [self.rng.randrange(_KEYS) for _ in range(self.rng.randrange(1, 8))]
        rows = [{"id": number, "a": a} for number in ids]
        file = self.builder.data(rows, partition={"a": a}, format=self.rng.choice(_FORMATS), row_group_size=3)
        self.live.append(_Live(file, ids, sequence))
        return file

    def _position_deletes(self, plain: list[_Live], sequence: int) -> IcebergFile:
        a = self.rng.choice(plain).file.partition
        inside = [found for found in plain if found.file.partition == a]
        pairs = [(found.file, self.rng.randrange(len(found.ids))) for found in self.rng.choices(inside, k=3)]
        self.positions += [(sequence, file.path, pos, False) for file, pos in pairs]
        return self.builder.position_deletes(pairs, format=self.rng.choice(_FORMATS))

    def _equality_deletes(self, sequence: int) -> IcebergFile:
        keys = {self.rng.randrange(_KEYS) for _ in range(self.rng.randrange(1, 4))}
        a = self.rng.choice(["x", "y", None])
        self.keys.append((sequence, a, keys))
        place: dict[str, Any] = {"spec_id": 1} if a is None else {"partition": {"a": a}}
        rows = [{"id": number} for number in keys]
        return self.builder.equality_deletes([1], rows, format=self.rng.choice(_FORMATS), **place)

    def rows(self, last: int) -> list[tuple[int, str]]:
        """Return the rows of the snapshot with a sequence number."""
        left = []
        for file, ids, sequence in self.live:
            a = file.partition["a"]
            mine = [entry for entry in self.positions if entry[1] == file.path and sequence <= entry[0] <= last]
            if any(is_vector for *_, is_vector in mine):
                mine = [entry for entry in mine if entry[3]]
            gone = {pos for _, _, pos, _ in mine}
            keys = {
                key
                for number, where, some in self.keys
                if sequence < number <= last and where in (None, a)
                for key in some
            }
            if sequence <= last:
                left += [(key, a) for pos, key in enumerate(ids) if pos not in gone and key not in keys]
        return sorted(left)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.req("ICE-SCAN-12")
def test_scans_of_random_tables(tmp_path: Path, rng: random.Random) -> None:
    """Every snapshot is read with filters and splits of all kinds, from tables of three formats."""
    cases = tables = 0
    while cases < tries(1000):
        tables += 1
        model = _Model(tmp_path / str(tables), rng)
        for _ in range(rng.randrange(3, 7)):
            model.commit()
        for snapshot in model.builder.snapshots:
            table = open_table(model.builder.root, "iceberg", snapshot_id=snapshot["snapshot-id"])
            expected = model.rows(snapshot["sequence-number"])
            assert table.scan().count() == len(expected)
            for _ in range(6):
                low, a = rng.randrange(_KEYS), rng.choice(["x", "y", "z"])
                condition, matching = rng.choice(
                    [
                        ("id >= 0 or a is null", expected),
                        (f"id >= {low}", [row for row in expected if row[0] >= low]),
                        (f"id = {low}", [row for row in expected if row[0] == low]),
                        (f"a = '{a}'", [row for row in expected if row[1] == a]),
                        (f"a != '{a}' and id < {low}", [row for row in expected if row[1] != a and row[0] < low]),
                    ]
                )
                sizes: dict[str, Any] = {
                    "batch_size": rng.choice([2, 1000]),
                    "split_size": rng.choice([150, 1 << 30]),
                    "threads": 1,
                }
                found = table.scan(condition, ["a", "id"], **sizes).to_arrow().to_pylist()
                assert sorted((row["id"], row["a"]) for row in found) == matching, condition
                cases += 1
