"""Damages the files of a table at random, one at a time, and reads it each time.

It runs as a module of its own, because pyarrow may abort the process, which must not be the one of the tests.

"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deltaberg import open_table
from deltaberg.errors import DeltabergError
from tests.hostile.tables import build_table, metadata_files, read_everything
from tests.support.memory import peak_memory

__all__ = ["main"]


def main(checkpoint: str, what: str, seed: int, count: int) -> dict[str, Any]:
    """Damage files ``count`` times.

    Parameters
    ----------
    checkpoint
        The form of the table's checkpoint.
    what
        Which files: ``log`` (and sidecars), ``pointer`` (``_last_checkpoint``), ``vectors`` or ``data``.
    """
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    strange: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        table = build_table(Path(scratch) / "t", checkpoint)
        files = _files(table.root, what) if what in ("vectors", "data") else metadata_files(table)
        if what == "pointer":
            files = [table.log / "_last_checkpoint"]
        sound = read_everything(table.root)
        ids = {number for rows in table.rows.values() for number in rows.column("id").to_pylist()}
        for _ in range(count):
            file = rng.choice(files)
            whole = file.read_bytes()
            broken = _damaged(whole, rng)
            file.write_bytes(broken)
            try:
                read = _scan(table.root) if what == "data" else read_everything(table.root)
            except DeltabergError as error:
                outcomes[type(error).__name__] += 1
            except Exception:  # noqa: BLE001 - what is not ours is what is looked for
                strange.append(f"{file.name}: {_difference(whole, broken)}\n{traceback.format_exc(limit=-6)}")
            else:
                outcomes["sound" if read == sound else "other"] += 1
                if what != "data" and (len(set(read)) < len(read) or not ids.issuperset(read)):
                    strange.append(f"{file.name}: {_difference(whole, broken)}: rows {read}")
            file.write_bytes(whole)
    return {"outcomes": outcomes, "strange": strange, "peak": peak_memory()}


def _files(root: Path, what: str) -> list[Path]:
    pattern = "*.bin" if what == "vectors" else "*.parquet"
    return sorted(path for path in root.rglob(pattern) if "_delta_log" not in path.parts)


def _scan(root: Path) -> Sequence[Any]:
    """Read all columns of all rows, which may hold anything now."""
    return sorted(open_table(root).scan().to_arrow().column("id").to_pylist(), key=repr)


def _damaged(whole: bytes, rng: random.Random) -> bytes:
    data = bytearray(whole)
    what = rng.choice(["bit", "bit", "byte", "four", "cut", "twice", "zeros"])
    place = rng.randrange(len(data))
    if what == "bit":
        data[place] ^= 1 << rng.randrange(8)
    elif what == "byte":
        data[place] = rng.randrange(256)
    elif what == "four":
        for _ in range(4):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif what == "cut":
        del data[place:]
    elif what == "twice":
        data[place:place] = data[place : place + rng.randrange(1, 200)]
    else:
        end = min(len(data), place + rng.randrange(1, 60))
        data[place:end] = bytes(end - place)
    return bytes(data)


def _difference(whole: bytes, broken: bytes) -> str:
    place = next((at for at, pair in enumerate(zip(whole, broken, strict=False)) if pair[0] != pair[1]), len(broken))
    return f"{len(whole)} bytes became {len(broken)}, from {place} on {broken[place : place + 12]!r}"


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
