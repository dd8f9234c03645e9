"""A transaction of a Delta table with the verbs of the table, each of which becomes a part of one commit."""

from __future__ import annotations

from deltaberg.delta.alter.alter import Alteration
from deltaberg.delta.operations import DeltaOperations
from deltaberg.signatures import public
from deltaberg.table.verbs.table_transaction import TableTransaction

__all__ = ["DeltaTransaction"]


@public
class DeltaTransaction(TableTransaction[DeltaOperations, Alteration]):
    """Several operations on a Delta table that become one version, or none: see `TableTransaction`."""

    def set_transaction(self, application: str, version: int) -> None:
        """Record the progress of an application, whatever was recorded before.

        If another commit records progress of the application meanwhile, the commit raises a
        `ConcurrentTransactionError`.

        Parameters
        ----------
        application
            The application, by a text of its own.
        version
            How far it has come: an integer of at least 0.

        Raises
        ------
        InvalidArgumentError
            The application is not a text, or the version not an integer of at least 0.
        """
        self._operations.transaction.set_transaction(application, version)

    def set_domain(self, name: str, configuration: str | None) -> None:
        """Set the configuration of a metadata domain, or remove the domain (Delta protocol, "Domain Metadata").

        Parameters
        ----------
        name
            The domain, by a text that does not begin with ``delta.``.
        configuration
            The configuration, such as JSON; None removes the domain.

        Raises
        ------
        InvalidArgumentError
            The domain belongs to the protocol, or its name or configuration is not a text.
        """
        self._operations.transaction.set_domain(name, configuration)
