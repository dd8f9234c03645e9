"""The verbs of tables and of transactions, of both formats, each once."""
