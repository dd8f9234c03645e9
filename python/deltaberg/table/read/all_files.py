"""What sources have in common that read all of their files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa

from deltaberg.expressions.compute.bound import Bound
from deltaberg.pruning.stats import FileStats
from deltaberg.schema.types import Field
from deltaberg.table.read.source import FileSelection

__all__ = ["AllFiles"]


class AllFiles(ABC):
    """The part of a `ScanSource` whose files are known as a whole, and of whose values nothing is known."""

    @property
    @abstractmethod
    def _files(self) -> pa.Table:
        """Return the file table."""

    def select_files(self, condition: Bound) -> FileSelection:
        """Return all files: no metadata stands above that of single files, which could exclude some."""
        return FileSelection.of_all(self._files)

    def statistics(self, numbers: pa.Int64Array | None, columns: Sequence[tuple[Field, ...]]) -> FileStats:
        """Return that nothing is known of the values in the files."""
        return FileStats.unknown(len(self._files) if numbers is None else len(numbers))

    def with_all_deletes(self, files: pa.Table) -> pa.Table:
        """Return the files as they are: no condition left out what deletes their rows."""
        return files
