"""Settings: what the user wants, in layers that remember where each value came from."""
