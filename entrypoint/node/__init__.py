"""Node: what the machine and its scheduler say about themselves, read once as frozen data."""
