"""Variants (Parquet format, "Variant Binary Encoding" and "Variant Shredding")."""
