"""The halves of REQUIREMENTS.md that this project claims to obey, and whether tests prove them.

The reading half of every row is claimed. Writing halves are claimed area by area, as writing is built. What is claimed
but not proven yet is listed with a reason, and that list only shrinks: a half that a test proves must leave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.support.proofs import Proof
from tests.support.requirements import Requirement

__all__ = ["CLAIMS", "Claims", "Unproven", "find_faults", "find_unproven"]


class Claims(NamedTuple):
    """What is claimed.

    Parameters
    ----------
    writer
        Areas (``"ICE-TRF"``) and rows (``"DL-DV-11"``) whose writing halves are claimed.
    exceptions
        The reasons for claimed halves that no test proves, by row and half.
    """

    writer: frozenset[str]
    exceptions: Mapping[tuple[str, str], str]

    def claim(self, row: Requirement, half: str) -> bool:
        """Return whether a half of a row is claimed."""
        return half == "reader" or row.id in self.writer or row.area in self.writer


class Unproven(NamedTuple):
    """A half of a row that no test proves; ``failed`` are the tests that should, and fail."""

    row: Requirement
    half: str
    failed: tuple[str, ...]
    skipped: tuple[str, ...]

    def __str__(self) -> str:
        tests = self.failed or self.skipped
        state = "failed" if self.failed else "skipped"
        return f"{', '.join(tests[:3])} {state}" if tests else "no test proves it"


CLAIMS = Claims(
    writer=frozenset(
        (
            # The hash, the transforms, the bitmaps and the checksum are the same code for readers and for writers.
            *(f"ICE-HASH-{number:02}" for number in (*range(1, 13), 14)),
            *(f"DL-STR-{number:02}" for number in range(1, 11)),
            *(f"ICE-STR-{number:02}" for number in range(1, 5)),
            "ICE-TRF",
            *(f"ICE-BIN-{number:02}" for number in (*range(1, 11), 12)),
            *(f"ICE-PQ-{number:02}" for number in (1, 2, 3, 4, 5, 6, 8)),
            *(f"ICE-PART-{number:02}" for number in range(1, 10)),
            *(f"ICE-MAN-{number:02}" for number in (7, 8, 9, 12, 16, 17, 18, 19, 20)),
            *(f"ICE-SNAP-{number:02}" for number in (1, 2, 3, 5, 7)),
            *(f"ICE-SEQ-{number:02}" for number in (1, 4, 6)),
            "BEY-45",
            *(f"DL-DV-{number:02}" for number in (1, 2, *range(6, 10), *range(11, 20), 21, 22, *range(24, 29))),
            "DL-CKPT",
            *(f"DL-LOG-{number}" for number in (14, 15, 16)),
            *(f"DL-CLEAN-{number:02}" for number in range(1, 11)),
            # Clean-up of files.
            "DL-VAC",
            *("DL-GEN-08", "BEY-05", "DL-OPS-11", "DL-OPS-12", "DL-OPS-14"),
            *(f"DL-OPS-{number:02}" for number in (*range(1, 11), 13, 15)),
            "BEY-08",
            "BEY-17",
            "BEY-24",
            "DL-LAST",
            # Delta tables that are created, appended to and overwritten.
            *(f"DL-ACT-{number:02}" for number in (*range(1, 8), 9, 10, 11, 13, 14, 15, *range(18, 28))),
            *(f"DL-CLU-{number:02}" for number in range(1, 10)),
            *(f"DL-CM-{number:02}" for number in (*range(1, 14), 18)),
            "DL-FEAT",
            *(f"DL-PART-{number:02}" for number in range(1, 12)),
            *(f"DL-SCHEMA-{number:02}" for number in (*range(1, 13), 14, 16, 17, 19)),
            "DL-STAT",
            *(f"BEY-{number:02}" for number in (2, 4, 6, 7, 12, 13, 15, 16, 19, 20, 21, 22)),
            *(f"DL-FILE-{number:02}" for number in (1, 2, 3, 4, 7, 8, 9)),
            *(f"DL-REC-{number:02}" for number in (1, 2, 3, 4, 5, 10)),
            # Compaction.
            *("DL-ACT-12", "DL-CON-02"),
            "DL-OPT",
            *(f"ICE-MNT-{number:02}" for number in (*range(1, 22), 23, 24)),
            # Transactions and their commits.
            *(f"DL-LOG-{number:02}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11)),
            "DL-DOM",
            *(f"DL-RT-{number:02}" for number in (1, 2, 3, 5, 6, *range(9, 25))),
            # Rows that are deleted and updated.
            *(f"DL-CDF-{number:02}" for number in (1, 2, 3, 4, 12)),
            "DL-ICOMP",
            "DL-CON",
            *("BEY-09", "DL-SCHEMA-18"),
            *("BEY-01", "BEY-10", "DL-FILE-05", "DL-GEN-01", "DL-GEN-02", "DL-GEN-04", "DL-GEN-06"),
            # Rows of Iceberg tables that are deleted.
            *(f"ICE-DEL-{number:02}" for number in (1, 2, 3, 4, 5, 6, 8, 14, 15)),
            *("BEY-33", "BEY-34", "BEY-43", "BEY-55"),
            # Rows of Iceberg tables that are updated and merged.
            *("ICE-COM-07", "ICE-GEN-09"),
            # Manifests, manifest lists, and the JSON of schemas, specs, sort orders and snapshots.
            *(f"ICE-AVRO-{number:02}" for number in (*range(1, 11), 12)),
            *(f"ICE-MAN-{number:02}" for number in (*range(1, 7), 8, 9, 10, 11, 13, 14, 15, 21, 24)),
            *(f"ICE-SEQ-{number:02}" for number in (2, 3, 4, 8)),
            "ICE-ML",
            *(f"ICE-JSON-{number:02}" for number in range(1, 15)),
            # Updates of table metadata.
            "ICE-META",
            *(f"ICE-COM-{number:02}" for number in (*range(1, 7), *range(8, 15))),
            *(f"ICE-SORT-{number:02}" for number in range(1, 7)),
            *(f"ICE-ORC-{number:02}" for number in (1, 2, 3, 4, 5, 9)),
            # Columns, values and files of tables that are written.
            *(f"ICE-SCH-{number:02}" for number in (*range(1, 11), *range(12, 16), *range(17, 21))),
            *(f"BEY-{number}" for number in (11, 26, 27, 28, 29, 32, *range(35, 43), 44, 48, *range(50, 55))),
            *("ICE-GEN-02", "ICE-GEN-04", "ICE-GEN-07", "ICE-GEN-08", "ICE-GEN-12", "ICE-SCAN-21", "ICE-HASH-13"),
        )
    ),
    exceptions={
        (
            "DL-STAT-11",
            "writer",
        ): "upper bounds are rounded up, so that they hold also for readers that do not allow for partial milliseconds",
        (
            "ICE-DEL-18",
            "reader",
        ): "optional, and not done: rows that delete files keep may lack columns, so the changelog reads deleted rows"
        " from the data files, which are always there (tests/iceberg/test_changes.py shows what comes of it)",
    },
)


def find_unproven(requirements: Mapping[str, Requirement], proofs: Iterable[Proof]) -> list[Unproven]:
    """Return the halves that no passing test proves, in the order of the rows.

    The proofs may be those of several runs. A failing test takes back what others prove.
    """
    tests: dict[tuple[str, str], dict[str, list[str]]] = {}
    for proof in proofs:
        outcomes = tests.setdefault((proof.requirement, proof.half), {})
        outcomes.setdefault(proof.outcome, []).append(proof.test)
    unproven = []
    for row in requirements.values():
        for half in row.halves:
            outcomes = tests.get((row.id, half), {})
            if "passed" not in outcomes or "failed" in outcomes:
                failed, skipped = outcomes.get("failed", []), outcomes.get("skipped", [])
                unproven.append(Unproven(row, half, tuple(failed), tuple(skipped)))
    return unproven


def find_faults(
    requirements: Mapping[str, Requirement], unproven: Iterable[Unproven], claims: Claims = CLAIMS
) -> list[str]:
    """Return what is wrong: claims that no test proves, exceptions and halves without a claim that a test proves."""
    missing = {(one.row.id, one.half): one for one in unproven}
    faults = []
    for row in requirements.values():
        for half in row.halves:
            name, excepted = f"{row.id} ({half})", (row.id, half) in claims.exceptions
            if not claims.claim(row, half):
                if excepted:
                    faults.append(f"{name} is an exception, and is not claimed: remove it from the exceptions")
                elif (row.id, half) not in missing:
                    faults.append(f"{name} is proven, and is not claimed: add it to the claims")
            elif (row.id, half) not in missing:
                if excepted:
                    faults.append(f"{name} is proven: remove it from the exceptions")
            elif not excepted:
                faults.append(f"{name} is claimed, but {missing[row.id, half]}")
    halves = {(row.id, half) for row in requirements.values() for half in row.halves}
    writers = {name for row in requirements.values() if "writer" in row.halves for name in (row.id, row.area)}
    faults += [f"{name} ({half}) is an exception, and no row" for name, half in claims.exceptions.keys() - halves]
    faults += [f"{name} is claimed for writers, and no row or area of theirs" for name in claims.writer - writers]
    return faults
