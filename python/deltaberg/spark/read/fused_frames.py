"""How the frames of the fused road were made, so that a write can take their rows where these are computed."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from deltaberg.spark.read.read_tasks import FusedTask

__all__ = ["FusedFrame", "fused_frame", "note_fused"]


class FusedFrame(NamedTuple):
    """The tasks of a scan, and what reads them and runs the user's function."""

    tasks: DataFrame
    function: FusedTask


#: The frames that `scan_map_in_arrow` returned, as long as the caller keeps them.
_frames: WeakKeyDictionary[DataFrame, FusedFrame] = WeakKeyDictionary()


def note_fused(frame: DataFrame, tasks: DataFrame, function: FusedTask) -> DataFrame:
    """Remember how a frame was made, and return the frame."""
    _frames[frame] = FusedFrame(tasks, function)
    return frame


def fused_frame(frame: DataFrame) -> FusedFrame | None:
    """Return how a frame was made; None for one that did not come from the fused road as it is.

    Nor does one whose rows the session keeps (``frame.cache()``): they are not to be computed again, by a function that
    may return others the next time.
    """
    found = _frames.get(frame)
    return None if found is None or frame.is_cached else found
