"""Starts children that are killed at a chosen point of an operation.

It has imported and used everything, so that a child starts by a fork in milliseconds. It has never used an object
store, whose client does not survive a fork. Requests and answers are lines of JSON on its standard streams.

The points are the calls of the store, the steps by which a local file appears, and the requests by which a catalog is
changed: before each of them, and after it.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deltaberg.catalogs.rest.session import RestSession
from deltaberg.catalogs.sql_catalog import SqlCatalog
from deltaberg.storage import atomic
from deltaberg.storage.local import LocalOutput, LocalStorage
from tests.crash.operations import OPERATIONS
from tests.crash.targets import Target
from tests.support.warm import warm_up

__all__ = ["main"]

#: Seconds that a child may take.
_PATIENCE = 120
_CALLS = ("get", "get_ranges", "head", "list_from", "directories", "walk", "has_objects", "open")
_CHANGES = ("put", "probe_conditional_put", "open_output", "delete", "delete_many")
_STEPS = ("open_temporary", "sync_file", "link_if_absent", "publish", "remove_quietly")


class _Killer:
    """Counts calls, and kills the process before or after one of them; without a number it only counts."""

    def __init__(self, number: int | None, when: str) -> None:
        self.number, self.when = number, when
        self.count = 0
        self.names: list[str] = []

    def around(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(call)
        def counted(*arguments: Any, **named: Any) -> Any:
            here = self.count
            self.count += 1
            self.names.append(name)
            self._kill(here, "before")
            try:
                return call(*arguments, **named)
            finally:
                self._kill(here, "after")

        return counted

    def _kill(self, number: int, when: str) -> None:
        if (number, when) == (self.number, self.when):
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        for name in (*_CALLS, *_CHANGES):
            setattr(LocalStorage, name, self.around(getattr(LocalStorage, name), name))
        for name in ("write", "close", "abort"):
            setattr(LocalOutput, name, self.around(getattr(LocalOutput, name), f"output.{name}"))
        for name in _STEPS:
            setattr(atomic, name, self.around(getattr(atomic, name), name))
        for owner, name, shown in ((SqlCatalog, "_change", "statement"), (RestSession, "change", "request")):
            setattr(owner, name, self.around(getattr(owner, name), shown))


def _child(request: dict[str, Any]) -> None:
    killer = _Killer(request["number"], request["when"])
    killer.install()
    OPERATIONS[request["operation"]].run(Target(request["root"], kind=request["kind"], uri=request["uri"]))
    Path(request["acknowledged"]).touch()
    Path(request["counted"]).write_text(json.dumps(killer.names))


def _fork(request: dict[str, Any]) -> int:
    """Run a request in a child, and return how it ended: 0, or minus the number of the signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _child(request)
            code = 0
        except BaseException:  # noqa: BLE001 - the child says why it ends
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    # A child that hangs ends as none does that is killed at its point.
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGABRT))
    signal.alarm(_PATIENCE)
    _, status = os.waitpid(child, 0)
    signal.alarm(0)
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    """Serve requests until the end of the input."""
    warm_up()
    for line in sys.stdin:
        print(json.dumps({"ended": _fork(json.loads(line))}), flush=True)


if __name__ == "__main__":
    main()
