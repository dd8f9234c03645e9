"""The common part of transactions of both formats: operations that succeed or change nothing, and changes of rows."""
