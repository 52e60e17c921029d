"""Run: the state table, the loop around it, and the processes it looks after."""
