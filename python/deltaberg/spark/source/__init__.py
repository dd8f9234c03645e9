"""The Python Data Sources ``delta`` and ``iceberg``, and their options."""
