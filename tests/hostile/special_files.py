"""Tables of which one file is a named pipe, a device, a directory, a link to itself, or a sparse file of 50 GiB.

Run as a module, it reads each of them, and prints what came of it: the outcome, whether the error names the file, and
the most memory that the process took, in MiB.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from deltaberg import open_table
from deltaberg.errors import DeltabergError
from tests.support.delta_builder import DeltaBuilder
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.memory import peak_memory

__all__ = ["KINDS", "PLACES"]

_ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
_SIZE = 50 << 30


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        # Bytes at its start that let a reader go on.
        file.write(
            {".avro": b"Obj\x01", ".puffin": b"PFA1", ".parquet": b"PAR1", ".orc": b"ORC"}.get(path.suffix, b" ")
        )
        file.truncate(_SIZE)


#: What takes the place of the file.
KINDS: dict[str, Callable[[Path], None]] = {
    "named pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "directory": Path.mkdir,
    "link to itself": lambda path: path.symlink_to(path.name),
    "sparse file": _sparse,
}


def _delta(root: Path, place: str) -> Path:
    builder = DeltaBuilder(root)
    vector = builder.vector([1])
    builder.create(
        _ROWS.schema,
        builder.add(_ROWS, vector=vector, stats="count"),
        protocol=builder.features("deletionVectors", "v2Checkpoint"),
    )
    builder.commit(builder.add(_ROWS))
    if place == "sidecar":
        builder.checkpoint(kind="uuid-parquet", sidecars=1)
        for version in (0, 1):
            (builder.log / f"{version:020d}.json").unlink()
        return next((builder.log / "_sidecars").iterdir())
    if "checkpoint" in place and place != "_last_checkpoint":
        (path,) = builder.checkpoint(kind="uuid-json" if "json" in place else "classic")
        for version in (0, 1) if "beside" not in place else ():
            (builder.log / f"{version:020d}.json").unlink()
        return path
    return {
        "log entry": builder.log / f"{1:020d}.json",
        "compaction": builder.log / f"{0:020d}.{1:020d}.compacted.json",
        "_last_checkpoint": builder.log / "_last_checkpoint",
        "checksum": builder.log / f"{1:020d}.crc",
        "data file": next(root.glob("*.parquet")),
        "deletion vector": next(root.glob("*.bin")),
    }[place]


def _iceberg(root: Path, place: str) -> Path:
    builder = IcebergBuilder(root, {"id": "long"}, format_version=3 if place == "deletion vector" else 2)
    kind = place.partition(" ")[0] if place in ("avro file", "orc file") else "parquet"
    file = builder.data([{"id": 1}, {"id": 2}], format=kind)
    builder.commit(file)
    if place == "metadata file beyond the hint":
        builder.commit(builder.data([{"id": 3}]))
        (root / "metadata" / "version-hint.text").write_text("1")
    if place == "position deletes":
        deletes = builder.position_deletes([(file, 0)])
        builder.commit(deletes)
        return Path(deletes.path)
    if place == "equality deletes":
        deletes = builder.equality_deletes([1], [{"id": 1}])
        builder.commit(deletes)
        return Path(deletes.path)
    if place == "deletion vector":
        vectors = builder.deletion_vectors({file.path: [0]})
        builder.commit(*vectors)
        return Path(vectors[0].path)
    if place == "version hint":
        return root / "metadata" / "version-hint.text"
    names = {
        "metadata file": "*.metadata.json",
        "metadata file beyond the hint": "*.metadata.json",
        "manifest list": "snap-*.avro",
        "manifest": "m*.avro",
    }
    found = sorted((root / "metadata").glob(names[place])) if place in names else [Path(file.path)]
    return found[-1]


#: Where such a file is put: which format makes the table, and whether the rows can be read without the file.
PLACES: dict[tuple[str, str], bool] = {
    ("delta", "log entry"): False,
    ("delta", "compaction"): True,
    ("delta", "_last_checkpoint"): True,
    ("delta", "checksum"): True,
    ("delta", "checkpoint"): False,
    ("delta", "json checkpoint"): False,
    ("delta", "checkpoint beside the log"): True,
    ("delta", "json checkpoint beside the log"): True,
    ("delta", "sidecar"): False,
    ("delta", "data file"): False,
    ("delta", "deletion vector"): False,
    ("iceberg", "version hint"): True,
    ("iceberg", "metadata file"): False,
    ("iceberg", "metadata file beyond the hint"): False,
    ("iceberg", "manifest list"): False,
    ("iceberg", "manifest"): False,
    ("iceberg", "data file"): False,
    ("iceberg", "avro file"): False,
    ("iceberg", "orc file"): False,
    ("iceberg", "position deletes"): False,
    ("iceberg", "equality deletes"): False,
    ("iceberg", "deletion vector"): False,
}
_MAKERS = {"delta": _delta, "iceberg": _iceberg}


def _outcome(root: Path, place: str) -> tuple[str, str]:
    try:
        open_table(root, validate=place == "checksum").scan().to_arrow()
    except DeltabergError as error:
        return type(error).__name__, str(error)
    except BaseException as error:  # noqa: BLE001 - what is not ours is what is looked for
        return f"not ours: {error!r}"[:300], ""
    return "rows", ""


def main(folder: Path) -> list[tuple[str, str, str, str, bool, int]]:
    """Read every table, and return what came of each."""
    _delta(folder / "warm", "data file")
    _outcome(folder / "warm", "data file")
    begin = peak_memory()
    outcomes = []
    for number, (table, place) in enumerate(PLACES):
        for kind, put in KINDS.items():
            root = folder / f"{number}" / kind.replace(" ", "-")
            path = _MAKERS[table](root, place)
            path.unlink(missing_ok=True)
            put(path)
            outcome, text = _outcome(root, place)
            taken = peak_memory() - begin >> 20
            is_named = path.name in text
            outcomes.append((table, place, kind, outcome, is_named, taken))
    return outcomes


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps(main(Path(scratch))))
        sys.exit(0)
