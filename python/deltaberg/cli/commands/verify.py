"""Commands that compare a table with its store and remove lost files from it: verify, repair."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

import click

from deltaberg.choices import VerifyDepth
from deltaberg.cli.commands.verb_commands import write_command
from deltaberg.cli.confirm import Asking, Question, asking
from deltaberg.cli.options import table_command
from deltaberg.cli.show.output import Tell, print_json, print_lines, progress
from deltaberg.cli.show.results import in_words

if TYPE_CHECKING:
    from deltaberg import DeltaTable, IcebergTable, RepairResult, VerifyResult

__all__ = ["repair", "verify"]

#: The exit code of a verification that found something.
_FOUND = 1


@table_command
@click.option(
    "--depth",
    type=click.Choice(get_args(VerifyDepth)),
    help="How closely files are looked at; by default their names, sizes and deletion vectors.",
)
def verify(table: DeltaTable | IcebergTable, as_json: bool, depth: VerifyDepth | None) -> None:
    """Compare what the metadata of a table says with what is in the store; nothing is changed.

    Of an Iceberg table, all branches and tags are verified, or the one that is named. The exit code is 1 if there is a
    finding.
    """
    with progress(f"verifying {table.location}") as tell:
        result = table.verify(**({} if depth is None else {"depth": depth}), progress=tell)
    if as_json:
        findings = [asdict(finding) for finding in result.findings]
        counts = {"depth": result.depth, "checked": dict(result.checked), "counts": result.counts}
        print_json({"location": table.location, "state": result.state, **counts, "findings": findings})
    else:
        print_lines(f"{table.location}: {result.summary}", *(str(finding) for finding in result.findings))
    if not result.is_clean:
        raise click.exceptions.Exit(_FOUND)


@write_command("RecordedArguments")
@asking()
def repair(opened: Any, asking: Asking, arguments: dict[str, Any]) -> None:
    """Take files that the store has lost out of a table; their rows are gone.

    The files are shown first, and taken out after a question.
    """
    findings: VerifyResult | None = None

    def run(dry_run: bool, tell: Tell) -> RepairResult:
        nonlocal findings
        if dry_run:
            findings = opened.verify(depth="names", progress=tell)
        done: RepairResult = opened.repair(findings, dry_run=dry_run, progress=tell, **arguments)
        return done

    def show(result: RepairResult) -> None:
        facts = {"dry_run": result.dry_run, "rows": result.rows, "bytes": result.bytes, "warnings": result.warnings}
        facts |= {"refs": result.refs, "statistics": result.statistics}
        version = None if result.commit is None else result.commit.version
        asking.print(result, {**facts, "version": version, "files": [asdict(file) for file in result.files]})

    def question(planned: RepairResult) -> Question | None:
        is_due = planned.files or planned.refs or planned.statistics
        return Question(f"Take them out of {opened.location}?", [in_words(planned)]) if is_due else None

    asking.carry_out("repairing", run, show, question)
