"""The forms of a checkpoint: which specification it follows, and which files it has (Delta protocol, "Checkpoints")."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Literal, get_args

from deltaberg.choices import CheckpointFormat, CheckpointNaming
from deltaberg.delta.actions.table_actions import Protocol
from deltaberg.delta.features import supports
from deltaberg.delta.log.names import checkpoint_name
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint, at_fault, shown_value
from deltaberg.signatures import public
from deltaberg.table.arguments import checked_choice, checked_flag, checked_kind

__all__ = ["FILES_PER_SIDECAR", "CheckpointLayout", "check_layout", "new_names"]

#: How many file actions a sidecar holds by default, as in delta-spark: so many are read and written in one task.
FILES_PER_SIDECAR = 50_000
_MOST_PARTS = 1_000_000


@public
@dataclass(frozen=True)
class CheckpointLayout:
    """The form of a checkpoint.

    Parameters
    ----------
    spec
        The specification that it follows: 1, or 2 for tables that support ``v2Checkpoint``.
    naming
        ``classic`` (one file, whose name follows from the version), ``uuid`` (one file of specification 2 with a
        unique name), or ``multipart`` (several files of specification 1; the protocol deprecates them).
    format
        The format of a main file named by UUID: ``parquet`` or ``json``. Other files are Parquet.
    parts
        The number of files of a multi-part checkpoint, at least 2.
    files_per_sidecar
        How many file actions go into each sidecar, in specification 2. With None they are in the main file.
    embed
        Whether ``_last_checkpoint`` repeats the actions of a main file named by UUID that are not about data files,
        and its sidecars.

    Raises
    ------
    InvalidArgumentError
        If the protocol does not allow the combination.

    Examples
    --------
    >>> CheckpointLayout().naming
    'classic'
    >>> CheckpointLayout(spec=2, naming="uuid", files_per_sidecar=100_000).format
    'parquet'
    """

    spec: Literal[1, 2] = 1
    naming: CheckpointNaming = "classic"
    format: CheckpointFormat = "parquet"
    parts: int = 1
    files_per_sidecar: int | None = None
    embed: bool = False

    def __post_init__(self) -> None:
        spec: object = self.spec
        if type(spec) is not int or spec not in (1, 2):
            raise InvalidArgumentError(at_fault("spec", f"must be 1 or 2, not {shown_value(spec)}"))
        checked_choice("naming", self.naming, get_args(CheckpointNaming), "leave it out for the classic name")
        checked_choice("format", self.format, get_args(CheckpointFormat), "leave it out for Parquet")
        checked_flag("embed", self.embed)
        if self.spec == 1 and self.naming == "uuid":
            raise InvalidArgumentError(
                "a checkpoint named by UUID follows specification 2", hint="pass ⟪spec=2⟫, or ⟪naming='classic'⟫"
            )
        if self.spec == 2 and self.naming == "multipart":
            raise InvalidArgumentError(
                "a multi-part checkpoint follows specification 1", hint="pass ⟪files_per_sidecar⟫ to divide the files"
            )
        if self.naming == "multipart" and not (type(self.parts) is int and 2 <= self.parts <= _MOST_PARTS):
            raise InvalidArgumentError(
                at_fault("parts", f"must be at least 2 for a multi-part checkpoint, not {shown_value(self.parts)}")
            )
        if self.naming != "multipart" and (type(self.parts) is not int or self.parts != 1):
            raise InvalidArgumentError(
                at_fault(
                    "parts", f"must be 1, not {shown_value(self.parts)}, since only multi-part checkpoints have parts"
                )
            )
        if self.naming != "uuid" and (self.format != "parquet" or self.embed):
            raise InvalidArgumentError(
                Hint(f"a {self.naming} checkpoint has ⟪format='parquet'⟫ and ⟪embed=False⟫"),
                hint="pass ⟪naming='uuid'⟫",
            )
        self._check_sidecars()

    def _check_sidecars(self) -> None:
        count = self.files_per_sidecar
        if count is not None and (self.spec == 1 or type(count) is not int or count < 1):
            raise InvalidArgumentError(
                at_fault("files_per_sidecar", f"must be a positive number, not {shown_value(count)}"),
                hint="pass ⟪spec=2⟫ with it, which has sidecars",
            )


def new_names(layout: CheckpointLayout, version: int) -> list[str]:
    """Return new names for the main file, or for the parts, of a checkpoint of a version."""
    stem = checkpoint_name(version).removesuffix(".parquet")
    if layout.naming == "multipart":
        return [f"{stem}.{part:010d}.{layout.parts:010d}.parquet" for part in range(1, layout.parts + 1)]
    if layout.naming == "uuid":
        return [f"{stem}.{uuid.uuid4()}.{layout.format}"]
    return [checkpoint_name(version)]


def check_layout(layout: CheckpointLayout, protocol: Protocol) -> None:
    """Refuse a form that the table's protocol does not allow.

    Raises
    ------
    InvalidArgumentError
        Specification 2 on a table without ``v2Checkpoint``, or several parts on a table with it.
    """
    checked_kind("layout", layout, CheckpointLayout, "pass CheckpointLayout(spec=2), or leave it out")
    modern = supports(protocol, "v2Checkpoint") and "v2Checkpoint" in (protocol.reader_features or ())
    if layout.spec == 2 and not modern:
        raise InvalidArgumentError(
            "a checkpoint of specification 2 needs the table feature v2Checkpoint",
            hint="pass ⟪spec=1⟫, or add the feature to the table",
        )
    if layout.naming == "multipart" and supports(protocol, "v2Checkpoint"):
        raise InvalidArgumentError(
            "tables with the feature v2Checkpoint must not have multi-part checkpoints",
            hint="pass ⟪spec=2⟫ and ⟪files_per_sidecar⟫",
        )
