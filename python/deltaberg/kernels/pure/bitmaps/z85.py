"""Z85, the variant of Base85 that encodes inline deletion vectors and the names of deletion vector files."""

from __future__ import annotations

from deltaberg.errors import InvalidZ85Error

__all__ = ["z85_decode", "z85_encode"]

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {character: value for value, character in enumerate(_ALPHABET)}
_WORD = 1 << 32


def z85_encode(data: bytes) -> str:
    """Encode bytes, whose number must be a multiple of 4, as Z85 text."""
    if len(data) % 4:
        raise InvalidZ85Error(f"Z85 encodes whole groups of 4 bytes, got {len(data)} bytes")
    text: list[str] = []
    for start in range(0, len(data), 4):
        rest = int.from_bytes(data[start : start + 4], "big")
        group = []
        for _ in range(5):
            rest, digit = divmod(rest, 85)
            group.append(_ALPHABET[digit])
        text.extend(reversed(group))
    return "".join(text)


def z85_decode(text: str) -> bytes:
    """Decode Z85 text to bytes."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size % 5:
        raise InvalidZ85Error(f"Z85 text comes in groups of 5 characters, got {size} bytes of text")
    data = bytearray()
    for group, start in enumerate(range(0, len(text), 5)):
        value = 0
        for character in text[start : start + 5]:
            digit = _DIGITS.get(character)
            if digit is None:
                raise InvalidZ85Error(f"Z85 group {group} holds a character outside the Z85 alphabet")
            value = value * 85 + digit
        if value >= _WORD:
            raise InvalidZ85Error(f"Z85 group {group} encodes more than 32 bits")
        data += value.to_bytes(4, "big")
    return bytes(data)
