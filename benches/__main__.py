"""Runs the cases: each side in a fresh process, in turns, and prints medians, spreads and peaks of memory."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Any

from benches.cases import CASES
from benches.measure import fresh
from benches.report import OURS, line_of, write_report
from tests.support.memory import peak_memory

_PEERS = ("deltaberg", "deltalake", "polars", "pyarrow", "pyiceberg", "pyiceberg-core", "pyroaring", "pyspark")


def _run_side(case: str, side: str, scale: float) -> None:
    outcome = CASES[case].sides[side](scale)
    print("\n" + json.dumps({"seconds": outcome.seconds, "found": outcome.found, "peak": peak_memory()}))


def _measure(case: str, scale: float, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Run the sides of a case in turns, so that a slow minute of the machine hits all of them."""
    CASES[case].prepare(scale)
    results: dict[str, list[dict[str, Any]]] = {side: [] for side in CASES[case].sides}
    for _ in range(rounds):
        for side, runs in results.items():
            runs.append(fresh(case, side, scale))
    answers = {side: runs[0]["found"] for side, runs in results.items()}
    if len({json.dumps(answer) for answer in answers.values()}) > 1:
        raise SystemExit(f"{case}: the sides found different things: {answers}")
    return results


def _line(side: str, runs: list[dict[str, Any]], ours: float) -> str:
    median, best, worst, peak = line_of(runs)
    ratio = "" if side == OURS else f"{median / ours:6.1f} x"
    return f"  {side:15} {median:9.4f} s  ({best:.4f} to {worst:.4f})  {peak:7.0f} MiB  {ratio}"


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--only", action="append", choices=sorted(CASES), help="only this case; may be repeated")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side runs")
    parser.add_argument("--scale", type=float, default=1.0, help="the size of the data; 0.01 for a quick look")
    parser.add_argument("--report", type=Path, help="write RESULTS.md and a chart into this folder")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    parser.add_argument("--side", nargs=2, metavar=("CASE", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        case, side = options.side
        _run_side(case, side, options.scale)
        return
    if options.list:
        for name, case in CASES.items():
            print(f"{name:16} {case.title}; {', '.join(case.sides)}")
        return
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PEERS)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    machine = f"{os.cpu_count()} processors, {memory} GiB; CPython {sys.version.split()[0]}; {versions}"
    how = f"scale {options.scale}, median of {options.rounds} rounds, each in a fresh process"
    print(f"{machine}\n{how}\n")
    everything = {}
    for name in options.only or CASES:
        print(f"{name}: {CASES[name].title}")
        everything[name] = results = _measure(name, options.scale, options.rounds)
        ours, *_ = line_of(results[OURS])
        for side, runs in results.items():
            print(_line(side, runs, ours), flush=True)
    if options.report:
        write_report(
            options.report, f"{dt.datetime.now(dt.timezone.utc).date()}: {machine}.", f"{how.capitalize()}.", everything
        )
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
