"""Rewriting manifests: a snapshot with the same files, whose manifests are fewer and cover ranges of partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deltaberg.iceberg.maintain.manifest_rewriting.manifest_plan import ManifestGroup, ManifestRewrite, plan_rewrite
from deltaberg.iceberg.maintain.manifest_rewriting.regrouped_entries import RegroupedManifests
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.table.commit.commit import CommitResult
from deltaberg.whole_numbers import counted

__all__ = ["ManifestRewriteResult", "rewrite_manifests"]


@dataclass(frozen=True)
class ManifestRewriteResult:
    """The result of a rewrite of manifests, or of its dry run.

    Parameters
    ----------
    rewritten_manifests, added_manifests
        How many manifests were replaced, and how many took their place.
    entries
        How many live files these have.
    dry_run
        Whether nothing was written: then the numbers are those that are expected.
    commit
        The commit; None for a dry run, and where all manifests are in order.
    """

    rewritten_manifests: int = 0
    added_manifests: int = 0
    entries: int = 0
    dry_run: bool = False
    commit: CommitResult | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        done = "would rewrite" if self.dry_run else "rewrote"
        counts = f"{counted(self.rewritten_manifests, 'manifest')} into {self.added_manifests}"
        counts += f", {counted(self.entries, 'entry', 'entries')}"
        return f"ManifestRewriteResult({done} {counts})"


def rewrite_manifests(begin: Callable[[], Transaction], asked: ManifestRewrite) -> ManifestRewriteResult:
    """Rewrite manifests of a snapshot, or find out which would be rewritten.

    If another commit replaces one of them meanwhile, the rewrite is planned anew, as often as a commit is tried again.

    Parameters
    ----------
    begin
        What begins a transaction.
    asked
        What is asked for.

    Raises
    ------
    InvalidArgumentError
        The table has no such spec.
    CorruptMetadataError
        A manifest does not hold what the manifest list says.
    CommitConflictError
        Other commits replaced manifests every time.
    """
    with begin() as transaction:
        if asked.dry_run:
            groups = plan_rewrite(transaction.source, asked)
            transaction.abort()
            return _result(groups, sum(group.count for group in groups), dry_run=True)
        planned = _Planned(transaction, asked)
        planned.run()
        commit = transaction.commit()
        if not commit.committed or planned.made is None:
            return ManifestRewriteResult()
        return _result(planned.groups, planned.made.added, commit=commit)


class _Planned:
    """A rewrite as it is planned on the newest state of the table."""

    def __init__(self, transaction: Transaction, asked: ManifestRewrite) -> None:
        self._transaction = transaction
        self._asked = asked
        self.groups: Sequence[ManifestGroup] = ()
        self.made: RegroupedManifests | None = None

    def run(self) -> None:
        with self._transaction.operation("rewrite manifests", again=self.run):
            self.groups, self.made = plan_rewrite(self._transaction.source, self._asked), None
            if self.groups:
                self.made = RegroupedManifests(self.groups, int(self._transaction.token), self._transaction.tell)
                self._transaction.regroup_manifests(self.made)


def _result(
    groups: Sequence[ManifestGroup], added: int, *, dry_run: bool = False, commit: CommitResult | None = None
) -> ManifestRewriteResult:
    rewritten = sum(len(group.rows) for group in groups)
    return ManifestRewriteResult(rewritten, added, sum(group.entries for group in groups), dry_run, commit)
