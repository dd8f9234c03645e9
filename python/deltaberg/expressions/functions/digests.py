"""Digests and encodings of bytes. Text stands for its bytes in UTF-8."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Sequence

import pyarrow as pa

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.compute.by_row import each_distinct
from deltaberg.expressions.functions.function import Context, Function, simple
from deltaberg.expressions.tree.nodes import CallNode, Kernel, LiteralNode, Node
from deltaberg.expressions.tree.types import BINARY, INTEGER, LONG, STRING, is_integral

__all__ = ["DIGESTS"]

_LENGTHS = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def _digest(algorithm: str) -> Kernel:
    def digest(content: bytes) -> str:
        return hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()

    return lambda values: each_distinct(digest, pa.string(), "", values)


def _of_bytes(function: Callable[[bytes], object], kind: pa.DataType) -> Kernel:
    return lambda values: each_distinct(function, kind, "", values)


def _sha2(context: Context, nodes: Sequence[Node]) -> Node:
    content = context.convert(nodes[0], BINARY, "sha2")
    length = context.convert(nodes[1], INTEGER, "sha2")
    algorithm = _LENGTHS.get(length.scalar.as_py()) if isinstance(length, LiteralNode) else None
    if algorithm is None:
        raise UnsupportedExpressionError("sha2 takes a length of 0, 224, 256, 384 or 512 bits that is a literal")
    return CallNode(STRING, "sha2", (content,), _digest(algorithm))


def _hex(context: Context, nodes: Sequence[Node]) -> Node:
    (node,) = nodes
    if is_integral(node.type):
        node = context.cast(node, LONG)
        return CallNode(STRING, "hex", (node,), lambda values: each_distinct(_hex_number, pa.string(), "", values))
    node = context.convert(node, BINARY, "hex")
    return CallNode(STRING, "hex", (node,), _of_bytes(lambda content: content.hex().upper(), pa.string()))


def _hex_number(number: int) -> str:
    return f"{number & (1 << 64) - 1:X}"


_LIST = [
    simple("md5", "x", "the MD5 digest in hexadecimal", [BINARY], STRING, _digest("md5")),
    *(
        simple(name, "x", "the SHA-1 digest in hexadecimal", [BINARY], STRING, _digest("sha1"))
        for name in ("sha", "sha1")
    ),
    Function("sha2", "x, bits", "the SHA-2 digest in hexadecimal", (2, 2), _sha2),
    simple("crc32", "x", "the cyclic redundancy check", [BINARY], LONG, _of_bytes(zlib.crc32, pa.int64())),
    Function("hex", "x", "the bytes, or the number, in hexadecimal", (1, 1), _hex),
    simple(
        "base64",
        "x",
        "the bytes in base 64",
        [BINARY],
        STRING,
        _of_bytes(lambda content: base64.b64encode(content).decode(), pa.string()),
    ),
]
DIGESTS = {function.name: function for function in _LIST}
