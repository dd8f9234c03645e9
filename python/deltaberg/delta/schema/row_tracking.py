"""The hidden columns that keep the ids of rows which move to other files (Delta protocol, "Row Tracking")."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from deltaberg.errors import InvalidArgumentError
from deltaberg.schema.types import Struct

__all__ = ["MATERIALIZED_ROW_COLUMNS", "ROW_TRACKING", "check_hidden_names", "hidden_names"]

#: The property that enables row tracking.
ROW_TRACKING = "delta.enableRowTracking"
#: Hidden columns with the ids and commit versions of rows that moved. Each table gives them names of its own.
MATERIALIZED_ROW_COLUMNS = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-",
}


def hidden_names(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that name the hidden columns of a table; a name that there is stays.

    Examples
    --------
    >>> names = hidden_names({"delta.rowTracking.materializedRowIdColumnName": "_ids"})
    >>> [name[:24] for name in names.values()]
    ['_ids', '_row-commit-version-col-']
    """
    return {key: properties.get(key) or f"{prefix}{uuid.uuid4()}" for key, prefix in MATERIALIZED_ROW_COLUMNS.items()}


def check_hidden_names(schema: Struct, properties: Mapping[str, str]) -> None:
    """Refuse columns that have the name of a hidden column, to users or in files.

    Raises
    ------
    InvalidArgumentError
        One has.
    """
    hidden = {properties[key].lower() for key in MATERIALIZED_ROW_COLUMNS if key in properties}
    for field in schema:
        if hidden & {field.name.lower(), field.physical_name.lower()}:
            raise InvalidArgumentError(
                f"the name {field.name} belongs to a hidden column, which keeps the ids of rows",
                hint="choose another name for the column",
                column=field.name,
            )
