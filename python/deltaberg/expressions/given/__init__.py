"""What callers give as conditions and values, as a tree."""
