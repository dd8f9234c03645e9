"""Calls that wait for jobs of Spark, and that Ctrl-C ends together with their jobs.

PySpark cancels jobs when it is interrupted, but by the very connection on which the interrupted thread waits for the
JVM. Both calls then fail: the caller sees a `Py4JError` in place of a `KeyboardInterrupt`, and the job goes on. The
main thread, which is the one that is interrupted, therefore waits for another one, which has a connection of its own.
Over Spark Connect, PySpark interrupts its operations by itself.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from pyspark.util import inheritable_thread_target

from deltaberg.spark.session import SessionFacts
from deltaberg.workers import Outcome, Workers

__all__ = ["run_job"]

_Result = TypeVar("_Result")
_TAKES_SESSIONS = (4, 0)


def run_job(facts: SessionFacts, call: Callable[[], _Result]) -> _Result:
    """Return what a call returns that waits for jobs of a session.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C came meanwhile. The jobs are cancelled by then, and the call has ended.
    """
    if facts.is_remote or threading.get_ident() != threading.main_thread().ident:
        return call()
    context = facts.session.sparkContext
    tag = f"deltaberg-{uuid.uuid4()}"

    def tagged() -> _Result:
        context.addJobTag(tag)
        return call()

    # Groups, pools and descriptions of jobs belong to the thread that sets them.
    takes_sessions = facts.release >= _TAKES_SESSIONS
    inherit = inheritable_thread_target(facts.session) if takes_sessions else inheritable_thread_target
    with Workers(1) as workers:
        outcome: Outcome[_Result] = workers.submit(inherit(tagged))
        try:
            return outcome.result()
        except KeyboardInterrupt:
            # The call may be between two jobs.
            while not outcome.is_done:
                with suppress(Exception):
                    context.cancelJobsWithTag(tag)
                outcome.wait_briefly()
            raise
