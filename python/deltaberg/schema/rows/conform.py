"""Conforming rows to the columns of a table before they are written.

Columns are matched by name, exactly or else without regard to case, in any order. A value is converted only if it stays
exactly the same: integers may change their width if they fit, decimals may gain digits, and floating point numbers may
become doubles, or integers if they are whole. Everything else is refused, and the message names the field, unless the
caller has it cast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import ConstraintViolationError, CorruptDataFileError, SchemaError
from deltaberg.hints import verbatim
from deltaberg.schema.arrow import arrow_field, arrow_schema, arrow_type, copied
from deltaberg.schema.columns import join_name
from deltaberg.schema.convert import list_with_values, rows_valid, struct_of
from deltaberg.schema.rows.exact import accepts, exact_leaf, plain, plain_text
from deltaberg.schema.rows.map_keys import check_keys
from deltaberg.schema.rows.matched_fields import match_fields
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct, shown_type
from deltaberg.schema.variants.shredding import VariantLayout, unshred

__all__ = ["ConformOptions", "Conformer"]

#: What to do about values of another kind than those of the column.
_ANYHOW = "convert the column first"
_CAST = "⟦, or pass ⟪safe=False⟫ to have it cast as Spark does⟧"
_WIDER = {Primitive("byte"): "int16", Primitive("short"): "int32", Primitive("integer"): "int64"}
#: Types that pyarrow takes by their names.
_NAMED = frozenset({"bool", "int8", "int16", "int32", "int64", "double", "string", "binary"})
_Convert: TypeAlias = "Callable[[pa.Array], pa.Array]"
_Path = tuple[str, ...]


@dataclass(frozen=True)
class ConformOptions:
    """The conversions that a caller allows when rows are conformed.

    Parameters
    ----------
    timezone
        The zone of timestamps without a zone that go into a column of the type ``timestamp``. Without it they are
        refused, since nobody can tell which instants they mean.
    allow_truncation
        Whether digits below the unit of a column are cut off, as those of nanoseconds in a column of microseconds.
    defaults
        Returns the value of a field of a struct that the rows lack; None for null.
    cast
        Returns what casts values of an Arrow type to that of a column, or None if there is no such cast; it takes both
        types and the zone. It is for values that do not fit as they are, which are refused without it.
    takes_repeated_keys
        Whether a map may have a key twice, as maps of another writer have that are in the table already.
    """

    timezone: str | None = None
    allow_truncation: bool = False
    defaults: Callable[[Field], pa.Scalar | None] | None = None
    takes_repeated_keys: bool = False
    cast: Callable[[pa.DataType, DataType, str | None], _Convert | None] | None = None


class Conformer:
    """Conforms batches of one Arrow schema to the columns of a table.

    Parameters
    ----------
    rows
        The schema of the rows.
    schema
        The columns of the table.
    options
        What the caller allows.

    Raises
    ------
    SchemaError
        If the rows have columns or nested fields that the table lacks, lack some that must not be null, have two
        columns for one of the table, or have a type that cannot be stored exactly in the column.

    Examples
    --------
    >>> schema = Struct((Field("id", Primitive("long"), nullable=False), Field("name", Primitive("string"))))
    >>> rows = pa.record_batch({"ID": pa.array([1, 2], pa.int16())})
    >>> Conformer(rows.schema, schema).apply(rows).to_pylist()
    [{'id': 1, 'name': None}, {'id': 2, 'name': None}]
    """

    def __init__(self, rows: pa.Schema, schema: Struct, options: ConformOptions | None = None) -> None:
        self._options = options or ConformOptions()
        self._target = arrow_schema(schema)
        self._found = rows
        sources = match_fields(schema, rows.names, ())
        self._sources = [
            (source, child, None if source is None else self._plan(child, rows.field(source).type, (child.name,)))
            for source, child in zip(sources, schema, strict=True)
        ]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of conformed batches."""
        return self._target

    @property
    def given(self) -> frozenset[str]:
        """The names of the table's columns that the rows have."""
        return frozenset(child.name for source, child, _ in self._sources if source is not None)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the columns of the table.

        Raises
        ------
        SchemaError
            If a value does not fit its column.
        ConstraintViolationError
            If a column that must not be null has nulls.
        """
        arrays = []
        for source, child, convert in self._sources:
            if source is None or convert is None:
                arrays.append(pa.nulls(batch.num_rows, arrow_type(child.type)))
                continue
            column = batch.column(source)
            if column.type != self._found.field(source).type:
                # Frames that are parts of the rows may differ in the types that their values happen to have.
                convert = self._plan(child, column.type, (child.name,))  # noqa: PLW2901 - of this batch alone
            array = convert(column)
            _check_nulls(child, (child.name,), array.null_count, 0)
            arrays.append(array)
        if not arrays:
            return batch.select([])
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)

    def _plan(self, field: Field, found: pa.DataType, path: _Path) -> _Convert:
        want = field.type
        storage = plain(found)
        inner = self._plan_plain(want, storage, path)
        if storage == found:
            return inner
        return lambda array: inner(_decoded(array))

    def _plan_plain(self, want: DataType, arrow: pa.DataType, path: _Path) -> _Convert:
        if pt.is_null(arrow):
            target = arrow_type(want)
            return lambda array: pa.nulls(len(array), target)
        if want == Primitive("variant"):
            return _variant(arrow, path)
        if isinstance(want, Struct):
            return self._struct(want, arrow, path)
        if isinstance(want, List):
            return self._list(want, arrow, path)
        if isinstance(want, Map):
            return self._map(want, arrow, path)
        return self._leaf(want, arrow, path)

    def _leaf(self, want: DataType, source_type: pa.DataType, path: _Path) -> _Convert:
        reason = accepts(source_type, want, self._options.timezone)
        cast = self._cast(source_type, want, path, is_needed=reason is not None)
        if reason is not None:
            if cast is not None:
                return cast
            refusal = _refused(source_type, want, path, reason, is_safe=self._options.cast is None)
            if not pt.is_floating(source_type):
                raise refusal
            return lambda array: _only_nulls(array, want, refusal)

        def convert(array: pa.Array) -> pa.Array:
            try:
                return exact_leaf(array, want, self._options.timezone, self._options.allow_truncation)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
                if cast is not None:
                    return cast(array)
                raise _unfit(want, path, error) from error

        return convert

    def _cast(self, source_type: pa.DataType, want: DataType, path: _Path, *, is_needed: bool) -> _Convert | None:
        """Return what casts values that do not fit as they are; None if they are refused."""
        if self._options.cast is None:
            return None
        try:
            cast = self._options.cast(source_type, want, self._options.timezone)
        except SchemaError as error:
            if not is_needed:
                return None
            raise error.with_context(column=join_name(path)) from None
        if cast is None:
            return None

        def convert(array: pa.Array) -> pa.Array:
            try:
                return cast(array)
            except SchemaError as error:
                raise _unfit(want, path, error) from error

        return convert

    def _struct(self, want: Struct, arrow: pa.DataType, path: _Path) -> _Convert:
        if not pt.is_struct(arrow):
            raise _refused(arrow, want, path)
        default = self._options.defaults
        values = {} if default is None else {child.name: default(child) for child in want}
        filled = {name: value for name, value in values.items() if value is not None}
        needed = Struct(tuple(replace(child, nullable=child.nullable or child.name in filled) for child in want))
        sources = match_fields(needed, [child.name for child in arrow], path)
        plans = [
            None if source is None else self._plan(child, arrow[source].type, (*path, child.name))
            for source, child in zip(sources, want, strict=True)
        ]
        fields = [arrow_field(child) for child in want]

        def convert(array: pa.StructArray) -> pa.StructArray:
            # Flattening hides the values below null structs, which may be anything.
            parts = array.flatten()
            children = []
            for source, child, plan in zip(sources, want, plans, strict=True):
                if source is None or plan is None:
                    children.append(_filled(array, child, filled.get(child.name)))
                    continue
                part = plan(parts[source])
                _check_nulls(child, (*path, child.name), part.null_count, array.null_count)
                children.append(part)
            return struct_of(array, children, fields)

        return convert

    def _list(self, want: List, arrow: pa.DataType, path: _Path) -> _Convert:
        is_view = getattr(pt, "is_list_view", _never)(arrow) or getattr(pt, "is_large_list_view", _never)(arrow)
        if not (pt.is_list(arrow) or pt.is_large_list(arrow) or pt.is_fixed_size_list(arrow) or is_view):
            raise _refused(arrow, want, path)
        place = (*path, "element")
        inner = self._plan(want.element, arrow.value_type, place)
        target = arrow_type(want)

        def convert(array: pa.Array) -> pa.Array:
            if is_view:
                array = _list_of_view(array)
            elif pt.is_fixed_size_list(array.type):
                array = array.cast(pa.large_list(array.type.value_field))
            array = _compact(array)
            start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
            values = inner(array.values.slice(start, stop - start))
            _check_nulls(want.element, place, values.null_count, 0)
            return list_with_values(array, values, target, start)

        return convert

    def _map(self, want: Map, arrow: pa.DataType, path: _Path) -> _Convert:
        entries = _entries_of(arrow)
        if entries is None:
            raise _refused(arrow, want, path)
        key, value = entries
        keys = self._plan(want.key, key, (*path, "key"))
        values = self._plan(want.value, value, (*path, "value"))
        target = arrow_type(want)
        fields = [target.key_field, target.item_field]

        def convert(array: pa.Array) -> pa.Array:
            array = _compact(array)
            start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
            found_entries = array.values.slice(start, stop - start)
            if found_entries.null_count:
                raise SchemaError("an entry of a map is null", column=join_name(path))
            parts = found_entries.flatten()
            converted = [keys(parts[0]), values(parts[1])]
            if not self._options.takes_repeated_keys:
                check_keys(list_with_values(array, converted[0], pa.list_(target.key_type), start), path)
            _check_nulls(replace(want.key, nullable=False), (*path, "key"), converted[0].null_count, 0)
            _check_nulls(want.value, (*path, "value"), converted[1].null_count, 0)
            return list_with_values(array, pa.StructArray.from_arrays(converted, fields=fields), target, start)

        return convert


def _only_nulls(array: pa.Array, want: DataType, refusal: SchemaError) -> pa.Array:
    """Return nulls for floating point numbers that are all null: of such a column, pandas knows no other type."""
    if array.null_count < len(array):
        raise refusal
    return pa.nulls(len(array), arrow_type(want))


def _never(_found: pa.DataType) -> bool:
    """Stand in for a question about types that this pyarrow does not have."""
    return False


def _entries_of(arrow: pa.DataType) -> tuple[pa.DataType, pa.DataType] | None:
    """Return the types of keys and values of a map, or of a list of structs (key, value)."""
    if pt.is_map(arrow):
        return arrow.key_type, arrow.item_type
    if (pt.is_list(arrow) or pt.is_large_list(arrow)) and pt.is_struct(arrow.value_type):
        children = list(arrow.value_type)
        if [child.name for child in children] == ["key", "value"]:
            return children[0].type, children[1].type
    return None


def _variant(arrow: pa.DataType, path: _Path) -> _Convert:
    try:
        layout = VariantLayout.of(arrow)
    except SchemaError:
        raise _refused(
            arrow, Primitive("variant"), path, "a variant is a struct of the binary fields metadata and value"
        ) from None
    unknown = {child.name for child in arrow} - {"metadata", "value", "typed_value"}
    if unknown:
        raise _refused(arrow, Primitive("variant"), path, f"a variant has no field {min(unknown)!r}")

    def convert(array: pa.StructArray) -> pa.StructArray:
        hidden = array.is_null() if array.null_count else None
        try:
            variants = unshred(array, layout)
        except CorruptDataFileError as error:
            raise SchemaError(f"a variant is damaged: {error.message}", column=join_name(path)) from error
        for child in variants.flatten():
            if child.null_count != (0 if hidden is None else array.null_count):
                raise SchemaError("a variant lacks its metadata or its value", column=join_name(path))
        return variants

    return convert


def _decoded(array: pa.Array) -> pa.Array:
    """Return the values of dictionaries, runs and extension types as they are."""
    while True:
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            array = array.storage
        elif pt.is_dictionary(kind):
            words = plain_text(array.dictionary)
            array = pa.DictionaryArray.from_arrays(array.indices, words).dictionary_decode()
        elif pt.is_run_end_encoded(kind):
            array = pc.run_end_decode(array)
        else:
            return array


def _compact(array: pa.Array) -> pa.Array:
    """Return a list or map array in which null lists have no values."""
    if not array.null_count:
        return array
    spans = pc.subtract(array.offsets.slice(1), array.offsets.slice(0, len(array)))
    hidden = pc.sum(spans.filter(array.is_null())).as_py()
    return copied(array) if hidden else array


def _list_of_view(array: pa.Array) -> pa.LargeListArray:
    """Return a list view as a list, whose values are in the order of the lists. Arrow's own cast loses values."""
    target = pa.large_list(array.type.value_field)
    try:
        lengths = pc.list_value_length(array).fill_null(0).cast(pa.int64())
    except pa.ArrowNotImplementedError:
        # pyarrow 16 has no computations on views.
        return pa.array(array.to_pylist(), target)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    buffers = [rows_valid(array), offsets.buffers()[1]]
    return pa.Array.from_buffers(target, len(array), buffers, children=[array.flatten()])


def _filled(within: pa.StructArray, field: Field, value: pa.Scalar | None) -> pa.Array:
    """Return the values of a field that structs lack. Null structs have none."""
    empty = pa.nulls(len(within), arrow_type(field.type))
    return empty if value is None else pc.if_else(within.is_valid(), pa.repeat(value, len(within)), empty)


def _check_nulls(field: Field, path: _Path, nulls: int, allowed: int) -> None:
    if nulls > allowed and not field.nullable:
        count = nulls - allowed
        raise ConstraintViolationError(
            f"a column that must not be null has {count} null{'' if count == 1 else 's'}", column=join_name(path)
        )


def _refused(found: pa.DataType, want: DataType, path: _Path, reason: str = "", *, is_safe: bool = True) -> SchemaError:
    hint = _hint(found, want, path, is_safe) if reason in ("", _ANYHOW) else reason
    return SchemaError(
        f"{found} cannot be written to a column of the type {shown_type(want)}", hint=hint, column=join_name(path)
    )


def _hint(source: pa.DataType, want: DataType, path: _Path, is_safe: bool) -> str:
    """Return how a column is converted, by pyarrow where that is one call; ``is_safe`` if no cast was asked for."""
    target = str(arrow_type(want))
    if want == Primitive("void"):
        return 'pass ⟪schema_mode="merge"⟫, by which a column without a type takes that of the rows'
    if pt.is_nested(source) or isinstance(want, (Struct, List, Map)):
        return _ANYHOW
    is_named = len(path) == 1 and target in _NAMED
    named = f', as by rows["{verbatim(path[0])}"].cast("{target}") of pyarrow' if is_named else ""
    return f"{_ANYHOW}{named}{_CAST if is_safe else ''}"


def _unfit(want: DataType, path: _Path, error: Exception) -> SchemaError:
    why, hint = (error.message, error.hint) if isinstance(error, SchemaError) else (error, None)
    if hint is None and want in _WIDER:
        wider = f'⟪alter().widen("{verbatim(join_name(path))}", pa.{_WIDER[want]}())⟫'
        hint = f"leave the value out, or widen the column of the table first by {wider}"
    if hint is None and want == Primitive("long"):
        hint = "leave the value out, or store it in a column of the type decimal(20, 0)"
    return SchemaError(f"a value does not fit the type {shown_type(want)}: {why}", hint=hint, column=join_name(path))
