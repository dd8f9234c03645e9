"""The arguments and verbs that one format lacks, which are refused by one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltaberg.errors import UnsupportedFeatureError
from deltaberg.hints import Hint

__all__ = ["DELTA", "ICEBERG", "TableFormat"]


@dataclass(frozen=True)
class TableFormat:
    """The format of a table.

    Parameters
    ----------
    own, other
        What its tables are called, with an article, and the name of the other format.
    lacks
        The arguments that only tables of the other format have, and what to do instead of each.
    """

    own: str
    other: str
    lacks: Mapping[str, str]

    def why_not(self, name: str) -> Hint:
        """Return why tables of the format do not take something."""
        return Hint(f"⟪{name}⟫ applies only to {self.other} tables; this is {self.own} table")

    def refuse(self, arguments: object, table: str) -> None:
        """Refuse arguments that tables of the format do not have.

        Parameters
        ----------
        arguments
            The arguments, as attributes; those that are None were not given.

        Raises
        ------
        UnsupportedFeatureError
            One was given.
        """
        for name, instead in self.lacks.items():
            if getattr(arguments, name, None) is not None:
                raise UnsupportedFeatureError(self.why_not(name), hint=instead, table=table, feature=Hint(f"⟪{name}⟫"))


DELTA = TableFormat(
    "a Delta",
    "Iceberg",
    {
        "branch": "leave it out: a Delta table has no branches",
        "catalog": "leave it out, and pass a location",
        "spec_id": "pass ⟪where=⟫ with a condition on partition columns",
        "sort_by": "sort the rows before they are written, or pass ⟪cluster_by=⟫",
    },
)
ICEBERG = TableFormat(
    "an Iceberg",
    "Delta",
    {
        "app_transactions": "leave it out of ⟪commit_properties=⟫",
        "cluster_by": "pass ⟪sort_by=⟫",
        "name": "leave it out, or pass ⟪description=⟫",
        "post_commithook_properties": "set write.metadata.delete-after-commit.enabled",
        "user_metadata": "pass ⟪properties=⟫",
    },
)
