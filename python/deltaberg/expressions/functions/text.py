"""Functions of text. A character is a Unicode code point, and positions count from 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.compute.by_row import each_distinct, each_row
from deltaberg.expressions.functions.conditions import CONDITIONS
from deltaberg.expressions.functions.function import Context, Function, simple, wrong_types
from deltaberg.expressions.functions.operators import OPERATORS
from deltaberg.expressions.tree.nodes import (
    MOST_BYTES,
    MOST_OF_ONE,
    TOO_LONG,
    CallNode,
    Datum,
    Kernel,
    LiteralNode,
    Node,
    Outcome,
    failed_where,
    spread,
    too_large,
)
from deltaberg.expressions.tree.types import BINARY, BOOLEAN, INTEGER, STRING
from deltaberg.schema.types import DataType

__all__ = ["TEXT", "growing", "is_ascii", "lowered"]

_TEXT_TYPE = pa.string()
_MOST = (1 << 31) - 1
#: The arguments that are no texts.
_NUMBERS = frozenset({"length", "n", "position"})
_SUBSTRING = "part of the text; a negative position counts from the end"


def is_ascii(values: Datum) -> bool:
    """Return whether all texts consist of ASCII characters, of which each is one byte."""
    return pc.all(spread(pc.string_is_ascii(values), 1)).as_py() is not False


def _changed_case(ascii_only: Callable[[Datum], Datum], change: Callable[[str], str]) -> Kernel:
    """Return the kernel of a change of case. Characters beyond ASCII can change into several, or by what follows."""

    def convert(values: pa.Array) -> Datum | Outcome:
        return ascii_only(values) if is_ascii(values) else each_distinct(change, _TEXT_TYPE, "", values)

    return convert


_lower = _changed_case(pc.ascii_lower, str.lower)
_upper = _changed_case(pc.ascii_upper, str.upper)


def lowered(values: pa.Array) -> Datum | Outcome:
    """Return texts in lower case."""
    return _lower(values)


def _trimmed(trim: Callable[..., pa.Array], strip: Callable[[str, str], str], reverse: bool) -> Kernel:
    """Return the kernel of a function that takes characters off the ends of text, by default blanks."""

    def convert(*given: Datum) -> Datum | Outcome:
        text, *rest = reversed(given) if reverse else given
        if not rest:
            return trim(text, " ")
        characters = rest[0]
        if isinstance(characters, pa.Scalar) and characters.is_valid and isinstance(text, pa.Array):
            return trim(text, characters.as_py()) if characters.as_py() else text
        return each_row(strip, _TEXT_TYPE, "", text, characters)

    return convert


def _length(context: Context, nodes: Sequence[Node]) -> Node:
    (node,) = nodes
    if node.type == BINARY:
        return CallNode(INTEGER, "length", (node,), lambda values: pc.binary_length(values).cast(pa.int32()))
    node = context.convert(node, STRING, "length")
    return CallNode(INTEGER, "length", (node,), lambda values: pc.utf8_length(values).cast(pa.int32()))


def _octet_length(context: Context, nodes: Sequence[Node]) -> Node:
    node = nodes[0] if nodes[0].type == BINARY else context.convert(nodes[0], STRING, "octet_length")
    return CallNode(INTEGER, "octet_length", (node,), lambda values: pc.binary_length(values).cast(pa.int32()))


def _cut(text: str, position: int, length: int) -> str:
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) : max(min(start + length, _MOST), 0)]


def _substring(text: Datum, position: Datum, length: Datum | None = None) -> Datum | Outcome:
    if length is None:
        length = pa.scalar(_MOST, pa.int32())
    fixed = isinstance(text, pa.Array) and isinstance(position, pa.Scalar) and isinstance(length, pa.Scalar)
    if fixed and position.is_valid and length.is_valid and position.as_py() >= 0:
        start = max(position.as_py() - 1, 0)
        return pc.utf8_slice_codeunits(text, start, max(start, min(start + length.as_py(), _MOST)))
    return each_row(_cut, _TEXT_TYPE, "", text, position, length)


def _left(text: Datum, length: Datum) -> Datum | Outcome:
    return _substring(text, pa.scalar(1, pa.int32()), length)


def _right(text: Datum, length: Datum) -> Outcome:
    return each_row(lambda whole, count: whole[-count:] if count > 0 else "", _TEXT_TYPE, "", text, length)


def _concat(context: Context, nodes: Sequence[Node]) -> Node:
    if any(not _is_text(node) for node in nodes):
        raise UnsupportedExpressionError("concat of arrays, maps or structs cannot be evaluated")
    kind = BINARY if nodes and all(node.type == BINARY for node in nodes) else STRING
    arguments = tuple(context.convert(node, kind, "concat") for node in nodes)
    return CallNode(kind, "concat", arguments, _joined, eager=True)


def _is_text(node: Node) -> bool:
    return node.type in (STRING, BINARY) or (not hasattr(node.type, "element") and not hasattr(node.type, "fields"))


def _joined(*values: Datum) -> Datum | Outcome:
    between = pa.scalar("" if pa.types.is_string(values[0].type) else b"", values[0].type)
    return _short(pc.binary_join_element_wise(*values, between, null_handling="emit_null"))


def _short(texts: Datum) -> Datum | Outcome:
    """Fail texts beyond the longest length. An array of fewer bytes than that has no such text."""
    if isinstance(texts, pa.Scalar) or texts.nbytes <= MOST_OF_ONE:
        return texts
    return failed_where(texts, pc.greater(pc.binary_length(texts), MOST_OF_ONE), TOO_LONG)


def _concat_ws(context: Context, nodes: Sequence[Node]) -> Node:
    if any(not _is_text(node) for node in nodes):
        raise UnsupportedExpressionError("concat_ws of arrays cannot be evaluated")
    arguments = tuple(context.convert(node, STRING, "concat_ws") for node in nodes)

    def join(separator: Datum, *values: Datum) -> Datum | Outcome:
        if not values:
            return pc.if_else(pc.is_valid(separator), "", separator)
        rows = next(len(value) for value in (separator, *values) if isinstance(value, pa.Array))
        # Without any value Arrow leaves the row out.
        first = pc.if_else(pc.is_null(pc.coalesce(*(spread(value, rows) for value in values))), "", values[0])
        return _short(pc.binary_join_element_wise(first, *values[1:], separator, null_handling="skip"))

    return CallNode(STRING, "concat_ws", arguments, join, eager=True)


def _replace(text: Datum, search: Datum, other: Datum | None = None) -> Datum | Outcome:
    if other is None:
        other = pa.scalar("")
    if isinstance(text, pa.Array) and all(isinstance(part, pa.Scalar) and part.is_valid for part in (search, other)):
        if not search.as_py():
            return text
        return growing(
            text,
            pc.multiply(pc.count_substring(text, search.as_py()).cast(pa.int64()), other.as_buffer().size),
            lambda texts: pc.replace_substring(texts, search.as_py(), other.as_py()),
        )

    def change(whole: str, part: str, new: str) -> str:
        if part and whole.count(part) * len(new) > MOST_OF_ONE:
            raise ValueError
        return whole.replace(part, new) if part else whole

    return each_row(change, _TEXT_TYPE, TOO_LONG, text, search, other)


def growing(text: pa.Array, added: pa.Array, kernel: Kernel, why: str = TOO_LONG) -> Outcome:
    """Return the results of a kernel for texts, which are longer by so many bytes at most. Those beyond limits fail.

    Parameters
    ----------
    why
        The reason why they fail.

    Raises
    ------
    TooLargeError
        If no array holds the results.
    """
    long = pc.greater(pc.add(pc.binary_length(text).cast(pa.int64()), added), MOST_OF_ONE).fill_null(False)
    if pc.any(long).as_py():
        text, added = (pc.if_else(long, pa.scalar(None, known.type), known) for known in (text, added))
    if (pc.sum(added.cast(pa.float64())).as_py() or 0) + (text.nbytes or 0) > MOST_BYTES:
        raise too_large()
    return failed_where(kernel(text), long, why)


def _padded(on_left: bool) -> Kernel:
    def pad(text: str, length: int, filler: str) -> str:
        missing = length - len(text)
        if missing <= 0 or not filler:
            return text[: max(length, 0)]
        if length > MOST_OF_ONE:
            raise ValueError
        more = (filler * (missing // len(filler) + 1))[:missing]
        return more + text if on_left else text + more

    def convert(text: Datum, length: Datum, filler: Datum | None = None) -> Outcome:
        return each_row(pad, _TEXT_TYPE, TOO_LONG, text, length, pa.scalar(" ") if filler is None else filler)

    return convert


def _position(text: Datum, part: Datum) -> Datum | Outcome:
    known = isinstance(text, pa.Array) and isinstance(part, pa.Scalar) and part.is_valid and part.as_py()
    if known and is_ascii(text):
        return pc.add(pc.find_substring(text, part.as_py()), pa.scalar(1, pa.int32()))
    return each_row(lambda whole, piece: whole.find(piece) + 1, pa.int32(), "", text, part)


def _locate(context: Context, nodes: Sequence[Node]) -> Node:
    part, text = (context.convert(node, STRING, "locate") for node in nodes[:2])
    if len(nodes) == 2 or (isinstance(nodes[2], LiteralNode) and nodes[2].scalar.as_py() == 1):
        return CallNode(INTEGER, "locate", (part, text), lambda piece, whole: _position(whole, piece))
    start = context.convert(nodes[2], INTEGER, "locate")
    found = CallNode(INTEGER, "locate", (start, part, text), _position_after)
    nothing = LiteralNode(INTEGER, pa.scalar(0, pa.int32()))
    # A place that is null is before every text, as in Hive.
    return OPERATORS["if"].bind(context, (CONDITIONS["isnull"].bind(context, (start,)), nothing, found))


def _position_after(start: Datum, part: Datum, text: Datum) -> Outcome:
    def find(first: int, piece: str, whole: str) -> int:
        if first < 1:
            return 0
        return whole.find(piece, first - 1) + 1 if piece else 1

    return each_row(find, pa.int32(), "", start, part, text)


def _tested(name: str, summary: str, compute: Callable[..., pa.Array], test: Callable[[str, str], bool]) -> Function:
    def convert(text: Datum, part: Datum) -> Datum | Outcome:
        if isinstance(part, pa.Scalar) and part.is_valid and isinstance(text, pa.Array):
            return compute(text, part.as_py())
        return each_row(test, pa.bool_(), "", text, part)

    return _of_texts(name, "text, x", summary, convert, BOOLEAN)


def _split_part(text: Datum, delimiter: Datum, number: Datum) -> Outcome:
    def part(whole: str, mark: str, at: int) -> str:
        if at == 0:
            raise ValueError
        parts = whole.split(mark) if mark else [whole]
        return parts[at - 1 if at > 0 else at] if abs(at) <= len(parts) else ""

    return each_row(part, _TEXT_TYPE, "split_part counts from 1, not from 0", text, delimiter, number)


def _repeat(text: Datum, count: Datum) -> Outcome:
    rows = next(len(value) for value in (text, count) if isinstance(value, pa.Array))
    texts = spread(text, rows)
    times = pc.max_element_wise(spread(count, rows), pa.scalar(0, pa.int32()), skip_nulls=False)
    added = pc.multiply(pc.binary_length(texts).cast(pa.int64()), times.cast(pa.int64()))
    # Arrow also reserves memory for texts that are null or empty.
    nothing = pc.less_equal(added, 0)
    return growing(
        texts,
        added,
        lambda short: pc.binary_repeat(short, pc.if_else(pc.or_(pc.is_null(short), nothing), 0, times)),
    )


def _translate(text: Datum, matching: Datum, replacements: Datum) -> Outcome:
    def change(whole: str, before: str, after: str) -> str:
        table: dict[int, str] = {}
        for number, mark in enumerate(before):
            table.setdefault(ord(mark), after[number : number + 1])
        return whole.translate(table)

    return each_row(change, _TEXT_TYPE, "", text, matching, replacements)


def _ascii(values: pa.Array) -> Outcome:
    return each_distinct(lambda text: ord(text[0]) if text else 0, pa.int32(), "", values)


def _concatenation(context: Context, nodes: Sequence[Node]) -> Node:
    if len(nodes) != 2:
        raise wrong_types("||", nodes)
    return _concat(context, nodes)


def _of_texts(
    name: str, arguments: str, summary: str, kernel: Kernel, result: DataType = STRING, optional: int = 0
) -> Function:
    """Return a function of texts, and of numbers where arguments are places, lengths or counts."""
    kinds = [INTEGER if argument in _NUMBERS else STRING for argument in arguments.split(", ")]
    return simple(name, arguments, summary, kinds, result, kernel, optional)


_LEFT = _trimmed(pc.utf8_ltrim, str.lstrip, reverse=True)
_RIGHT = _trimmed(pc.utf8_rtrim, str.rstrip, reverse=True)
_BOTH = _trimmed(pc.utf8_trim, str.strip, reverse=False)
_LIST = [
    *(_of_texts(name, "text", "the text in upper case", _upper) for name in ("upper", "ucase")),
    *(_of_texts(name, "text", "the text in lower case", lowered) for name in ("lower", "lcase")),
    _of_texts(
        "trim",
        "text",
        "the text without blanks at its ends; trim(BOTH c FROM text) takes any of the characters c off",
        _BOTH,
    ),
    _of_texts("btrim", "text, c", "the text without any of the characters c at its ends", _BOTH, optional=1),
    _of_texts("ltrim", "c, text", "the text without blanks, or the characters c, at its start", _LEFT, optional=1),
    _of_texts("rtrim", "c, text", "the text without blanks, or the characters c, at its end", _RIGHT, optional=1),
    *(
        Function(name, "text", "number of characters; of bytes, for binary", (1, 1), _length)
        for name in ("length", "len", "char_length", "character_length")
    ),
    Function("octet_length", "text", "number of bytes in UTF-8", (1, 1), _octet_length),
    *(
        _of_texts(name, "text, position, length", _SUBSTRING, _substring, optional=1)
        for name in ("substring", "substr")
    ),
    _of_texts("left", "text, n", "the first n characters", _left),
    _of_texts("right", "text, n", "the last n characters", _right),
    Function("concat", "x, ...", "texts one after the other; null if one is null", (1, None), _concat),
    Function("||", "x, y", "two texts one after the other", (2, 2), _concatenation),
    Function(
        "concat_ws", "separator, x, ...", "texts that are not null, with a separator between", (1, None), _concat_ws
    ),
    _of_texts("replace", "text, x, y", "the text with y for each x; without y, x is deleted", _replace, optional=1),
    _of_texts("lpad", "text, n, c", "the text cut or filled on the left to n characters", _padded(True), optional=1),
    _of_texts("rpad", "text, n, c", "the text cut or filled on the right to n characters", _padded(False), optional=1),
    _of_texts("instr", "text, x", "the position of x in the text, 0 if it is not there", _position, INTEGER),
    Function("locate", "x, text, n", "the position of x in the text, from n on, 0 if it is not there", (2, 3), _locate),
    _tested("startswith", "whether the text begins with x", pc.starts_with, str.startswith),
    _tested("endswith", "whether the text ends with x", pc.ends_with, str.endswith),
    _tested("contains", "whether x is in the text", pc.match_substring, str.__contains__),
    _of_texts(
        "split_part",
        "text, x, n",
        "the nth part of the text between the x, counted from the end if n is negative",
        _split_part,
    ),
    _of_texts("repeat", "text, n", "the text n times", _repeat),
    _of_texts("reverse", "text", "the characters in reverse order", pc.utf8_reverse),
    _of_texts("translate", "text, x, y", "the text with each character of x replaced by that of y", _translate),
    _of_texts("ascii", "text", "the code point of the first character, 0 for no text", _ascii, INTEGER),
]
TEXT = {function.name: function for function in _LIST}
