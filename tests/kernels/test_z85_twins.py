"""Z85: native and Python agree with each other, and with pairs of text and bytes from elsewhere."""

from __future__ import annotations

import uuid
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import InvalidZ85Error
from tests.kernels.twins import Raised, backends, twins
from tests.support.effort import examples
from tests.support.vectors import z85

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


@examples(200)
@given(st.binary(max_size=64))
def test_encode(data: bytes) -> None:
    encoded = twins(lambda kernels: kernels.z85_encode(data))
    if len(data) % 4:
        assert encoded.kind is InvalidZ85Error
        return
    assert encoded == z85(data)
    assert twins(lambda kernels: kernels.z85_decode(encoded)) == data


@examples(300)
@given(st.text(_ALPHABET, max_size=30) | st.text(max_size=12) | st.text("#~ü😀0", max_size=10))
def test_decode(text: str) -> None:
    found = twins(lambda kernels: kernels.z85_decode(text))
    if not isinstance(found, Raised):
        assert z85(found) == text


@pytest.mark.req("DL-DV-11", half="reader")
@pytest.mark.req("DL-DV-11", half="writer")
@pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__)
def test_the_pair_of_the_protocol(kernels: ModuleType) -> None:
    identity = uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
    assert kernels.z85_encode(identity.bytes) == "^-aqEH.-t@S}K{vb[*k^"
    assert kernels.z85_decode("^-aqEH.-t@S}K{vb[*k^") == identity.bytes
    for text in ("^-aqEH.-t@S}K{vb[*k", "~-aqE", "#####", "üaaa"):
        with pytest.raises(
            InvalidZ85Error, match=r"^Z85 (text comes in groups of 5|group 0 holds|group 0 encodes more)"
        ):
            kernels.z85_decode(text)
    with pytest.raises(InvalidZ85Error, match="whole groups of 4 bytes, got 3"):
        kernels.z85_encode(b"abc")


@pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__)
def test_the_pair_of_zeromq(kernels: ModuleType) -> None:
    """The test case of the format's own document, ZeroMQ RFC 32."""
    data = bytes.fromhex("864fd26fb559f75b")
    assert kernels.z85_encode(data) == "HelloWorld"
    assert kernels.z85_decode("HelloWorld") == data
