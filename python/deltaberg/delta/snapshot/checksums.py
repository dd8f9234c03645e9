"""Version checksums compared with what the log says (Delta protocol, "Version Checksum File")."""

from __future__ import annotations

from typing import NamedTuple

from deltaberg.delta.log.version_checksum import read_version_checksum
from deltaberg.delta.snapshot.snapshot import Snapshot

__all__ = ["WrongFact", "wrong_facts"]


class WrongFact(NamedTuple):
    """A fact of a version checksum that is not so: what it says, and what the log says."""

    name: str
    recorded: int
    found: int


def wrong_facts(snapshot: Snapshot) -> list[WrongFact]:
    """Return the facts in which the checksum file of a version differs from the version; none if there is no file.

    Raises
    ------
    CorruptLogError
        The file cannot be read.
    """
    recorded = read_version_checksum(snapshot.log, snapshot.version)
    if recorded is None:
        return []
    found = snapshot.checksum.to_json()
    return [WrongFact(name, value, found[name]) for name, value in recorded.to_json().items() if value != found[name]]
