"""Prints, area by area, the requirements that no passing test proves: ``make requirements``.

It runs the tests that carry marks and reads what they wrote; an id that does not exist fails the run itself.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.requirements import Requirement, load_requirements

__all__ = ["main", "missing_halves"]

_HALVES = {"reader": ("reader",), "writer": ("writer",), "both": ("reader", "writer")}


def missing_halves(requirement: Requirement, results: list[dict[str, str | None]]) -> list[str]:
    """Give the halves of a row that no passing test proves; a failing test takes back what others prove."""
    wanted = _HALVES[requirement.who]
    proven: set[str] = set()
    failed: set[str] = set()
    for result in results:
        halves = set(wanted) if result["half"] is None else {str(result["half"])}
        if result["outcome"] == "passed":
            proven |= halves
        elif result["outcome"] == "failed":
            failed |= halves
    return [half for half in wanted if half not in proven - failed]


def main() -> int:
    """Run the marked tests and print what is missing; with ``--half reader``, of that half alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, help="results of an earlier run, from pytest --requirements")
    parser.add_argument("--half", choices=("reader", "writer"), help="only this half of the rows")
    parser.add_argument("--area", action="append", help="only this area, such as DL-DV; may be repeated")
    arguments = parser.parse_args()
    known = load_requirements()
    if not known:
        print("REQUIREMENTS.md is missing: set DELTABERG_SHARED, or put the shared folder beside the clone")
        return 2
    results = json.loads(arguments.results.read_text()) if arguments.results else _run()
    missing: dict[str, list[str]] = {}
    for requirement in known.values():
        if arguments.area and requirement.area not in arguments.area:
            continue
        halves = missing_halves(requirement, results.get(requirement.id, []))
        halves = [half for half in halves if arguments.half in (None, half)]
        if halves:
            shown = f"{requirement.id} ({', '.join(halves)})" if requirement.who == "both" else requirement.id
            missing.setdefault(requirement.area, []).append(shown)
    total = sum(len(rows) for rows in missing.values())
    for area, rows in missing.items():
        print(f"{area}: {', '.join(rows)}")
    print(f"{total} rows without a passing test")
    return 0


def _run() -> dict[str, list[dict[str, str | None]]]:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "results.json"
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "tests", f"--requirements={target}"]
        finished = subprocess.run(command, check=False)
        if not target.exists():
            raise SystemExit(finished.returncode)
        found: dict[str, list[dict[str, str | None]]] = json.loads(target.read_text())
        return found


if __name__ == "__main__":
    sys.exit(main())
