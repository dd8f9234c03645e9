"""What verbs read of objects of deltalake, which need not be installed: type checkers and people see it here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

__all__ = ["CommitProperties", "PostCommitHookProperties", "WriterProperties"]


class CommitProperties(Protocol):
    """``CommitProperties``: what a commit records, and how often it is tried."""

    @property
    def custom_metadata(self) -> Mapping[str, Any] | None:
        """The properties by name."""

    @property
    def max_commit_retries(self) -> int | None:
        """How often the commit is tried again."""

    @property
    def app_transactions(self) -> Iterable[Any] | None:
        """The applications that have come further."""


class PostCommitHookProperties(Protocol):
    """``PostCommitHookProperties``: what follows a commit."""

    @property
    def create_checkpoint(self) -> bool:
        """Whether a checkpoint may be written."""

    @property
    def cleanup_expired_logs(self) -> bool | None:
        """Whether the log is cleaned up."""


class WriterProperties(Protocol):
    """``WriterProperties``: how Parquet files are written."""

    @property
    def max_row_group_size(self) -> int | None:
        """Rows of a row group at most."""

    @property
    def compression(self) -> str | None:
        """The codec of all columns, perhaps with a level."""

    @property
    def column_properties(self) -> Mapping[str, Any] | None:
        """How single columns are written."""
