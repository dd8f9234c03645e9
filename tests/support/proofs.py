"""What a run of the tests proved: its ``req`` marks, and the outcome of each test that carries one.

A mark names rows of REQUIREMENTS.md and the half that the test proves: ``@pytest.mark.req("DL-DV-11", half="reader")``.
``half`` may be left out of rows that are for readers alone or for writers alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.requirements import Requirement

__all__ = ["Proof", "Proofs", "halves_of_mark", "read_proofs", "write_proofs"]

_PROPERTY = "req"
_ROAD = "road"


class Proof(NamedTuple):
    """A test that claims one half of a row; it proves that half where its outcome is "passed".

    ``road`` is "spark" where the test is marked so, and else "local".
    """

    requirement: str
    half: str
    outcome: str
    test: str
    road: str = "local"


def halves_of_mark(
    ids: Iterable[object], arguments: Mapping[str, object], requirements: Mapping[str, Requirement]
) -> list[tuple[str, str]]:
    """Return the rows and halves that a mark claims.

    Raises
    ------
    ValueError
        A row is unknown, or has no such half, or is for both halves and the mark names neither.
    """
    half = arguments.get("half")
    claimed: list[tuple[str, str]] = []
    for name in ids:
        row = requirements.get(name) if isinstance(name, str) else None
        if row is None:
            raise ValueError(f"there is no requirement {name}")
        if half is None and row.who == "both":
            raise ValueError(f'{name} is a row for readers and writers: say half="reader" or half="writer"')
        if half is not None and half not in row.halves:
            raise ValueError(f"{name} is a row for {' and '.join(f'{one}s' for one in row.halves)}, not for {half!r}")
        claimed.append((row.id, str(half or row.who)))
    if not claimed or set(arguments) - {"half"}:
        raise ValueError("req() takes the ids of one or more rows, and half")
    return claimed


class Proofs:
    """A plugin that checks the marks and collects the outcomes.

    Parameters
    ----------
    known
        The rows by id. Without any, marks are neither checked nor recorded.
    target
        The file that the outcomes are written to when the run ends.
    """

    def __init__(self, known: Mapping[str, Requirement], target: Path | None = None) -> None:
        self.known = known
        self.target = target
        self._claims: dict[str, list[tuple[str, str]]] = {}
        self._roads: dict[str, str] = {}
        self._outcomes: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse marks that would prove nothing, or what they do not name."""
        if not self.known:
            return
        for item in items:
            claims: list[tuple[str, str]] = []
            for mark in item.iter_markers("req"):
                try:
                    claims += halves_of_mark(mark.args, mark.kwargs, self.known)
                except ValueError as error:
                    raise pytest.UsageError(f"{item.nodeid}: {error}") from None
            # Reports carry the claims, so that they also arrive from another process.
            item.user_properties += [(_PROPERTY, claim) for claim in claims]
            if claims:
                item.user_properties.append((_ROAD, "spark" if item.get_closest_marker("spark") else "local"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one phase of a test: a test proves nothing if any phase fails, or if its failure is expected."""
        claims = [
            (str(claim[0]), str(claim[1]))
            for name, claim in report.user_properties
            if name == _PROPERTY and isinstance(claim, tuple)
        ]
        if not claims:
            return
        self._claims[report.nodeid] = claims
        self._roads[report.nodeid] = str(dict(report.user_properties).get(_ROAD, "local"))
        if report.failed:
            self._outcomes[report.nodeid] = "failed"
        elif report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self._outcomes.setdefault(report.nodeid, "passed")
        elif report.skipped or hasattr(report, "wasxfail"):
            self._outcomes.setdefault(report.nodeid, "skipped")

    def pytest_sessionfinish(self) -> None:
        """Write what was proven."""
        if self.target is not None:
            write_proofs(self.target, self.proofs())

    def proofs(self) -> list[Proof]:
        """Return the claims with their outcomes, in the order of the tests."""
        return [
            Proof(requirement, half, outcome, test, self._roads[test])
            for test, outcome in self._outcomes.items()
            for requirement, half in self._claims[test]
        ]


def write_proofs(path: Path, proofs: Iterable[Proof]) -> None:
    """Write what a run proved, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([proof._asdict() for proof in proofs], indent=1), encoding="utf-8")


def read_proofs(path: Path) -> list[Proof]:
    """Read what a run proved."""
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return [Proof(**members) for members in found]
