"""What a block of the package calls when it begins, in a run of ``make mutants`` that notes what the tests reach."""

from __future__ import annotations

import mmap
import os

__all__ = ["HITS", "hits", "probe"]

#: The variable that names the file with one byte for each block. The processes that a test starts map the same file.
HITS = "DELTABERG_HITS"


def _mapped() -> bytearray | mmap.mmap:
    if HITS not in os.environ:
        return bytearray()
    with open(os.environ[HITS], "r+b") as file:
        return mmap.mmap(file.fileno(), 0)


hits = _mapped()


def probe(number: int) -> None:
    """Note that the running test reaches a block."""
    hits[number] = 1
