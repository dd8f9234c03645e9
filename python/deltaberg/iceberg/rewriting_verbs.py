"""The verbs that rewrite the delete files of an Iceberg table, and leave its rows as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from deltaberg.expressions.build.filters import Filter
from deltaberg.signatures import public, takes
from deltaberg.table.arguments import checked_flag, checked_number
from deltaberg.table.commit.commit import CommitPolicy
from deltaberg.table.verbs.shared_arguments import DescribedArguments
from deltaberg.table.verbs.table import Table, operations_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.iceberg.maintain.rewriting.delete_rewrite import DeleteRewrite, DeletesRequest
    from deltaberg.iceberg.maintain.rewriting.rewritten import RewriteDeletesResult
    from deltaberg.table.verbs.table_transaction import TableTransaction

__all__ = ["IcebergRewriting"]

_Transaction_co = TypeVar("_Transaction_co", bound="TableTransaction[Any, Any]", covariant=True)
_Alteration = TypeVar("_Alteration")


@public
class IcebergRewriting(Table[_Transaction_co, _Alteration]):
    """The delete files of an Iceberg table, written anew. No verb of it changes a row."""

    @takes(DescribedArguments)
    def convert_equality_deletes(
        self, where: Filter | None = None, *, dry_run: bool = False, **commit: Unpack[DescribedArguments]
    ) -> RewriteDeletesResult:
        """Turn equality deletes into deletes by position, so that the table is read as fast as without them.

        The keys of equality deletes are compared once with the rows of all files that they apply to, of which only the
        compared columns are read. The rows that they delete get deletion vectors, or position delete files before
        version 3 of the format. Equality deletes leave the table that then apply to nothing. Keys that others delete
        meanwhile stay. If others add files meanwhile to which one of the removed equality deletes applies, or take
        vectors or files away, the work is planned anew.

        Parameters
        ----------
        where
            Only rows of files in which rows can match this filter are looked at. Equality deletes that apply to further
            files stay, too.
        dry_run
            Only say how many equality delete files would go, and how many data files would be looked at.
        **commit
            How the commit is made: see `Verbs`.

        Returns
        -------
        RewriteDeletesResult
            The commit, and the delete files in numbers.

        Raises
        ------
        InvalidArgumentError
            An argument is not valid.
        UnsupportedFeatureError
            The table needs what is not written.
        CommitConflictError
            Others got in the way every time. Nothing was committed.
        CommitUnknownError
            It is not known whether the commit took effect.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> properties = {"format-version": "3"}
        >>> table = create_table(f"{new_path}/converted", {"id": pa.int64()}, format="iceberg", properties=properties)
        >>> _ = table.append(pa.table({"id": [1, 2, 3]}))
        >>> _ = table.delete_by_keys(pa.table({"id": [1, 3]}))
        >>> table.convert_equality_deletes()
        RewriteDeletesResult(1 delete files into 1, of 1 data files)
        >>> table.inspect("delete_files")["file_format"].to_pylist(), table.scan().to_arrow()["id"].to_pylist()
        (['PUFFIN'], [2])
        """
        from deltaberg.iceberg.maintain.rewriting.delete_rewrite import DeletesRequest
        from deltaberg.iceberg.maintain.rewriting.equality_conversion import EqualityConversion

        return self._rewrite_deletes(EqualityConversion, DeletesRequest(where), commit, dry_run=dry_run)

    @takes(DescribedArguments)
    def rewrite_position_delete_files(
        self,
        where: Filter | None = None,
        *,
        min_files: int = 5,
        rewrite_all: bool = False,
        dry_run: bool = False,
        **commit: Unpack[DescribedArguments],
    ) -> RewriteDeletesResult:
        """Join small position delete files of a partition, and drop what they say of data files that are gone.

        A file is small below three quarters of ``write.delete.target-file-size-bytes``. If each delete file is to be
        about one data file (``write.delete.granularity``), those are joined of which a data file has several, and those
        are divided that are about several. From version 3 of the format on, deletion vectors take the place of all
        position delete files, such as those from before an upgrade. Delete files and deletion vectors that apply to no
        data file leave the table. Deletes of others meanwhile stay. If others add files meanwhile to which one of the
        removed files applies, or take vectors or files away, the work is planned anew.

        Parameters
        ----------
        where
            Only deletes of rows of files in which rows can match this filter. Delete files that apply to further files
            stay.
        min_files
            How many files are joined at least.
        rewrite_all
            Rewrite position delete files whatever their size and their number.
        dry_run
            Only say how many delete files would go, and how many data files they may be about.
        **commit
            How the commit is made: see `Verbs`.

        Returns
        -------
        RewriteDeletesResult
            The commit, and the delete files in numbers.

        Raises
        ------
        InvalidArgumentError
            An argument, or a property of the table, is not valid.
        UnsupportedFeatureError
            The table needs what is not written.
        CommitConflictError
            Others got in the way every time. Nothing was committed.
        CommitUnknownError
            It is not known whether the commit took effect.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> properties = {"write.delete.granularity": "partition"}
        >>> table = create_table(f"{new_path}/joined", {"id": pa.int64()}, format="iceberg", properties=properties)
        >>> _ = table.append(pa.table({"id": list(range(10))}))
        >>> for number in range(5):
        ...     _ = table.delete(f"id = {number}", strategy="merge-on-read")
        >>> table.rewrite_position_delete_files()
        RewriteDeletesResult(5 delete files into 1, of 1 data files)
        """
        from deltaberg.iceberg.maintain.rewriting.delete_rewrite import DeletesRequest
        from deltaberg.iceberg.maintain.rewriting.position_rewrite import PositionRewrite

        least = checked_number("min_files", min_files, 2, "a single file cannot be joined; pass ⟪rewrite_all⟫")
        request = DeletesRequest(where, least, checked_flag("rewrite_all", rewrite_all))
        return self._rewrite_deletes(PositionRewrite, request, commit, dry_run=dry_run)

    def _rewrite_deletes(
        self, kind: type[DeleteRewrite], request: DeletesRequest, commit: Mapping[str, Any], *, dry_run: bool
    ) -> RewriteDeletesResult:
        from deltaberg.iceberg.maintain.rewriting.delete_rewrite import rewrite_deletes

        self._options.require_newest()
        policy = commit.get("policy")
        # Nothing is put by a dry run, so that the store need not be probed, which would write an object.
        said: Any = {**commit, "unsafe_single_writer": True} if checked_flag("dry_run", dry_run) else commit
        return rewrite_deletes(
            lambda: operations_of(self.transaction(**said)).transaction,
            self.refresh,
            lambda transaction: kind(transaction, request),
            dry_run=dry_run,
            retries=policy.retries if isinstance(policy, CommitPolicy) else None,
        )
