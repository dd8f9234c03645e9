"""Changing the columns, the properties and the partitioning of a table; no rows are rewritten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from deltaberg.errors import SchemaError
from deltaberg.iceberg.alter.alter_references import ReferenceChanges
from deltaberg.iceberg.alter.changed_fields import with_field, with_fields
from deltaberg.iceberg.alter.columns import check_promotion, set_columns
from deltaberg.iceberg.alter.dropped_columns import dropped_column, require_no_rows_without
from deltaberg.iceberg.alter.new_partitioning import new_partitioning
from deltaberg.iceberg.create.create import sort_field
from deltaberg.iceberg.create.settings import settings_checked
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.sort_orders import SortOrder
from deltaberg.iceberg.updates.new_columns import WRITE_DEFAULT, default_json, given_column, with_default
from deltaberg.iceberg.updates.new_table import check_properties, given_properties, with_fresh_ids
from deltaberg.iceberg.updates.updates import (
    AddSortOrder,
    AddSpec,
    RemoveProperties,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetProperties,
    UpgradeFormatVersion,
)
from deltaberg.schema.columns import (
    ColumnName,
    ColumnNames,
    dotted_path,
    find_column,
    join_name,
    listed_names,
    split_name,
    taken_name,
)
from deltaberg.schema.types import Field, Struct
from deltaberg.signatures import public
from deltaberg.table.arguments import checked_flag, checked_note, checked_properties, checked_text, checked_type
from deltaberg.table.verbs.alteration import ColumnPlace, one_step

__all__ = ["Alteration", "altered_metadata"]

_FORMAT_VERSION = "format-version"
_Fields = tuple[Field, ...]


@public
class Alteration(ReferenceChanges):
    """Changes of a table that become one commit with `commit`: see `TableAlteration`."""

    @one_step("add column", waits=True)
    def add(
        self,
        name: ColumnName,
        type: pa.DataType,
        *,
        comment: str | None = None,
        default: Any = None,
        required: bool = False,
        after: ColumnName | None = None,
        before: ColumnName | None = None,
        first: bool = False,
    ) -> None:
        """Add a column, or a field of a struct. It is null, or has a default value, in all rows that are there.

        Parameters
        ----------
        name
            The name of the new column.
        type
            Its Arrow type.
        comment
            What the schema says about it.
        default
            Its value in the rows that are there, and in new rows that do not name it (format version 3). That of a
            struct names the default values of its fields.
        required
            Refuse nulls in the column; then it needs a default value.
        after, before
            The column, or the field of the same struct, that it comes behind, or before; by default it comes last.
        first
            Put it before all others.

        Raises
        ------
        SchemaError
            There is such a column, or the name, the type or the default is not allowed. The name of a partition field
            is not, which the table has or had.
        ColumnNotFoundError
            A column that is named does not exist.
        InvalidArgumentError
            The default is not a value of the type.
        """
        path, place = split_name(name), ColumnPlace.beside(name, after, before, first)
        if checked_flag("required", required) and default is None:
            raise SchemaError(
                "the rows that are there would have no value of a new column that is required",
                hint="give it a default value, or leave out required",
                column=join_name(tuple(path)),
            )
        checked_type(join_name(tuple(path)), type)
        checked_note("comment", comment, "leave it out if there is none")
        metadata = {} if comment is None else {b"comment": comment.encode()}
        version = self._transaction.metadata.format_version
        # Arrow has no columns that are null and must not be, and the default value is refused by its name.
        nullable = not required or pa.types.is_null(type)
        given = given_column(pa.field(path[-1], type, nullable, metadata), tuple(path), version)
        (new,) = with_fresh_ids(Struct((given,)), self._altered.last_id)[0]
        if default is not None:
            new = with_default(new, default, join_name(tuple(path)))

        def added(fields: _Fields) -> _Fields:
            if new.name.lower() in [field.name.lower() for field in fields]:
                raise taken_name(join_name(tuple(path)))
            number = place.among(fields, new)
            return (*fields[:number], new, *fields[number:])

        self._set(dotted_path(self._altered.struct, path[:-1]), added)

    @one_step("rename column", waits=True)
    def _rename(self, name: ColumnName, to: str) -> None:
        checked_text("the name of a column", to, "pass a name")

        def renamed(fields: _Fields, old: Field) -> _Fields:
            if any(field.name.lower() == to.lower() and field is not old for field in fields):
                raise SchemaError(f"the name {to!r} is that of another column", column=to)
            return tuple(replace(field, name=to, physical_name=to) if field is old else field for field in fields)

        self._change(name, renamed)

    @one_step("drop column", waits=True)
    def drop(self, *names: ColumnName) -> None:
        """Drop columns, or fields of structs. Their values stay in the files, where only older snapshots see them.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        SchemaError
            The partitioning, the sort order or the identity of rows needs it, or it is the only one.
        """
        for name in names:
            self._change(name, lambda fields, old: tuple(field for field in fields if field is not old))

    @one_step("put column back")
    def undrop(self, *names: ColumnName) -> None:
        """Put back columns, or fields of structs, that were dropped: they have their old ids, types and values.

        They are null in rows that were written since. Therefore a required column is put back only if no rows were
        written since it was dropped.

        Parameters
        ----------
        names
            The names that the columns had when they were dropped.

        Raises
        ------
        ColumnNotFoundError
            No such column was dropped.
        SchemaError
            Another column or a partition field has the name now, or the column is required, and rows were written
            without it.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(new_path, {"id": pa.int64(), "note": pa.string()}, format="iceberg")
        >>> _ = table.append(pa.table({"id": [1], "note": ["a"]}))
        >>> _ = table.alter().drop("note").commit()
        >>> _ = table.alter().undrop("note").commit()
        >>> table.scan().to_arrow().to_pylist()
        [{'id': 1, 'note': 'a'}]
        """
        for name in names:
            path = split_name(name)
            dropped = dropped_column(self._metadata, path)
            if not dropped.column.nullable:
                require_no_rows_without(self._transaction, dropped.column)
            self._set(path[:-1], dropped.put_back)

    @one_step("move column", waits=True)
    def _move(self, name: ColumnName, place: ColumnPlace) -> None:
        def moved(fields: _Fields, old: Field) -> _Fields:
            others, number = tuple(field for field in fields if field is not old), place.among(fields, old)
            return (*others[:number], old, *others[number:])

        self._change(name, moved)

    @one_step("comment", waits=True)
    def _comment(self, name: ColumnName, text: str | None) -> None:
        said = {} if text is None else {"doc": text}
        # Elements of lists, and keys and values of maps, are no fields that a comment could be about.
        self._change(
            name,
            lambda fields, old: tuple(_described(field, said, "doc") if field is old else field for field in fields),
        )

    @one_step("drop not null", waits=True)
    def _allow_nulls(self, name: ColumnName) -> None:
        self._replace(name, lambda old: replace(old, nullable=True))

    @one_step("set default", waits=True)
    def set_default(self, name: ColumnName, value: Any) -> None:
        """Set the value that new rows get that do not name a column; None removes it (format version 3).

        Rows that are there keep their values.

        Raises
        ------
        InvalidArgumentError
            It is not a value of the column's type.
        SchemaError
            The format version of the table has no default values, or the type has none.
        """
        shown = join_name(split_name(name))
        self._describe(
            name, lambda old: {} if value is None else {WRITE_DEFAULT: default_json(value, old, shown)}, WRITE_DEFAULT
        )

    @one_step("identify by")
    def identify_by(self, *names: ColumnName | ColumnNames) -> None:
        """Set the columns that identify a row (``identifier-field-ids``); without names there are none.

        Raises
        ------
        SchemaError
            A column may be null, or has a type that identifies nothing.
        ColumnNotFoundError
            There is no such column.
        """
        columns = self._altered.struct
        found = [find_column(columns, name)[-1].id or 0 for name in listed_names(names)]
        set_columns(self._transaction, columns, sorted(set(found)))

    @one_step("widen column", waits=True)
    def _widen(self, name: ColumnName, type: pa.DataType) -> None:
        def changed(old: Field) -> Field:
            metadata = self._transaction.metadata
            new = given_column(pa.field(old.name, type), (old.name,), metadata.format_version).type
            check_promotion(metadata, old, new)
            return replace(old, type=new)

        self._replace(name, changed)

    @one_step("set properties")
    def set(self, properties: Mapping[str, Any]) -> None:
        """Set properties. ``format-version`` raises the version of the format.

        Raises
        ------
        InvalidArgumentError
            A property is reserved, its value is not text, or a verb would refuse it.
        UnsupportedFeatureError
            A property asks for files that are not written.
        """
        known = {_FORMAT_VERSION: self._transaction.metadata.format_version}
        version, settings = given_properties({**known, **checked_properties(properties)})
        check_properties(settings)
        if version != self._transaction.metadata.format_version:
            self._transaction.change_metadata(UpgradeFormatVersion(version))
        if settings:
            with settings_checked(self._transaction):
                self._transaction.change_metadata(SetProperties(settings))

    @one_step("unset properties")
    def unset(self, *names: str) -> None:
        """Remove properties. Those that the table lacks are no error.

        Raises
        ------
        InvalidArgumentError
            A name is not text, or a property that stays is not valid without one of these.
        """
        for name in names:
            checked_text("the name of a property", name, "pass the names of properties")
        with settings_checked(self._transaction):
            self._transaction.change_metadata(RemoveProperties(names))

    @one_step("partition by")
    def partition_by(self, *names: ColumnName | ColumnNames) -> None:
        """Partition the files that are written from now on by other columns, or transforms of columns.

        Files that are there stay as they are. Without names, new files are not partitioned.

        Parameters
        ----------
        names
            Columns, one after the other or in a list, or transforms such as ``day(at)``, ``bucket(16, id)`` and
            ``truncate(4, name) as prefix``, whose partition field is named ``prefix``. A field that the table had
            before keeps its name and its id.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        SchemaError
            Two fields have one name, or a field has the name of a column that it is not made from.
        """
        spec = new_partitioning(self._transaction.metadata, listed_names(names))
        self._transaction.change_metadata(AddSpec(spec), SetDefaultSpec())

    @one_step("sort by")
    def sort_by(self, *names: ColumnName | ColumnNames) -> None:
        """Record the order of rows that engines keep when they write: columns or transforms, such as ``id desc``."""
        fields = tuple(sort_field(self._altered.struct, name) for name in listed_names(names))
        number = max(self._transaction.metadata.sort_orders, default=0) + 1 if fields else 0
        self._transaction.change_metadata(AddSortOrder(SortOrder(number, fields)), SetDefaultSortOrder())

    def _describe(self, name: ColumnName, said: Callable[[Field], dict[str, Any]], member: str) -> None:
        """Set a member of what the schema says of a column, or remove it."""
        self._replace(name, lambda old: _described(old, said(old), member))

    def _replace(self, name: ColumnName, changed: Callable[[Field], Field]) -> None:
        """Change a column, a field of a struct, the element of a list or the value of a map."""
        self._altered.set(with_field(self._altered.struct, self._path(name), changed))

    def _change(self, name: ColumnName, change: Callable[[_Fields, Field], _Fields]) -> None:
        """Change the fields among which a column is."""
        *above, last = self._path(name)

        def changed(fields: _Fields) -> _Fields:
            return change(fields, find_column(Struct(fields), (last,))[0])

        self._set(above, changed)

    def _path(self, name: ColumnName) -> tuple[str, ...]:
        """Return the names that lead to a column, the whole of a text if that is the name of one."""
        columns = self._altered.struct
        if isinstance(name, str) and columns.get(name) is not None:
            return (find_column(columns, name)[0].name,)
        return dotted_path(columns, split_name(name))

    def _set(self, above: Sequence[str], change: Callable[[_Fields], _Fields]) -> None:
        self._altered.set(with_fields(self._altered.struct, tuple(above), change))


def _described(column: Field, said: Mapping[str, Any], member: str) -> Field:
    """Return a column of which the schema says something else in a member, or nothing."""
    kept = {key: value for key, value in column.metadata.items() if key != member}
    return replace(column, metadata={**kept, **said})


def altered_metadata(alteration: Alteration) -> TableMetadata:
    """Return the metadata of a table as changes leave it that are not committed."""
    return alteration._metadata  # noqa: SLF001 - it is not for users, who see it when the changes are committed
