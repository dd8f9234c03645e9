"""The actions of the log (Delta protocol, "Actions")."""
