"""Data files of the three formats: Parquet, ORC and Avro."""
