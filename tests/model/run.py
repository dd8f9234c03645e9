"""Runs the model, in a process of its own: ``python -m tests.model.run``. The kernels are those of the environment."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from inspect import getmembers

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RULE_MARKER, run_state_machine_as_test

from tests.model.iceberg_machine import IcebergMachine
from tests.model.machine import TableMachine
from tests.model.rules import ModelMachine

__all__ = ["MACHINES", "main", "only", "run_model"]

#: The model of each format.
MACHINES: dict[str, type[ModelMachine]] = {"delta": TableMachine, "iceberg": IcebergMachine}


def only(machine: type[ModelMachine], *names: str) -> type[ModelMachine]:
    """Return the model with these operations alone, so that they meet often in short histories."""
    rules = [name for name, member in getmembers(machine) if hasattr(member, RULE_MARKER)]
    assert set(names) <= set(rules)
    return type(f"{machine.__name__}Only", (machine,), dict.fromkeys(set(rules).difference(names)))


def run_model(
    number: int, runs: int, steps: int, *, shrink: bool = False, machine: type[ModelMachine] = TableMachine
) -> int:
    """Run the model, and return how many steps were made.

    Parameters
    ----------
    number
        The seed.
    runs, steps
        How many tables are made, and how many operations at most on each.
    shrink
        Look for the fewest operations that show a fault.
    machine
        The model of a format.
    """

    @seed(number)
    class Seeded(machine):  # type: ignore[misc,valid-type]
        steps = 0

    run_state_machine_as_test(
        Seeded,
        settings=settings(
            max_examples=runs,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
            print_blob=False,
        ),
    )
    return int(Seeded.steps)


def main() -> int:
    """Run the model, and print a line of JSON: how many steps there were, and what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.run", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--format", choices=sorted(MACHINES), default="delta")
    parser.add_argument("--shrink", action="store_true", help="look for the fewest operations that show a fault")
    options = parser.parse_args()
    begun = time.monotonic()
    report = {"steps": 0, "fault": ""}
    try:
        report["steps"] = run_model(
            options.seed, options.runs, options.steps, shrink=options.shrink, machine=MACHINES[options.format]
        )
    except Exception:  # noqa: BLE001 - whatever fails is a finding
        report["fault"] = traceback.format_exc()
    print(json.dumps({**report, "seconds": time.monotonic() - begun}))
    return 1 if report["fault"] else 0


if __name__ == "__main__":
    sys.exit(main())
