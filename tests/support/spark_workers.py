"""The daemon that starts Python workers of Spark in tests: PySpark's own, with less to do for each task.

Spark puts an archive of PySpark, and a jar, on the path of its workers. Each task has Python forget what it knows of
its path, so that it reads the lists of these archives again, and look at all objects for garbage. That is most of the
time of a short task. So PySpark comes from its folder here, and what every worker loads is loaded before they start,
and left alone by the collector.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module

if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if not ("/pyspark/" in place and place.endswith((".zip", ".jar")))]
    sys.path_importer_cache.clear()
    daemon = import_module("pyspark.daemon")
    for needed in ("pandas", "pyarrow", "pyspark.sql.pandas.serializers"):
        import_module(needed)
    gc.freeze()
    daemon.manager()
