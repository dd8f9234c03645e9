"""JSON as odd or hostile writers spell it: repeated keys, needless escapes, blanks, broken text."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

from hypothesis import strategies as st

__all__ = ["Members", "Raw", "broken", "spell", "values"]


class Members(NamedTuple):
    """An object as pairs: a key may be there twice."""

    pairs: list[tuple[str, Any]]


class Raw(str):
    """Text that stands in the JSON as it is."""

    __slots__ = ()


_SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def spell(value: Any, rng: random.Random | None = None) -> str:
    """Write a value as JSON; with a generator, in one of its many spellings."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Members):
        pairs = [(_string(key, rng), spell(item, rng)) for key, item in value.pairs]
        return _joined("{", [_blank(rng) + key + _blank(rng) + ":" + item for key, item in pairs], "}", rng)
    if isinstance(value, dict):
        return spell(Members(list(value.items())), rng)
    if isinstance(value, (list, tuple)):
        return _joined("[", [spell(item, rng) for item in value], "]", rng)
    if isinstance(value, str):
        return _blank(rng) + _string(value, rng) + _blank(rng)
    return _blank(rng) + json.dumps(value) + _blank(rng)


def _joined(opening: str, items: list[str], closing: str, rng: random.Random | None) -> str:
    return _blank(rng) + opening + _blank(rng) + ",".join(items) + _blank(rng) + closing + _blank(rng)


def _blank(rng: random.Random | None) -> str:
    return rng.choice([" ", "\t", "\r", "  "]) if rng is not None and rng.random() < 0.06 else ""


def _string(text: str, rng: random.Random | None) -> str:
    odd = rng is not None and rng.random() < 0.15
    return '"' + "".join(_character(character, rng if odd else None) for character in text) + '"'


def _character(character: str, rng: random.Random | None) -> str:
    code = ord(character)
    must = character in '"\\' or code < 0x20 or 0xD800 <= code < 0xE000
    if not must and (rng is None or rng.random() < 0.6):
        return character
    if character in _SHORT and (rng is None or rng.random() < 0.5):
        return _SHORT[character]
    units = character.encode("utf-16-be", "surrogatepass")
    digits = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
    upper = rng is not None and rng.random() < 0.5
    return "".join("\\u" + (unit.upper() if upper else unit) for unit in digits)


def values() -> st.SearchStrategy[Any]:
    """Draw JSON values of any kind, and numbers and words that are nearly JSON."""
    numbers = ["0", "-0", "1e3", "1.0", "9223372036854775807", "9223372036854775808", "-9223372036854775809"]
    numbers += ["2147483648", "1E+2", "-0.0", "1" * 500, "0." + "3" * 400, "1e999999999999", "5e-324"]
    nearly = ["01", "+1", ".5", "1.", "1e", "-", "NaN", "Infinity", "-Infinity", "nul", "True", "", "'a'", "//", "\x00"]
    scalars = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=6)
        | st.sampled_from(["\ud800", "\udc00x", "😀", "stats", "\x00", "\u2028", "a" * 40 + "\\" * 15])
        | st.sampled_from([Raw(text) for text in [*numbers, *nearly]])
    )
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(st.tuples(st.sampled_from(["a", "b", "stats", "path", "\ud800"]), inner), max_size=3).map(
                Members
            )
        ),
        max_leaves=5,
    )


@st.composite
def broken(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw what may become of text: bytes flipped, cut off, put in, or a piece of it said twice."""
    damaged = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(damaged)))
        what = draw(st.sampled_from(["flip", "cut", "insert", "drop", "twice"]))
        if what == "flip" and place < len(damaged):
            damaged[place] ^= 1 << draw(st.integers(0, 7))
        elif what == "cut":
            del damaged[place:]
        elif what == "insert":
            marks = [
                b'"',
                b"\\",
                b"{",
                b"}",
                b"[",
                b"]",
                b",",
                b":",
                b"\n",
                b"\xff",
                b"\xed\xa0\x80",
                b"\x00",
                b"\\u12",
            ]
            damaged[place:place] = draw(st.sampled_from(marks) | st.binary(min_size=1, max_size=4))
        elif what == "drop":
            del damaged[place : place + draw(st.integers(1, 20))]
        elif what == "twice":
            damaged[place:place] = damaged[place : place + draw(st.integers(1, 60))]
    return bytes(damaged)
