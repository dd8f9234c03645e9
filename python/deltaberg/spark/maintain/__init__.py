"""The upkeep of tables by Spark's tasks."""
