"""Where a command finds its table: at a location, or by a name in a catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from deltaberg.cli.show.output import progress

if TYPE_CHECKING:
    from deltaberg.catalogs.base import Catalog

__all__ = ["TablePlace"]


@dataclass(frozen=True)
class TablePlace:
    """The place of the table of a command.

    Parameters
    ----------
    location
        A directory or the URL of one. If there is a catalog, the namespace and the name of a table.
    storage_options
        The options of the store. If there is a catalog, its properties, which take precedence over its configuration.
    catalog
        The name of an Iceberg catalog in the configuration.
    """

    location: str
    storage_options: dict[str, str]
    catalog: str | None = None

    def open(self, format: str | None = None, **chosen: Any) -> Any:
        """Open the table, and show that.

        Parameters
        ----------
        format
            The format that the table has to have; None for any.
        **chosen
            The other arguments of `deltaberg.open_table`, but for the options of the store.
        """
        if format == "delta":
            self.check_is_location()
        with progress(f"opening {self.location}"):
            if self.catalog is not None:
                if chosen.pop("version", None) is not None:
                    raise click.UsageError("--version applies to Delta tables only, and a catalog has none")
                return self.loaded_catalog().load_table(self.location, **chosen)
            from deltaberg.api.opening import open_table

            options: Any = {"format": format, "storage_options": self.storage_options, **chosen}
            return open_table(self.location, **options)

    def loaded_catalog(self) -> Catalog:
        """Return the catalog, which must be named."""
        from deltaberg import load_catalog

        return load_catalog(self.catalog, **self.storage_options)

    def check_is_location(self) -> None:
        """Refuse a catalog."""
        if self.catalog is not None:
            raise click.UsageError("--catalog applies to Iceberg tables only")
