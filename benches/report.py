"""Writes what was measured: a page with a table, and a chart of how many times longer each peer took."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benches.cases import CASES

__all__ = ["OURS", "line_of", "write_report"]

#: The side that the others are compared with.
OURS = "deltaberg"
_ROW, _LABEL, _WIDTH = 22, 300, 420
#: Factors that have a line in the chart.
_TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100)

_Runs = Sequence[Mapping[str, Any]]
_Results = Mapping[str, Mapping[str, _Runs]]


def line_of(runs: _Runs) -> tuple[float, float, float, float]:
    """Give the median, the best and the worst of seconds, and the peak of memory in MiB."""
    seconds = [run["seconds"] for run in runs]
    return statistics.median(seconds), min(seconds), max(seconds), max(run["peak"] for run in runs) / (1 << 20)


def write_report(folder: Path, machine: str, how: str, results: _Results) -> None:
    """Write ``RESULTS.md`` and ``results.svg``.

    Parameters
    ----------
    machine, how
        The machine and the versions; the scale and the rounds.
    results
        By case and side, the seconds, peaks and findings of each round.
    """
    lines = [
        "# Results",
        "",
        "Written by `make bench-full`; what the cases are, and how they are run, is in [docs](../docs/benchmarks.md).",
        "The ratio says how many times longer a side took than deltaberg.",
        "",
        machine,
        "",
        how,
        "",
        "![how many times longer the peers took](results.svg)",
        "",
        "| case | side | median | best | peak | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for name, sides in results.items():
        ours = line_of(sides[OURS])[0]
        for side, runs in sides.items():
            median, best, _, peak = line_of(runs)
            what = f"`{name}`: {CASES[name].title}" if side == OURS else ""
            ratio = "" if side == OURS else f"{median / ours:.1f}"
            lines.append(f"| {what} | {side} | {_time(median)} | {_time(best)} | {peak:.0f} MiB | {ratio} |")
    (folder / "RESULTS.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "results.svg").write_text(_chart(results), encoding="utf-8")


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def _chart(results: _Results) -> str:
    """Draw a bar for each peer, on a scale of factors: to the left of 1 it was faster than deltaberg."""
    bars = [
        (f"{name}: {side}", line_of(runs)[0] / line_of(sides[OURS])[0])
        for name, sides in results.items()
        for side, runs in sides.items()
        if side != OURS
    ]
    ticks = [tick for tick in _TICKS if tick <= 1 or tick < 2 * max((factor for _, factor in bars), default=1)]
    low, high = math.log(min([ticks[0], *(factor for _, factor in bars)])), math.log(max(ticks[-1], 2))

    def place(factor: float) -> float:
        return _LABEL + _WIDTH * (math.log(min(factor, math.exp(high))) - low) / (high - low)

    height = _ROW * (len(bars) + 2)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABEL + _WIDTH + 70}" height="{height}">',
        "<style>text { font: 12px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for tick in ticks:
        at = place(tick)
        drawn.append(f'<line x1="{at:.1f}" y1="{_ROW}" x2="{at:.1f}" y2="{height - 8}" stroke="#ccc"/>')
        drawn.append(f'<text x="{at:.1f}" y="{_ROW - 6}" text-anchor="middle" fill="#555">{tick:g}</text>')
    for number, (label, factor) in enumerate(bars):
        top = _ROW * (number + 1) + 4
        start, stop = sorted((place(1), place(factor)))
        colour = "#2a7ab0" if factor >= 1 else "#c46a2b"
        drawn.append(
            f'<text x="{_LABEL - 8}" y="{top + 12}" text-anchor="end">{html.escape(label)}</text>'
            f'<rect x="{start:.1f}" y="{top}" width="{max(stop - start, 1):.1f}" height="{_ROW - 8}" fill="{colour}"/>'
            f'<text x="{stop + 5:.1f}" y="{top + 12}">{factor:.1f}</text>'
        )
    return "\n".join([*drawn, "</svg>"]) + "\n"
