"""Writes the results: a page with a table per subject, and a chart of how much more each library took."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benches.cases import SUBJECTS
from benches.measure import Subject

__all__ = ["OURS", "Summary", "size_written", "summary", "write_report"]

#: The side that the others are compared with.
OURS = "deltaberg"
_ROW, _LABEL, _WIDTH = 18, 300, 420
_CAPTION = "How many times as long as deltaberg each peer took, or as many requests"
_LEGEND = (("#2a7ab0", "the peer took more"), ("#c46a2b", "the peer took less"))
#: Factors that have a line in the chart.
_TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)

_Runs = Sequence[Mapping[str, Any]]
_Results = Mapping[str, Mapping[str, _Runs]]


class Summary(NamedTuple):
    """All measurements of a side in the unit of its case, and the most bytes."""

    median: float
    best: float
    worst: float
    bytes: int


def summary(runs: _Runs) -> Summary:
    """Summarise the rounds of a side."""
    amounts = [amount for run in runs for amount in run["amounts"]]
    return Summary(statistics.median(amounts), min(amounts), max(amounts), max(run["bytes"] for run in runs))


def write_report(folder: Path, conditions: Mapping[str, str], results: _Results) -> None:
    """Write ``RESULTS.md`` and ``results.svg``.

    Parameters
    ----------
    conditions
        Sentences about what the run depends on.
    results
        By case and side, the amounts, bytes and findings of each round.
    """
    lines = [
        "# Results",
        "",
        "Written by `make bench-full`; what the cases are, and how they are run, is in [docs](../docs/benchmarks.md).",
        "The ratio says how many times as much a side took as deltaberg: time, bytes or requests.",
        "",
        *(f"- {sentence}" for sentence in conditions.values()),
        "",
        "![how many times as much the peers took](results.svg)",
    ]
    for subject, measured in _by_subject(results):
        lines += _table(subject, measured)
    (folder / "RESULTS.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "results.svg").write_text(_chart(results), encoding="utf-8")


def _by_subject(results: _Results) -> Iterator[tuple[Subject, _Results]]:
    """Return the subjects that have measurements, with these."""
    for subject in SUBJECTS.values():
        measured = {name: results[name] for name in subject.cases if name in results}
        if measured:
            yield subject, measured


def _table(subject: Subject, measured: _Results) -> Iterator[str]:
    unit = next(iter(subject.cases.values())).unit
    yield from ("", f"## {subject.title}", "")
    yield f"| case | side | median | best | {unit.bytes} | ratio |"
    yield "|---|---|---|---|---|---|"
    for name, sides in measured.items():
        ours = summary(sides[OURS]).median
        for side, runs in sides.items():
            found = summary(runs)
            what = f"`{name}`: {subject.cases[name].title}" if side == OURS else ""
            ratio = "" if side == OURS else f"{found.median / ours:.1f}"
            amounts = f"{unit.written(found.median)} | {unit.written(found.best)}"
            yield f"| {what} | {side} | {amounts} | {size_written(found.bytes)} | {ratio} |"


def size_written(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB" if count >= 10 << 20 else f"{count / (1 << 10):.0f} KiB"


def _chart(results: _Results) -> str:
    """Draw a bar per library on a scale of factors. Bars to the left of 1 took less than deltaberg."""
    groups = [(subject.title, list(_factors(measured))) for subject, measured in _by_subject(results)]
    groups = [(title, bars) for title, bars in groups if bars]
    factors = [factor for _, bars in groups for _, factor in bars]
    ticks = [tick for tick in _TICKS if min(factors, default=1) / 2 < tick < 2 * max(factors, default=1)]
    low, high = math.log(min([*ticks, *factors, 0.5])), math.log(max([*ticks, *factors, 2]))

    def place(factor: float) -> float:
        return _LABEL + _WIDTH * (math.log(factor) - low) / (high - low)

    height = _ROW * (6 + sum(2 + len(bars) for _, bars in groups))
    width, bottom = _LABEL + _WIDTH + 70, height - 2 * _ROW
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="caption" {size}>',
        f'<title id="caption">{_CAPTION}</title>',
        "<style>text { font: 12px sans-serif } .subject { font-weight: bold }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="{_ROW}" class="subject">{_CAPTION}</text>',
    ]
    for left, (colour, meaning) in zip((8, 158), _LEGEND, strict=True):
        drawn.append(f'<rect x="{left}" y="{_ROW + 8}" width="10" height="10" fill="{colour}"/>')
        drawn.append(f'<text x="{left + 15}" y="{2 * _ROW}">{meaning}</text>')
    for tick in ticks:
        at, colour = place(tick), "#888" if tick == 1 else "#ddd"
        drawn.append(f'<line x1="{at:.1f}" y1="{3 * _ROW}" x2="{at:.1f}" y2="{bottom}" stroke="{colour}"/>')
        drawn += [
            f'<text x="{at:.1f}" y="{y}" text-anchor="middle" fill="#555">{tick:g} x</text>'
            for y in (3 * _ROW - 5, bottom + _ROW - 2)
        ]
    top = 3 * _ROW
    for title, bars in groups:
        top += 2 * _ROW
        drawn.append(f'<text x="8" y="{top - 8}" class="subject">{html.escape(title)}</text>')
        for label, factor in bars:
            start, stop = sorted((place(1), place(factor)))
            colour = _LEGEND[factor < 1][0]
            drawn.append(
                f'<text x="{_LABEL - 8}" y="{top + 12}" text-anchor="end">{html.escape(label)}</text>'
                f'<rect x="{start:.1f}" y="{top + 2}" width="{max(stop - start, 1):.1f}" height="{_ROW - 5}"'
                f' fill="{colour}"/>'
                f'<text x="{stop + 5:.1f}" y="{top + 12}">{factor:.1f}</text>'
            )
            top += _ROW
    return "\n".join([*drawn, "</svg>"]) + "\n"


def _factors(measured: _Results) -> Iterator[tuple[str, float]]:
    for name, sides in measured.items():
        for side, runs in sides.items():
            if side != OURS:
                yield f"{name}: {side}", summary(runs).median / summary(sides[OURS]).median
