"""Three-valued evaluation on statistics: a file is kept unless it certainly has no matching row."""
