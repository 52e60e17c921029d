"""Plan: a pure function from settings, node and engine to the command, its environment and findings."""
