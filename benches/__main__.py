"""Runs the cases and prints medians, spreads and bytes."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any

from benches.cache import read_through
from benches.cases import CASES, SUBJECTS
from benches.conditions import conditions_of
from benches.measure import peak_of_processes, take_turns
from benches.report import OURS, size_written, summary, write_report
from benches.turns import CaseError, run_sides


def _run_side(case: str, side: str, scale: float) -> None:
    take_turns()
    outcome = CASES[case].sides[side](scale)
    held = peak_of_processes() if outcome.bytes is None else outcome.bytes
    print("\n" + json.dumps({"amounts": outcome.amounts, "found": outcome.found, "bytes": held}))


def _measure(case: str, scale: float, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Run the sides of a case, each round in fresh processes."""
    try:
        prepared = CASES[case].prepare(scale)
    except Exception as error:
        # Whatever it is, it fails this case alone.
        raise CaseError(f"{case}: its data cannot be made: {type(error).__name__}: {error}") from error
    results: dict[str, list[dict[str, Any]]] = {side: [] for side in CASES[case].sides}
    for _ in range(rounds):
        if isinstance(prepared, Path):
            read_through(prepared)
        for side, found in run_sides(case, results, scale).items():
            results[side].append(found)
    _check(case, results)
    return results


def _check(case: str, results: dict[str, list[dict[str, Any]]]) -> None:
    """Fail a case if its sides or rounds found different results."""
    ours = results[OURS][0]["found"]
    for side, runs in results.items():
        wanted = ours[:1] if side in CASES[case].counting else ours
        for run in runs:
            if run["found"] != wanted:
                raise CaseError(f"{case}: {OURS} found {wanted}, and {side} {run['found']}")


def _line(case: str, side: str, runs: list[dict[str, Any]], ours: float) -> str:
    found, written = summary(runs), CASES[case].unit.written
    ratio = "" if side == OURS else f"{found.median / ours:6.1f} x"
    spread = f"({written(found.best)} to {written(found.worst)})"
    return f"  {side:15} {written(found.median):>14}  {spread:32} {size_written(found.bytes):>10}  {ratio}"


#: From this ratio on, a case counts as slower; less is noise.
_SLOWER = 1.2


def _compare(everything: dict[str, Any], before: dict[str, Any], file: Path) -> None:
    """Print how many times as long as in an earlier run ours took.

    The best of each run is compared, which other programs disturb least. Cases that have changed are left out.
    """
    changes = {
        name: summary(sides[OURS]).best / summary(before["cases"][name][OURS]).best
        for name, sides in everything.items()
        if name in before["cases"] and before["titles"][name] == CASES[name].title
    }
    print(f"\nbeside {file}: {before['machine']} {before['how']}")
    for name, change in changes.items():
        print(f"  {name:24} {change:6.2f} x{'  slower' if change >= _SLOWER else ''}")
    print(f"  {sum(change >= _SLOWER for change in changes.values())} of {len(changes)} cases are slower")


def _scale_of(conditions: dict[str, str]) -> str:
    return conditions["how"].partition(";")[0]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--only", action="append", choices=sorted(CASES), help="only this case; may be repeated")
    parser.add_argument("--subject", action="append", choices=list(SUBJECTS), help="only these cases; may be repeated")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side runs")
    parser.add_argument("--scale", type=float, default=1.0, help="the size of the data; 0.01 for a quick look")
    parser.add_argument("--report", type=Path, help="write RESULTS.md and a chart of all cases into this folder")
    parser.add_argument("--json", type=Path, help="write all measurements here, after each case")
    parser.add_argument("--resume", action="store_true", help="do not repeat the cases that the file of --json has")
    parser.add_argument(
        "--against", type=Path, help="compare ours with an earlier run, which --json wrote to this file"
    )
    parser.add_argument("--side", nargs=2, metavar=("CASE", "SIDE"), help=argparse.SUPPRESS)
    return parser


def _checked(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the options, checked before anything is measured."""
    options = parser.parse_args()
    if options.rounds < 1 or options.scale <= 0:
        parser.error("--rounds and --scale must be positive")
    if options.resume and not options.json:
        parser.error("--resume needs --json")
    if options.report and (options.only or options.subject):
        parser.error("--report is of all cases: leave out --only and --subject")
    for folder in (options.report, options.json and options.json.parent):
        if folder and not folder.is_dir():
            parser.error(f"there is no folder {folder}")
    if options.against and not options.against.is_file():
        parser.error(f"there is no file {options.against}")
    return options


def _to_resume(options: argparse.Namespace, conditions: dict[str, str]) -> dict[str, Any]:
    """Return the cases of the run to be resumed, whose commit, machine and options must be the same."""
    if not options.resume or not options.json.exists():
        return {}
    before = json.loads(options.json.read_text())
    different = [f"{before.get(name)!r}, not {now!r}" for name, now in conditions.items() if before.get(name) != now]
    if different:
        raise SystemExit(f"{options.json} is of another kind of run: {'; '.join(different)}")
    cases: dict[str, Any] = before["cases"]
    return cases


def _measure_all(
    chosen: list[str], options: argparse.Namespace, conditions: dict[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the measurements, and the cases that failed."""
    everything = _to_resume(options, conditions)
    failed = []
    for name in chosen:
        if name in everything:
            continue
        print(f"{name}: {CASES[name].title}", flush=True)
        try:
            everything[name] = results = _measure(name, options.scale, options.rounds)
        except CaseError as error:
            print(f"  {error}", flush=True)
            failed.append(name)
            continue
        ours = summary(results[OURS]).median
        for side, runs in results.items():
            print(_line(name, side, runs, ours), flush=True)
        if options.json:
            titles = {case: CASES[case].title for case in everything}
            options.json.write_text(json.dumps({**conditions, "titles": titles, "cases": everything}, indent=1))
    return everything, failed


def main() -> None:
    """Run the selected cases."""
    options = _checked(_parser())
    if options.side:
        case, side = options.side
        _run_side(case, side, options.scale)
        return
    subjects = [name for subject in options.subject or () for name in SUBJECTS[subject].cases]
    chosen = [*subjects, *(options.only or ())] or list(CASES)
    if options.list:
        for name in chosen:
            print(f"{name:24} {CASES[name].title}; {', '.join(CASES[name].sides)}")
        return
    conditions = conditions_of(options.scale, options.rounds)
    # It may be the file that this run writes to.
    before = json.loads(options.against.read_text()) if options.against else None
    if before is not None and _scale_of(before) != _scale_of(conditions):
        raise SystemExit(f"{options.against} is of another scale: {_scale_of(before)}, not {_scale_of(conditions)}")
    print("\n".join(conditions.values()), end="\n\n")
    everything, failed = _measure_all(chosen, options, conditions)
    if before is not None:
        _compare(everything, before, options.against)
    if failed:
        raise SystemExit(f"{len(failed)} of {len(chosen)} cases failed: {', '.join(failed)}; no report was written")
    if options.report:
        write_report(options.report, conditions, everything)


if __name__ == "__main__":
    # The processes of the sides end with this one, also where it is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    main()
