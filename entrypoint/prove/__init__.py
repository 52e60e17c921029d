"""Prove: evidence that tool calls and reasoning work before a server is called ready."""
