"""Puts into a pure wheel why it is pure; `deltaberg.kernels.report` shows it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ReasonHook(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
    """Adds ``deltaberg/_build.json``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the reason and have it packed."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        source = Path(self._folder.name) / "_build.json"
        reason = os.environ.get("DELTABERG_BUILD_REASON", "it was built by hatchling, without the compiled module")
        source.write_text(json.dumps({"reason": reason}), "utf-8")
        build_data["force_include"][str(source)] = "deltaberg/_build.json"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary file."""
        folder = getattr(self, "_folder", None)
        if folder is not None:
            folder.cleanup()
