"""Writing Parquet files, with statistics."""
