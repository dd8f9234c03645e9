"""Creating Delta tables, from columns or from a directory of Parquet files."""
