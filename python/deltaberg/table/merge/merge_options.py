"""The options of a merge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import DeltabergError, InvalidArgumentError
from deltaberg.expressions.build.filters import as_value
from deltaberg.expressions.tree.tree import ColumnValue
from deltaberg.hints import Hint
from deltaberg.lists import is_list, listed
from deltaberg.table.arguments import checked_text, fields_given
from deltaberg.table.rows.row_options import RowOptions

__all__ = ["MergeOptions"]


@dataclass(frozen=True)
class MergeOptions:
    """How a merge is carried out.

    Parameters
    ----------
    rows
        How rows are written.
    source_alias, target_alias
        What the source and the table are called in conditions and values.
    strategy
        ``merge-on-read`` or ``copy-on-write``; None for what the table says.

    Raises
    ------
    InvalidArgumentError
        An option is not valid.
    """

    rows: RowOptions = field(default_factory=RowOptions)
    source_alias: str = "source"
    target_alias: str = "target"
    strategy: str | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> MergeOptions:
        """Return those of some arguments that are about a merge."""
        return cls(RowOptions.of(arguments), **fields_given(cls, arguments))

    def __post_init__(self) -> None:
        for name in ("source_alias", "target_alias"):
            checked_text(name, getattr(self, name), "pass a name")
        if self.source_alias.lower() == self.target_alias.lower():
            raise InvalidArgumentError("the table and the source have one alias", hint="pass another ⟪source_alias⟫")
        if self.rows.schema_mode == "overwrite":
            raise InvalidArgumentError(
                Hint('⟪schema_mode="overwrite"⟫ would leave the rows of the table without their columns'),
                hint='use ⟪schema_mode="merge"⟫ to add columns',
            )

    def check_condition(self, on: Any) -> None:
        """Refuse what cannot be the condition of a merge, whatever the columns are.

        Raises
        ------
        InvalidArgumentError
            There is none.
        ExpressionError
            It is no SQL expression.
        """
        if on is None:
            raise InvalidArgumentError(
                "a merge needs a condition",
                hint=f"say which rows match, such as {self.target_alias}.id = {self.source_alias}.id",
            )
        if is_list(on):
            named = next((one for one in listed(on) if isinstance(one, str)), "id")
            raise InvalidArgumentError(f"a {type(on).__name__} is no condition of a merge", hint=self._match(named))
        as_value(on)

    def misunderstood(self, on: Any, error: DeltabergError) -> DeltabergError:
        """Return the error for a condition that does not fit the columns, which may be meant as the name of a key."""
        value = as_value(on)
        if not isinstance(value, ColumnValue):
            return error
        path = value.path
        if len(path) > 1 and path[0].lower() in (self.source_alias.lower(), self.target_alias.lower()):
            path = path[1:]
        name = f"{ColumnValue(path)!s:.100}"
        return InvalidArgumentError(
            f"the condition of the merge is a column alone, {value!s:.100}: {error.message:.200}",
            hint=f"{self._match(name)}, or {self.target_alias}.{name} for those where it is true",
        )

    def _match(self, name: object) -> str:
        return f"say which rows match: {self.target_alias}.{name} = {self.source_alias}.{name}"

    @property
    def evolves(self) -> bool:
        """Whether columns of the source that the table lacks are added."""
        return self.rows.schema_mode == "merge"
