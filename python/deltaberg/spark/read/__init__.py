"""The roads from a scan to a DataFrame, and the tasks that executors run."""
