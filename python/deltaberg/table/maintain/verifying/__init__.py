"""What metadata names and the store lacks, and how it is mended."""
