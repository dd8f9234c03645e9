"""How the tables of names are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

__all__ = ["SAME", "Names"]

#: For each public name, what to write here, with code between backticks. Code that names no object is of the object
#: that the name was looked for on.
Names: TypeAlias = Mapping[str, str]

#: The name works here as it does there.
SAME = "the same"
