"""Options of stores, in the spellings of other libraries."""
