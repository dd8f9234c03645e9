"""The verbs by which a transaction of any format changes rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from deltaberg.schema import ColumnName
from deltaberg.signatures import public
from deltaberg.table.rewrite.clauses import MergeBuilder, MergeClause
from deltaberg.table.rewrite.conditions import Condition
from deltaberg.table.rewrite.merge_options import MergeOptions
from deltaberg.table.write import RowOptions

__all__ = ["RowVerbs"]


@public
class RowVerbs(ABC):
    """The part of a transaction with verbs that change rows."""

    @abstractmethod
    def _delete_rows(self, where: Condition | None, options: RowOptions, strategy: str | None) -> None:
        """Delete rows."""

    @abstractmethod
    def _update_rows(
        self, values: Mapping[ColumnName, Any], where: Condition | None, options: RowOptions, strategy: str | None
    ) -> None:
        """Set columns of rows."""

    @abstractmethod
    def merge_clauses(self, source: Any, on: Any, clauses: Sequence[MergeClause], options: MergeOptions) -> None:
        """Merge rows, including into those that the transaction has written; `merge` of the table makes the clauses."""

    def delete(
        self,
        where: Condition | None,
        *,
        strategy: str | None = None,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
    ) -> None:
        """Delete the rows that match a condition, including those that the transaction has written.

        The parameters, and the exceptions besides those of a commit, are those of the table's verb.
        """
        options = RowOptions(
            target_file_size=target_file_size, compression=compression, writer_properties=writer_properties
        )
        self._delete_rows(where, options, strategy)

    def update(
        self,
        set: Mapping[ColumnName, Any],
        where: Condition | None = None,
        *,
        strategy: str | None = None,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
    ) -> None:
        """Set columns of the rows that match a condition, including rows that the transaction has written.

        The parameters, and the exceptions besides those of a commit, are those of the table's verb.
        """
        options = RowOptions(
            target_file_size=target_file_size, compression=compression, writer_properties=writer_properties
        )
        self._update_rows(set, where, options, strategy)

    def merge(
        self,
        source: Any,
        on: Any,
        *,
        source_alias: str = "source",
        target_alias: str = "target",
        schema_mode: str | None = None,
        strategy: str | None = None,
        memory: int | None = None,
        timezone: str | None = None,
        allow_truncation: bool = False,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
    ) -> MergeBuilder[None]:
        """Begin a merge of other rows, including into those that the transaction has written.

        The parameters, and the exceptions besides those of a commit, are those of the table's verb.
        """
        rows = RowOptions(schema_mode, timezone, allow_truncation, target_file_size, compression, writer_properties)
        options = MergeOptions(rows, source_alias, target_alias, strategy, memory)
        return MergeBuilder(lambda clauses: self.merge_clauses(source, on, clauses, options))
