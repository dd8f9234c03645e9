"""Tables that a test describes, opened at once."""

from __future__ import annotations

from typing import Any

from deltaberg import open_table
from tests.support.delta_builder import DeltaBuilder

__all__ = ["opened"]


def opened(builder: DeltaBuilder, schema: Any, *adds: Any, **create: Any) -> Any:
    """Create a table, and open it; the arguments are those of `DeltaBuilder.create`."""
    builder.create(schema, *adds, **create)
    return open_table(builder.root)
