"""Making tables of what is there already, without writing rows anew."""
