"""The clauses of a merge, in the words of delta-spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from deltaberg.delta.table import DeltaTable as Table
from deltaberg.errors import InvalidArgumentError
from deltaberg.signatures import public
from deltaberg.spark.columns.sql_text import column_text
from deltaberg.spark.hints import in_delta_words
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.tables.texts import SourceColumns, source_alias, texts_of
from deltaberg.table.merge.clauses import MergeBuilder

__all__ = ["DeltaMergeBuilder"]

_COLUMNS = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")


@public
class DeltaMergeBuilder:
    """A merge to which clauses are added in turn, and which `execute` carries out.

    For each row, the first clause counts whose condition is true. Conditions and values are SQL text or Columns, which
    may be columns of the source, such as ``updates["id"]``; only the last clause of a kind can do without a condition.
    """

    def __init__(
        self, facts: SessionFacts, newest: Callable[[], Table], alias: str | None, source: DataFrame, condition: Any
    ) -> None:
        if not callable(getattr(source, "mapInArrow", None)):
            raise InvalidArgumentError(
                f"the source of the merge is not a DataFrame of Spark, but {type(source).__name__}",
                hint="deltaberg.DeltaTable.merge takes other data",
            )
        self._facts = facts
        self._newest = newest
        self._target = alias or "target"
        self._source = source
        self._of_source = SourceColumns(source)
        self._on = column_text(condition, facts, self._of_source)
        self._clauses: list[tuple[str, str | None, dict[str, str] | None]] = []
        self._evolves = False

    def whenMatchedUpdate(self, condition: Any = None, set: Mapping[str, Any] | None = None) -> DeltaMergeBuilder:
        """Set columns of the rows that match, to SQL text or Columns."""
        return self._add("when_matched_update", condition, self._texts(set, "set"))

    def whenMatchedUpdateAll(self, condition: Any = None) -> DeltaMergeBuilder:
        """Set all columns of the rows that match to those of the source with the same names."""
        return self._add("when_matched_update_all", condition)

    def whenMatchedDelete(self, condition: Any = None) -> DeltaMergeBuilder:
        """Delete the rows that match."""
        return self._add("when_matched_delete", condition)

    def whenNotMatchedInsert(self, condition: Any = None, values: Mapping[str, Any] | None = None) -> DeltaMergeBuilder:
        """Insert a row for each row of the source that matches none of the table."""
        return self._add("when_not_matched_insert", condition, self._texts(values, "values"))

    def whenNotMatchedInsertAll(self, condition: Any = None) -> DeltaMergeBuilder:
        """Insert each row of the source that matches none of the table, column by column."""
        return self._add("when_not_matched_insert_all", condition)

    def whenNotMatchedBySourceUpdate(
        self, condition: Any = None, set: Mapping[str, Any] | None = None
    ) -> DeltaMergeBuilder:
        """Set columns of the rows of the table that match no row of the source."""
        return self._add("when_not_matched_by_source_update", condition, self._texts(set, "set"))

    def whenNotMatchedBySourceDelete(self, condition: Any = None) -> DeltaMergeBuilder:
        """Delete the rows of the table that match no row of the source."""
        return self._add("when_not_matched_by_source_delete", condition)

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Add columns of the source that the table lacks, as far as clauses take or assign them."""
        self._evolves = True
        return self

    @in_delta_words
    def execute(self) -> DataFrame:
        """Carry out the merge, and commit it; see `deltaberg.table.rewrite.MergeBuilder.execute` for errors.

        Returns
        -------
        DataFrame
            One row with the numbers of rows that were updated, deleted and inserted.
        """
        texts = [self._on]
        for _, condition, values in self._clauses:
            texts += [condition] if condition is not None else []
            texts += (values or {}).values()
        alias = source_alias(self._source, texts, self._target)
        self._of_source.check_condition(self._on, alias)
        named = partial(self._of_source.with_alias, alias=alias)
        merge: MergeBuilder[Any] = self._newest().merge(
            self._source,
            named(self._on),
            source_alias=alias,
            target_alias=self._target,
            schema_mode="merge" if self._evolves else None,
        )
        for name, condition, values in self._clauses:
            when = None if condition is None else named(condition)
            new = [] if values is None else [{column: named(text) for column, text in values.items()}]
            getattr(merge, name)(*new, when)
        done = merge.execute()
        numbers = [count or 0 for count in (done.updated_rows, done.deleted_rows, done.inserted_rows)]
        row = (sum(numbers), *numbers)
        return self._facts.session.createDataFrame([row], ", ".join(f"{name} bigint" for name in _COLUMNS))

    def _add(self, name: str, condition: Any, values: dict[str, str] | None = None) -> DeltaMergeBuilder:
        text = None if condition is None else column_text(condition, self._facts, self._of_source)
        self._clauses.append((name, text, values))
        return self

    def _texts(self, values: Mapping[str, Any] | None, what: str) -> dict[str, str]:
        return texts_of(values, what, self._facts, self._of_source)
