"""Check that tests prove what the project claims of the specifications: ``make requirements``.

It runs the tests that carry ``req`` marks, or reads what earlier runs wrote with ``--requirements``, and prints the
rows of REQUIREMENTS.md that no passing test proves, area by area, and those of readers that tests prove on one road
alone: on this machine, or on Spark. It fails while a half that is claimed (``tests/support/claims.py``) is among the
former, while a row that plans or reads rows (``tests/support/road_claims.py``) is not proven on both roads, and while
these lists are behind what is proven.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tests.support.claims import Unproven, find_faults, find_unproven
from tests.support.proofs import Proof, read_proofs
from tests.support.requirements import load_requirements
from tests.support.road_claims import find_road_faults, roads_of_rows

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is not proven; return 1 where it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--results",
        type=Path,
        action="append",
        metavar="FILE",
        help="what an earlier run proved, from pytest --requirements FILE; may be repeated to merge several runs",
    )
    parser.add_argument("--half", choices=("reader", "writer"), help="list only this half of the rows")
    parser.add_argument("--area", action="append", help="list only this area, such as DL-DV; may be repeated")
    parser.add_argument("--quiet", action="store_true", help="list nothing, only check the claims")
    options = parser.parse_args(arguments)
    requirements = load_requirements()
    if not requirements:
        print("REQUIREMENTS.md is missing: set DELTABERG_SHARED, or put the shared folder beside the clone")
        return int(bool(os.environ.get("CI")))
    proofs = [proof for path in options.results for proof in read_proofs(path)] if options.results else _run()
    unproven = find_unproven(requirements, proofs)
    if not options.quiet:
        wanted = [one for one in unproven if options.half in (None, one.half)]
        _print_areas([one for one in wanted if not options.area or one.row.area in options.area])
    roads = roads_of_rows(requirements, proofs)
    if not options.quiet and options.half != "writer":
        _print_roads(
            {
                name: taken
                for name, taken in roads.items()
                if not options.area or requirements[name].area in options.area
            }
        )
    faults = find_faults(requirements, unproven) + find_road_faults(requirements, proofs)
    for fault in faults:
        print(fault)
    halves = sum(len(row.halves) for row in requirements.values())
    both = sum(len(taken) == 2 for taken in roads.values())
    print(
        f"{halves - len(unproven)} of {halves} halves are proven; {both} of {len(roads)} rows of readers are proven on"
        f" both roads; {len(faults)} faults of the claims"
    )
    return int(bool(faults))


def _print_areas(unproven: Sequence[Unproven]) -> None:
    areas: dict[str, list[str]] = {}
    for one in unproven:
        name = f"{one.row.id} ({one.half})" if one.row.who == "both" else one.row.id
        areas.setdefault(one.row.area, []).append(name)
    for area, names in areas.items():
        print(f"{area}: {', '.join(names)}")


def _print_roads(roads: Mapping[str, Collection[str]]) -> None:
    for road, text in (("local", "on one machine alone"), ("spark", "on Spark alone")):
        names = [name for name, found in roads.items() if set(found) == {road}]
        if names:
            print(f"proven {text}: {', '.join(names)}")


def _run() -> list[Proof]:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "results.json"
        options = ["-q", "--no-header", "-m", "req", f"--requirements={target}"]
        finished = subprocess.run([sys.executable, "-m", "pytest", *options, "tests"], check=False)
        if not target.exists():
            raise SystemExit(finished.returncode)
        return read_proofs(target)


if __name__ == "__main__":
    sys.exit(main())
