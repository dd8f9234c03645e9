"""What transactions of both formats share: operations that succeed or change nothing, and changes of rows."""
