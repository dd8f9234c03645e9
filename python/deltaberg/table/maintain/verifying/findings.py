"""The result of `verify`: one finding for each file or fact on which metadata and store disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from deltaberg.choices import VerifyDepth
from deltaberg.signatures import public

__all__ = [
    "CHECKSUM",
    "DAMAGED",
    "DANGLING",
    "DATA_FILE",
    "MISSING",
    "ROWS",
    "SIZE",
    "UNCHECKED",
    "VECTOR",
    "VIOLATION",
    "Finding",
    "VerifyResult",
    "first_lines",
    "first_paths",
]

#: What findings are about, of tables of both formats.
DATA_FILE = "data file"
VECTOR = "deletion vector"
#: The kinds of findings.
MISSING = "missing"
UNCHECKED = "unchecked"
SIZE = "size"
ROWS = "rows"
DAMAGED = "damaged"
CHECKSUM = "checksum"
DANGLING = "dangling"
VIOLATION = "violation"
#: How many findings are shown where all are printed together.
_MOST_SHOWN = 20
_MOST_ON_A_LINE = 10


def first_paths(paths: Sequence[str]) -> str:
    """Return the first of some paths on one line, with dots in place of others.

    Examples
    --------
    >>> first_paths(["a b", "c"])
    "'a b', 'c'"
    """
    return ", ".join([*map(repr, paths[:_MOST_ON_A_LINE]), *(["..."] if len(paths) > _MOST_ON_A_LINE else [])])


def first_lines(items: Sequence[object]) -> list[str]:
    """Return the first of some things, a line each, and how many more there are."""
    left = len(items) - _MOST_SHOWN
    return [*(f"  {item}" for item in items[:_MOST_SHOWN]), *([f"  and {left} more"] if left > 0 else [])]


@public
@dataclass(frozen=True)
class Finding:
    """One thing that is not as the metadata of a table says.

    Parameters
    ----------
    kind
        ``missing`` (the store certainly lacks the file), ``unchecked`` (the store gave no answer, so that nothing is
        known), ``size`` (another number of bytes), ``rows`` (another number of rows), ``damaged`` (the file cannot be
        decoded, or is none), ``checksum`` (a version checksum states another number than the log), ``dangling`` (a
        name of what the table does not have), ``violation`` (the format does not allow what is recorded).
    what
        What it is about, such as ``data file`` or ``deletion vector``.
    path
        Where the file is, or should be.
    named_by
        What names it: a version, a snapshot, a checkpoint, a manifest or a data file.
    expected, found
        What the metadata says and what is there, where that is a number or a text.

    Examples
    --------
    >>> print(Finding("size", "data file", "/t/a.parquet", "version 3", 700, 12))
    size: the data file /t/a.parquet, which version 3 names: expected 700, found 12
    """

    kind: str
    what: str
    path: str
    named_by: str
    expected: int | str | None = None
    found: int | str | None = None

    def __str__(self) -> str:
        values = (("expected", self.expected), ("found", self.found))
        shown = ", ".join(f"{name} {value}" for name, value in values if value is not None)
        return f"{self.kind}: the {self.what} {self.path}, which {self.named_by} names{f': {shown}' if shown else ''}"


@public
@dataclass(frozen=True, repr=False)
class VerifyResult:
    """The result of `verify`: the number of files that it looked at, and its findings.

    Parameters
    ----------
    state
        The version or snapshot that was verified, such as ``version 3``.
    depth
        How closely its files were looked at.
    findings
        What is not as the metadata says. It is empty if all is well.
    checked
        How many files, or parts of files, of each sort were looked at.

    Examples
    --------
    >>> VerifyResult("version 3", "names", checked={"data file": 2})
    VerifyResult(version 3, depth names: no findings; checked: 2 data files)
    """

    state: str
    depth: VerifyDepth
    findings: tuple[Finding, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing that is not as the metadata says, and nothing that could not be checked."""
        return not self.findings

    @property
    def counts(self) -> dict[str, int]:
        """The number of findings of each kind."""
        return dict(Counter(finding.kind for finding in self.findings))

    @property
    def summary(self) -> str:
        """What was looked at and found, in numbers."""
        found = ", ".join(f"{count} {kind}" for kind, count in self.counts.items()) or "no findings"
        checked = ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for what, count in self.checked.items())
        return f"{self.state}, depth {self.depth}: {found}; checked: {checked or 'nothing'}"

    def __repr__(self) -> str:
        return f"VerifyResult({self.summary})"

    def __str__(self) -> str:
        """Return the numbers on one line, and the first findings on the lines below it."""
        return "\n".join([self.summary, *first_lines(self.findings)])

    def _repr_html_(self) -> str:
        """Return the numbers and the first findings, for notebooks."""
        heads = ("kind", "what", "path", "named by", "expected", "found")
        rows = [
            (one.kind, one.what, one.path, one.named_by, one.expected, one.found) for one in self.findings[:_MOST_SHOWN]
        ]
        if not rows:
            return f"<p>{escape(self.summary)}</p>"
        cells = ("".join(f"<td>{'' if cell is None else escape(str(cell))}</td>" for cell in row) for row in rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        head = "".join(f"<th>{name}</th>" for name in heads)
        return f"<p>{escape(self.summary)}</p><table><tr>{head}</tr>{body}</table>"
