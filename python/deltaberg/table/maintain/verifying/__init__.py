"""Files that metadata names and the store lacks: how they are found, and how the table is mended."""
