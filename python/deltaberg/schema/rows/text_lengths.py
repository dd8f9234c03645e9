"""Texts of a limited length, as Spark reads and stores them: CHAR(n) and VARCHAR(n). A character is a code point.

Spark pads the texts of CHAR(n) with spaces where it reads them, since not every engine stores them padded. What is too
long may lose spaces at its end, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ConstraintViolationError
from deltaberg.schema.arrow import arrow_field, arrow_type
from deltaberg.schema.columns import join_name
from deltaberg.schema.convert import list_with_values, struct_of
from deltaberg.schema.rows.map_keys import check_keys
from deltaberg.schema.types import DataType, Field, List, Map, Struct, TextLength, nested_fields

__all__ = ["fit_texts", "has_padded_texts", "pad_texts", "padded_literal"]

#: Characters of a text that a message shows at most.
_SHOWN = 40

_Convert = Callable[[pa.Array], pa.Array]
_Path = tuple[str, ...]


def has_padded_texts(field: Field) -> bool:
    """Return whether texts of a field, or of one inside it, are padded where they are read."""
    return (field.length is not None and field.length.is_padded) or any(
        map(has_padded_texts, nested_fields(field.type))
    )


def pad_texts(texts: pa.Array, length: TextLength | None) -> pa.Array:
    """Return texts with the spaces that their column adds to those that are shorter.

    Examples
    --------
    >>> pad_texts(pa.array(["ab", "abcd", None]), TextLength(3, is_padded=True)).to_pylist()
    ['ab ', 'abcd', None]
    """
    if length is None or not length.is_padded:
        return texts
    shortest = pc.min(pc.utf8_length(texts)).as_py()
    is_done = shortest is None or shortest >= length.characters
    return texts if is_done else pc.utf8_rpad(texts, length.characters)


def padded_literal(text: str, length: TextLength) -> str:
    """Return a text as it is compared with the padded texts of a column, whatever spaces it ends with.

    Examples
    --------
    >>> [padded_literal(text, TextLength(3, is_padded=True)) for text in ("a", "a     ", "abcd ")]
    ['a  ', 'a  ', 'abcd']
    """
    limit = length.characters
    return (text[:limit] + text[limit:].rstrip(" ")).ljust(limit)


def fit_texts(field: Field) -> _Convert | None:
    """Return what makes texts in the values of a field as its lengths want them; None if it has none.

    The function raises a `ConstraintViolationError` for a text that is too long. It is called with arrays of the
    column's type.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> fitted = fit_texts(Field("c", Primitive("string"), length=TextLength(2, is_padded=True)))
    >>> fitted(pa.array(["a", "ab   ", None])).to_pylist()
    ['a ', 'ab', None]
    """
    return _fitting(field, (field.name,))


def _fitting(field: Field, path: _Path) -> _Convert | None:
    length = field.length
    if length is not None:
        return lambda texts: _fitted(texts, length, path)
    if isinstance(field.type, Struct):
        return _fitting_struct(field.type, path)
    if isinstance(field.type, (List, Map)):
        return _fitting_list(field.type, path)
    return None


def _fitting_struct(kind: Struct, path: _Path) -> _Convert | None:
    parts = [_fitting(child, (*path, child.name)) for child in kind]
    if not any(parts):
        return None
    fields = [arrow_field(child) for child in kind]

    def convert(array: pa.StructArray) -> pa.StructArray:
        children = zip(parts, array.flatten(), strict=True)
        return struct_of(array, [child if part is None else part(child) for part, child in children], fields)

    return convert


def _fitting_list(kind: List | Map, path: _Path) -> _Convert | None:
    steps = ("element",) if isinstance(kind, List) else ("key", "value")
    parts = [_fitting(child, (*path, step)) for child, step in zip(nested_fields(kind), steps, strict=True)]
    if not any(parts):
        return None
    target: DataType = kind
    arrow = arrow_type(target)

    def convert(array: pa.Array) -> pa.Array:
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        if isinstance(kind, List):
            children = [array.values.slice(start, stop - start)]
        else:
            children = [array.keys.slice(start, stop - start), array.items.slice(start, stop - start)]
        fitted = [child if part is None else part(child) for part, child in zip(parts, children, strict=True)]
        if isinstance(kind, List):
            return list_with_values(array, fitted[0], arrow, start)
        if parts[0] is not None:
            # Keys that only spaces tell apart have become one.
            check_keys(list_with_values(array, fitted[0], pa.list_(arrow.key_type), start), path)
        entries = pa.StructArray.from_arrays(fitted, fields=[arrow.key_field, arrow.item_field])
        return list_with_values(array, entries, arrow, start)

    return convert


def _fitted(texts: pa.Array, length: TextLength, path: _Path) -> pa.Array:
    limit = length.characters
    lengths = pc.utf8_length(texts)
    is_long = pc.greater(lengths, limit)
    if pc.any(is_long).as_py():
        rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(texts, limit), " ")
        row = pc.index(pc.not_equal(rest, ""), pa.scalar(value=True)).as_py()
        if row >= 0:
            shown = repr(texts[row].as_py()[:_SHOWN]) + ("…" if lengths[row].as_py() > _SHOWN else "")
            raise ConstraintViolationError(
                f"a text of {lengths[row]} characters is too long for {length}: {shown}",
                hint="shorten it, as the function substring of SQL does, or write it to a column of the type string",
                column=join_name(path),
            )
        texts = pc.if_else(is_long, pc.utf8_slice_codeunits(texts, 0, limit), texts)
    return pad_texts(texts, length)
