"""The rules: what a plan is checked for before anything starts, one row each."""
