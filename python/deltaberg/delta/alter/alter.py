"""Changing the columns of a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from deltaberg.delta.actions.domains import clustering_columns
from deltaberg.delta.alter.alter_columns import (
    WIDENING,
    allow_nulls,
    fields_of,
    nested_column,
    set_comment,
    widen_field,
)
from deltaberg.delta.alter.alter_properties import PropertyAlteration
from deltaberg.delta.alter.alter_rules import refuse_referenced
from deltaberg.delta.features import READ_ELSEWHERE
from deltaberg.delta.properties.protocols import features_of_schema
from deltaberg.delta.schema.indexed_columns import renamed_in_properties
from deltaberg.delta.schema.new_columns import ColumnNumbers, check_columns
from deltaberg.delta.schema.schema_json import SchemaDocument, field_to_json, recorded_column
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.schema.columns import ColumnName, find_column, join_name, split_name, taken_name
from deltaberg.schema.from_arrow import table_field
from deltaberg.schema.types import Struct
from deltaberg.signatures import public
from deltaberg.table.arguments import checked_note, checked_text, checked_type
from deltaberg.table.verbs.alteration import ColumnPlace, one_step

__all__ = ["Alteration", "altered_snapshot"]


@public
class Alteration(PropertyAlteration):
    """Changes of a table that become one version with `commit`: see `TableAlteration`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table.alter().add("price", pa.float64()).set({"owner": "ada"}).commit().version
    1
    >>> table.schema.names, table.properties
    (['id', 'name', 'price'], {'owner': 'ada'})
    """

    @one_step("ADD COLUMNS")
    def add(
        self,
        name: ColumnName,
        type: pa.DataType,
        *,
        comment: str | None = None,
        after: ColumnName | None = None,
        before: ColumnName | None = None,
        first: bool = False,
        default: str | None = None,
    ) -> None:
        """Add a column, or a field of a struct, that is null in all rows that are there.

        Parameters
        ----------
        name
            The name of the new column. Dots lead into structs, and ``element``, ``key`` and ``value`` into lists and
            maps, as in all changes of columns.
        type
            Its Arrow type.
        comment
            What the schema says about it.
        after, before
            The column, or the field of the same struct, that it comes behind, or before; by default it comes last.
        first
            Put it before all others.
        default
            Must be None: Delta gives a column no default value in the commit that adds it. See `set_default`.

        Raises
        ------
        InvalidArgumentError
            There is a default value.
        SchemaError
            There is such a column, or the name or the type is not allowed.
        """
        *above, last = split_name(name)
        if default is not None:
            raise InvalidArgumentError(
                "a column gets no default value in the commit that adds it",
                hint="commit, and call ⟪alter().set_default(…)⟫ then",
                column=join_name((*above, last)),
            )
        checked_type(last, type)
        checked_note("comment", comment, "leave it out if there is none")
        table = self._snapshot
        parent = nested_column(table.schema, tuple(above)) if above else ()
        siblings = table.schema if not parent else parent[-1].type
        if not isinstance(siblings, Struct):
            raise SchemaError(
                "a field can only be added to a struct",
                hint="element, key and value lead into lists and maps",
                column=join_name(above),
            )
        place = ColumnPlace.beside(name, after, before, first)
        _check_new_name(siblings, last)
        metadata = {} if comment is None else {b"comment": comment.encode()}
        new = table_field(pa.field(last, type, metadata=metadata), (*above, last))
        numbers = self._numbers()
        check_columns(Struct((new,)), mapped=numbers is not None)
        document = self._document()
        added = new if numbers is None else numbers.assign(new)
        fields = document.fields(*(field.name for field in parent))
        fields.insert(place.among(siblings.fields, added), field_to_json(added))
        column = recorded_column(document, (*parent, added))
        position = "" if place == ColumnPlace() else f',"position":{json.dumps(_position(fields, added.name))}'
        self._parameters["columns"] = f'[{{"column":{column}{position}}}]'
        self._raise_protocol(features_of_schema(Struct((new,))))
        self._set_schema(document, numbers)
        self._added.add(join_name((*above, last)))

    @one_step("RENAME COLUMN")
    def _rename(self, name: ColumnName, to: str) -> None:
        path = nested_column(self._snapshot.schema, name)
        self._need_mapping("renamed")
        siblings = fields_of(self._snapshot.schema, path[:-1])
        refuse_referenced(self._snapshot, path, "renamed")
        others = Struct(tuple(field for field in siblings if field is not path[-1]))
        _check_new_name(others, to)
        document = self._document()
        document.field(*(field.name for field in path))["name"] = to
        above = [field.name for field in path[:-1]]
        self._parameters |= {
            "oldColumnPath": join_name((*above, path[-1].name)),
            "newColumnPath": join_name((*above, to)),
        }
        members: dict[str, Any] = {}
        if len(path) == 1:
            names = [field.name for field in self._snapshot.partition_fields]
            members["partitionColumns"] = [to if known == path[0].name else known for known in names]
        configuration = self._snapshot.metadata.configuration
        properties = renamed_in_properties(configuration, [field.name for field in path], to)
        self._set_schema(document, None, members, properties)

    @one_step("DROP COLUMNS")
    def drop(self, name: ColumnName) -> None:
        """Drop a column, or a field of a struct. The files stay as they are, which needs column mapping.

        Raises
        ------
        UnsupportedFeatureError
            The table has no column mapping.
        SchemaError
            There is no such column, it is the last one, or the table is partitioned or clustered by it.
        """
        table = self._snapshot
        path = nested_column(table.schema, name)
        self._need_mapping("dropped")
        fields_of(table.schema, path[:-1])
        shown = join_name([field.name for field in path])
        if path[0] in table.partition_fields:
            raise SchemaError("a column that partitions the table cannot be dropped", column=shown)
        refuse_referenced(table, path, "dropped")
        physical = tuple(field.physical_name for field in path)
        if any(column[: len(physical)] == physical for column in clustering_columns(table.domains)):
            raise SchemaError("a column that the table is clustered by cannot be dropped", column=shown)
        document = self._document()
        siblings = document.fields(*(field.name for field in path[:-1]))
        if len(siblings) == 1 or (len(path) == 1 and len(siblings) == len(table.partition_fields) + 1):
            raise SchemaError("the last column, or the last field of a struct, cannot be dropped", column=shown)
        self._parameters["columns"] = json.dumps([shown], ensure_ascii=False)
        siblings.remove(document.field(*(field.name for field in path)))
        properties = renamed_in_properties(table.metadata.configuration, [field.name for field in path], None)
        self._set_schema(document, None, properties=properties)

    @one_step("CHANGE COLUMN")
    def _move(self, name: ColumnName, place: ColumnPlace) -> None:
        path = nested_column(self._snapshot.schema, name)
        known, names = fields_of(self._snapshot.schema, path[:-1]), [field.name for field in path]
        document = self._document()
        siblings, moved = document.fields(*names[:-1]), document.field(*names)
        siblings.remove(moved)
        siblings.insert(place.among(known.fields, path[-1]), moved)
        self._record(document, name)
        self._parameters["position"] = _position(siblings, names[-1])
        self._set_schema(document)

    @one_step("CHANGE COLUMN")
    def _comment(self, name: ColumnName, text: str | None) -> None:
        document = self._document()
        set_comment(document, self._snapshot.schema, name, text)
        self._record(document, name)
        self._set_schema(document)

    @one_step("CHANGE COLUMN")
    def _allow_nulls(self, name: ColumnName) -> None:
        document = self._document()
        allow_nulls(document, self._snapshot.schema, name)
        self._record(document, name)
        self._set_schema(document)

    @one_step("CHANGE COLUMN")
    def _widen(self, name: ColumnName, type: pa.DataType) -> None:
        if not WIDENING & self._snapshot.active_features:
            raise UnsupportedFeatureError(
                "the types of columns cannot change, since type widening is not enabled",
                hint='enable it first: ⟪alter().set({"delta.enableTypeWidening": "true"})⟫; '
                + READ_ELSEWHERE["typeWidening"],
                feature="typeWidening",
            )
        schema = self._snapshot.schema
        known = isinstance(name, str) and schema.get(name) is not None
        refuse_referenced(self._snapshot, find_column(schema, name if known else split_name(name)[:1]), "widened")
        document = self._document()
        wanted = table_field(pa.field("type", type), split_name(name)).type
        self._raise_protocol(widen_field(document, schema, name, wanted))
        self._record(document, name)
        self._set_schema(document)

    def _record(self, document: SchemaDocument, name: ColumnName) -> None:
        """Let the history say what a column is after the change."""
        self._parameters["column"] = recorded_column(document, nested_column(self._snapshot.schema, name))

    def _numbers(self) -> ColumnNumbers | None:
        return ColumnNumbers.of(self._snapshot.mapping_mode, self._snapshot.metadata.configuration)

    def _need_mapping(self, what: str) -> None:
        if self._snapshot.mapping_mode == "none":
            raise UnsupportedFeatureError(
                f"without column mapping no column can be {what} unless its files are rewritten",
                hint='enable it first: ⟪alter().set({"delta.columnMapping.mode": "name"})⟫; '
                + READ_ELSEWHERE["columnMapping"],
                feature="columnMapping",
            )


def altered_snapshot(alteration: Alteration) -> Snapshot:
    """Return the table as changes leave it that are not committed."""
    return alteration._snapshot  # noqa: SLF001 - it is not for users, who see it when the changes are committed


def _check_new_name(siblings: Struct, name: str) -> None:
    if name == "":
        raise SchemaError("the name of a column is empty")
    checked_text("the name of a column", name, "pass a name")
    taken = next((field.name for field in siblings if field.name.lower() == name.lower()), None)
    if taken is not None:
        raise taken_name(taken)


def _position(siblings: Sequence[Mapping[str, Any]], name: str) -> str:
    """Return the place of a field among others as the history names it."""
    names = [field.get("name") for field in siblings]
    place = names.index(name)
    return f"AFTER {names[place - 1]}" if place else "FIRST"
