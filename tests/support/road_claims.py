"""On which roads tests prove the rows of readers.

REQUIREMENTS.md: "Every row that plans, reads or writes data is proven twice: once on the single-machine path and once
through PySpark". Every row of readers is therefore claimed for both roads, save those that are listed here with the
reason why Spark has no part in them. A row that a test proves on both roads must leave the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.support.proofs import Proof
from tests.support.requirements import Requirement

__all__ = ["NEED_NO_SPARK", "find_road_faults", "roads_of_rows"]

_ROADS = ("local", "spark")
#: Rows that say that the roads are the same: what proves them on Spark compares with this machine.
_OF_BOTH_ROADS = frozenset({"DL-GEN-05", "ICE-GEN-06"})


def _rows(area: str, *numbers: int) -> tuple[str, ...]:
    return tuple(f"{area}-{number:02}" for number in numbers)


#: Rows of readers by the reason why they neither plan nor read rows, so that no road can differ from another.
NEED_NO_SPARK: Mapping[str, tuple[str, ...]] = {
    "They say which version or snapshot is opened; a table is opened before a road is chosen.": (
        *_rows("DL-LOG", 1, 8, 9, 13, 14, 19),
        *_rows("DL-CKPT", 6),
        *_rows("ICE-SNAP", 1, 8),
        *_rows("ICE-META", 13),
        *_rows("BEY", 26, 49, 50),
    ),
    "They say what an action means for the state of the table, not for its rows.": (
        *_rows("DL-ACT", 2, 3, 5, 6, 7, 14, 18, 19, 21, 23, 24, 26),
        *_rows("DL-REC", 1, 2, 3),
        *_rows("DL-DOM", 1),
        *_rows("DL-RT", 11),
        *_rows("BEY", 10),
    ),
    "They say what the checksum of `_last_checkpoint` is computed of.": _rows("DL-LAST", *range(6, 12), 13, 14),
    "They say which tables are refused when they are opened.": (
        *_rows("DL-FILE", 9),
        *_rows("DL-FEAT", 1, 2, 3, 4, 6, 17, 18),
        *_rows("ICE-META", 1, 2),
        *_rows("BEY", 14, 52),
    ),
    "They say what the API tells of a table: constraints, generated and identity columns, clustering, metadata.": (
        *_rows("DL-CON", 4, 8, 14, 21),
        *_rows("DL-CLU", 2, 3),
        *_rows("DL-SCHEMA", 2),
    ),
    "They say how table metadata is laid out, which is parsed once, when the table is opened.": (
        *_rows("ICE-PART", 2, 4),
        *_rows("ICE-SORT", 1, 2),
        *_rows("ICE-META", 4, 7, 9, 10, 16, 18),
        *_rows("ICE-JSON", *range(1, 13), 14),
        *_rows("BEY", 42),
    ),
    "They say how bytes and values are encoded: one kernel decodes them, for every road.": (
        *_rows("DL-DV", 11),
        *_rows("DL-STAT", 12),
        *_rows("ICE-BIN", *range(1, 10), 11),
    ),
    "They say what a function of a value gives, which plans on every road call.": (
        *_rows("ICE-TRF", *range(1, 11), 12, 13),
        *_rows("ICE-HASH", *range(1, 13), 14),
        *_rows("BEY", 41, 45),
    ),
    "They answer from metadata alone: no row is read.": _rows("DL-STAT", 4),
}


def roads_of_rows(requirements: Mapping[str, Requirement], proofs: Iterable[Proof]) -> dict[str, tuple[str, ...]]:
    """Return the roads on which tests prove each row of readers.

    A failing test takes back what others prove on its road.
    """
    outcomes: dict[tuple[str, str], set[str]] = {}
    for proof in proofs:
        if proof.half == "reader":
            outcomes.setdefault((proof.requirement, proof.road), set()).add(proof.outcome)
    return {
        row.id: tuple(
            road
            for road in _ROADS
            if "passed" in (found := outcomes.get((row.id, road), set())) and "failed" not in found
        )
        for row in requirements.values()
        if "reader" in row.halves
    }


def find_road_faults(
    requirements: Mapping[str, Requirement],
    proofs: Iterable[Proof],
    need_no_spark: Mapping[str, Iterable[str]] = NEED_NO_SPARK,
) -> list[str]:
    """Return the rows that tests prove on one road alone though they plan or read, and what the list has wrong.

    Rows that no test proves at all are faults of the claims, and not said again here.
    """
    listed = [name for names in need_no_spark.values() for name in names]
    faults = []
    roads = roads_of_rows(requirements, proofs)
    for name, proven in roads.items():
        if proven == ("spark",) and name not in _OF_BOTH_ROADS:
            faults.append(f"{name} is proven on Spark alone, and not on one machine")
        elif proven == ("local",) and name not in listed:
            faults.append(f"{name} is proven on one machine alone, and not on Spark")
        elif proven == _ROADS and name in listed:
            faults.append(f"{name} is proven on Spark: remove it from the rows that need no Spark")
    faults += [f"{name} needs no Spark, and is no row of readers" for name in listed if name not in roads]
    faults += [
        f"{name} is listed twice as needing no Spark" for name in sorted({n for n in listed if listed.count(n) > 1})
    ]
    return faults
