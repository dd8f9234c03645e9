"""Opening, creating and writing tables of either format: what knows both."""
