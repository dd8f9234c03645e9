"""Commands that compare a table with its store, and take out of it what is lost: verify, repair."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

import click

from deltaberg.choices import VerifyDepth
from deltaberg.cli.commands.verb_commands import write_command
from deltaberg.cli.confirm import Question, asking_options, carry_out
from deltaberg.cli.place import TablePlace
from deltaberg.cli.show.output import print_json, print_lines, progress
from deltaberg.cli.show.results import print_done

if TYPE_CHECKING:
    from deltaberg import RepairResult, VerifyResult

__all__ = ["repair", "verify"]

#: The exit code of a verification that found something.
_FOUND = 1


@write_command()
@click.option(
    "--depth",
    type=click.Choice(get_args(VerifyDepth)),
    help="How closely files are looked at; by default their names, sizes and deletion vectors.",
)
def verify(place: TablePlace, as_json: bool, depth: VerifyDepth | None) -> None:
    """Compare what the metadata of a table says with what is in the store; nothing is changed.

    The exit code is 1 if there is a finding.
    """
    opened = place.open()
    with progress(f"verifying {opened.location}"):
        result = opened.verify(**({} if depth is None else {"depth": depth}))
    if as_json:
        findings = [asdict(finding) for finding in result.findings]
        counts = {"depth": result.depth, "checked": dict(result.checked), "counts": result.counts}
        print_json({"location": opened.location, "state": result.state, **counts, "findings": findings})
    else:
        print_lines(f"{opened.location}: {result.summary}", *(str(finding) for finding in result.findings))
    if not result.is_clean:
        raise click.exceptions.Exit(_FOUND)


@write_command("RecordedArguments")
@asking_options
def repair(place: TablePlace, as_json: bool, arguments: dict[str, Any], dry_run: bool, is_agreed: bool) -> None:
    """Take files that the store has lost out of a table; their rows are gone.

    The files are shown first, and taken out after a question.
    """
    opened = place.open()
    findings: VerifyResult | None = None

    def plan() -> RepairResult:
        nonlocal findings
        findings = opened.verify(depth="names")
        planned: RepairResult = opened.repair(findings, dry_run=True)
        return planned

    def question(planned: RepairResult) -> Question | None:
        is_due = planned.files or planned.refs or planned.statistics
        return Question(f"Take them out of {opened.location}?", [str(planned)]) if is_due else None

    carry_out(
        opened.location,
        "repairing",
        plan,
        lambda: opened.repair(findings, **arguments),
        lambda result: _print(opened.location, result, as_json),
        question,
        dry_run=dry_run,
        is_agreed=is_agreed,
    )


def _print(location: str, result: RepairResult, as_json: bool) -> None:
    if not as_json:
        print_lines(f"{location}: {result}")
        return
    facts = {"dry_run": result.dry_run, "rows": result.rows, "bytes": result.bytes, "warnings": result.warnings}
    facts |= {"refs": result.refs, "statistics": result.statistics}
    version = None if result.commit is None else result.commit.version
    files = [asdict(file) for file in result.files]
    print_done(location, {**facts, "version": version, "files": files}, as_json)
