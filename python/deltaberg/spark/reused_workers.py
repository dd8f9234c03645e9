"""What Spark's Python workers do between two tasks, and how it takes no time.

Spark keeps its workers. Before each task they invalidate all cached importers, and after it they collect garbage, also
those that plan or commit a write of a Data Source. With few rows, that takes several times as long as the rows do.
"""

from __future__ import annotations

import gc
import os
import sys

import pyspark

__all__ = ["spare_next_task"]

#: What Spark sets in a worker that it keeps.
_KEPT = "SPARK_REUSE_WORKER"
_MOST_FREEZES = 16
_frozen_modules, _freezes = 0, 0


def spare_next_task() -> None:
    """Spare the next task of this worker what Spark would have it do again; each task calls this when it begins."""
    _forget_archives_of_spark()
    if os.environ.get(_KEPT):
        _freeze_modules()


def _forget_archives_of_spark() -> None:
    """Drop the importers of Spark's own archives from CPython's cache; it makes them again when they are needed.

    CPython before 3.13 reads the whole index of the archive for each importer of one that is invalidated: a tenth of a
    second for those of ``pyspark.zip`` and of the jar that Spark puts on the path.
    """
    zipped = "".join((pyspark.__file__ or "").rpartition(".zip")[:2])
    for path, importer in list(sys.path_importer_cache.items()):
        archive = getattr(importer, "archive", "")
        if archive and (archive == zipped or archive.endswith(".jar")):
            del sys.path_importer_cache[path]


def _freeze_modules() -> None:
    """Have collections of garbage pass over what there is now, if modules were loaded since this was done.

    Most of it is what modules are made of, and stays as long as the process. The little else is in no cycle, or is kept
    a few times at most: the first tasks load the modules, and those that are loaded later on are collected as usual.
    """
    global _frozen_modules, _freezes
    if len(sys.modules) != _frozen_modules and _freezes < _MOST_FREEZES:
        gc.freeze()
        _frozen_modules, _freezes = len(sys.modules), _freezes + 1
