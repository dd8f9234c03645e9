"""Making tables of existing directories, without writing rows anew."""
