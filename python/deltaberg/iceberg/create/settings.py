"""Table properties that some verb goes by. What the verb would refuse is refused when it is set, by the same parser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from deltaberg.errors import CorruptMetadataError, DeltabergError, InvalidArgumentError
from deltaberg.files.write.forms import FORMS
from deltaberg.iceberg.location.new_files import data_location
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.retention import check_retention
from deltaberg.iceberg.metadata.write_metadata import metadata_codec
from deltaberg.iceberg.rows.file_options import delete_file_options, file_options, form_of
from deltaberg.iceberg.rows.row_spec import check_types, distribution, target_size
from deltaberg.iceberg.rows.strategies import has_deletes_by_file, strategy_of
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING
from deltaberg.iceberg.transaction.commit_properties import check_commit_properties
from deltaberg.iceberg.transaction.conflict import isolation_level
from deltaberg.iceberg.transaction.table_commit import commit_policy
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.iceberg.transaction.writable import check_ours_to_write
from deltaberg.table.rows.row_options import RowOptions

__all__ = ["check_new_settings", "settings_checked"]

_CHANGES = ("delete", "update", "merge")


def _check_name_mapping(metadata: TableMetadata) -> None:
    try:
        _ = metadata.name_mapping
    except CorruptMetadataError as error:
        raise InvalidArgumentError(
            f"the property {NAME_MAPPING} is no name mapping: {error.message}",
            hint='set it to text such as [{"field-id": 1, "names": ["id"]}]',
        ) from None


#: What parses properties. A file may be written in any format, whatever the property for it says.
_PARSERS: tuple[Callable[[TableMetadata], object], ...] = (
    check_commit_properties,
    lambda metadata: check_retention(metadata.properties),
    lambda metadata: check_types(metadata.current_schema.struct, form_of(metadata)),
    delete_file_options,
    _check_name_mapping,
    lambda metadata: check_ours_to_write(metadata, metadata.location),
    lambda metadata: commit_policy(metadata.properties),
    lambda metadata: metadata_codec(metadata.properties),
    lambda metadata: data_location(metadata.location, metadata.properties),
    lambda metadata: target_size(metadata.properties),
    lambda metadata: distribution(metadata.properties, is_sorted=False),
    lambda metadata: has_deletes_by_file(metadata.properties),
    *(partial(file_options, form=form, options=RowOptions()) for form in FORMS),
    *(lambda metadata, name=name: strategy_of(metadata.properties, name) for name in _CHANGES),
    *(lambda metadata, name=name: isolation_level(metadata.properties, name) for name in _CHANGES),
)


def check_new_settings(metadata: TableMetadata) -> None:
    """Refuse properties of a new table under which some verb would be refused.

    Raises
    ------
    InvalidArgumentError
        A property has no valid value.
    UnsupportedFeatureError
        A property asks for files that are not written.
    """
    _check(replace(metadata, properties={}), metadata)


@contextmanager
def settings_checked(transaction: Transaction) -> Iterator[None]:
    """Refuse changes of properties, made inside the block, under which some verb would be refused.

    Raises
    ------
    InvalidArgumentError
        A property has no valid value, or is valid only together with one that is removed.
    UnsupportedFeatureError
        A property asks for files that are not written.
    """
    before = transaction.metadata
    yield
    _check(before, transaction.metadata)


def _check(before: TableMetadata, after: TableMetadata) -> None:
    """Refuse what was changed. What other engines left wrong does not keep anybody from changing the rest."""
    old = before.properties
    changed = {name: value for name, value in after.properties.items() if old.get(name) != value}
    for parse in _PARSERS:
        error = _error_of(parse, after)
        if error is None:
            continue
        if _error_of(parse, before) is None:
            raise error
        own = _error_of(parse, replace(after, properties=changed))
        if own is not None and _error_of(parse, replace(after, properties={})) is None:
            raise own


def _error_of(parse: Callable[[TableMetadata], object], metadata: TableMetadata) -> DeltabergError | None:
    try:
        parse(metadata)
    except DeltabergError as error:
        return error
    return None
