"""The batch script: a job that starts a server, a client beside it, and asks for another try where that may help."""
