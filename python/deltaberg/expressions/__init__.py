"""Values and conditions: written as SQL text, with `col` or as tuples; bound to a schema; evaluated on rows.

There is one tree of values, and conditions are those that are booleans. What pruning takes is derived from what a
condition was bound to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaberg.lazy_names import lazy_names

if TYPE_CHECKING:
    from deltaberg.expressions.bind.bind import BoundValue, bind_value

__all__ = ["BoundValue", "bind_value"]

_HOMES = {"BoundValue": "bind.bind", "bind_value": "bind.bind"}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
