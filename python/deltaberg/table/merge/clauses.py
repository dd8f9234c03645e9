"""The clauses of a merge: what becomes of rows that match, and of rows on either side that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar

from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions.build.filters import Condition
from deltaberg.lists import is_list
from deltaberg.schema.columns import ColumnValues, UpdateWords, column_names
from deltaberg.signatures import NEEDED, public, takes
from deltaberg.table.arguments import checked_text
from deltaberg.table.change.assignments import checked_values

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["MATCHED", "NOT_MATCHED", "NOT_MATCHED_BY_SOURCE", "MergeBuilder", "MergeClause"]

MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE = "matched", "not matched", "not matched by source"

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class MergeClause:
    """One clause of a merge.

    Parameters
    ----------
    when
        ``matched``, ``not matched`` (rows of the source that match no row of the table) or ``not matched by source``.
    action
        ``update``, ``delete`` or ``insert``.
    condition
        Which of these rows the clause applies to; None for all.
    values
        The new values by column; None for the columns of the source.
    excluded
        Columns that are left out where all columns are taken from the source.
    """

    when: str
    action: str
    condition: Condition | None = None
    values: ColumnValues | None = None
    excluded: Sequence[str] = field(default=())


class ClauseWords(TypedDict, total=False):
    """Words of other libraries for what a clause takes."""

    predicate: Condition | None


class ValueClauseWords(ClauseWords, UpdateWords, total=False):
    """The same of a clause with new values."""


@public
class MergeBuilder(Generic[_Result]):
    """A merge to which clauses are added in turn, and which `execute` carries out.

    For each row, the first clause counts whose condition is true. Values and conditions are SQL, `col` expressions or
    Python values. Names of deltalake (``updates``, ``predicate``) work for the parameters as well.

    Examples
    --------
    >>> import pyarrow as pa
    >>> source = pa.table({"id": [2, 9], "name": ["B", "new"]})
    >>> merge = table.merge(source, "target.id = source.id").when_matched_update({"name": "source.name"})
    >>> result = merge.when_not_matched_insert_all().execute()
    >>> result.metrics["numTargetRowsUpdated"], result.metrics["numTargetRowsInserted"]
    (1, 1)
    """

    def __init__(self, run: Callable[[tuple[MergeClause, ...]], _Result], table_at: str) -> None:
        self._run = run
        self._table_at = table_at
        self._clauses: list[MergeClause] = []

    @takes(ValueClauseWords)
    def when_matched_update(
        self,
        set: ColumnValues = NEEDED,
        condition: Condition | None = None,
        **words: Unpack[ValueClauseWords],
    ) -> MergeBuilder[_Result]:
        """Set columns of rows that match.

        Parameters
        ----------
        set
            The new values, by the names of columns. Other columns keep their values, but for generated columns, which
            are computed again. The keyword ``DEFAULT`` is the default value of the column.
        condition
            Which of the rows that match are updated; None for all.
        **words
            Words of deltalake: ``updates`` for ``set``, and ``predicate`` for ``condition``.
        """
        return self._add(MATCHED, "update", condition, checked_values(set))

    @takes(ClauseWords)
    def when_matched_update_all(
        self, condition: Condition | None = None, *, except_cols: str | Iterable[str] = (), **words: Unpack[ClauseWords]
    ) -> MergeBuilder[_Result]:
        """Set all columns of rows that match to those of the source with the same names.

        Parameters
        ----------
        except_cols
            Columns that keep their values. A text is one name.
        """
        return self._add(MATCHED, "update", condition, None, except_cols)

    @takes(ClauseWords)
    def when_matched_delete(
        self, condition: Condition | None = None, **words: Unpack[ClauseWords]
    ) -> MergeBuilder[_Result]:
        """Delete rows that match."""
        return self._add(MATCHED, "delete", condition)

    @takes(ValueClauseWords)
    def when_not_matched_insert(
        self,
        values: ColumnValues = NEEDED,
        condition: Condition | None = None,
        **words: Unpack[ValueClauseWords],
    ) -> MergeBuilder[_Result]:
        """Insert a row for each row of the source that matches none of the table.

        Parameters
        ----------
        values
            The values, by the names of columns. Other columns get their default, generated or identity values, or else
            are null.
        condition
            Which of the rows of the source are inserted; None for all.
        **words
            Words of deltalake: ``updates`` for ``values``, and ``predicate`` for ``condition``.
        """
        return self._add(NOT_MATCHED, "insert", condition, checked_values(values))

    @takes(ClauseWords)
    def when_not_matched_insert_all(
        self, condition: Condition | None = None, *, except_cols: str | Iterable[str] = (), **words: Unpack[ClauseWords]
    ) -> MergeBuilder[_Result]:
        """Insert each row of the source that matches none of the table, column by column.

        Parameters
        ----------
        except_cols
            Columns that are filled in the new rows as those are that ``values`` of `when_not_matched_insert` lacks. A
            text is one name.
        """
        return self._add(NOT_MATCHED, "insert", condition, None, except_cols)

    @takes(ValueClauseWords)
    def when_not_matched_by_source_update(
        self,
        set: ColumnValues = NEEDED,
        condition: Condition | None = None,
        **words: Unpack[ValueClauseWords],
    ) -> MergeBuilder[_Result]:
        """Set columns of rows of the table that match no row of the source; see `when_matched_update`."""
        return self._add(NOT_MATCHED_BY_SOURCE, "update", condition, checked_values(set))

    @takes(ClauseWords)
    def when_not_matched_by_source_delete(
        self, condition: Condition | None = None, **words: Unpack[ClauseWords]
    ) -> MergeBuilder[_Result]:
        """Delete rows of the table that match no row of the source."""
        return self._add(NOT_MATCHED_BY_SOURCE, "delete", condition)

    def execute(self) -> _Result:
        """Carry out the merge, and commit it.

        Raises
        ------
        InvalidArgumentError
            There is no clause.
        ConstraintViolationError
            A row of the table matches several rows of the source, so that it is not clear what becomes of it. Nothing
            was written.
        EvaluationError
            A value cannot be computed, or does not fit its column.
        CommitConflictError
            Another commit changed rows that may match.
        """
        if not self._clauses:
            raise InvalidArgumentError("the merge has no clauses", hint="say what becomes of rows that match")
        return self._run(tuple(self._clauses))

    def _add(
        self,
        when: str,
        action: str,
        condition: Condition | None,
        values: ColumnValues | None = None,
        excluded: str | Iterable[str] = (),
    ) -> MergeBuilder[_Result]:
        if is_list(condition):
            raise InvalidArgumentError(
                f"a {type(condition).__name__} is no condition of a clause",
                hint="write it as SQL text, such as source.id > 3, or with col",
            )
        if any(clause.when == when and clause.condition is None for clause in self._clauses):
            raise InvalidArgumentError(
                f"a clause for rows that are {when} follows one without a condition, and would never count",
                hint="only the last clause of a kind can do without a condition",
            )
        names = tuple(
            checked_text("a name in except_cols", name, "pass names of columns")
            for name in column_names(excluded, ordered=False)
        )
        self._clauses.append(MergeClause(when, action, condition, values, names))
        return self
