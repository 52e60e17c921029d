"""The memory budget: what a model needs of a node's memory, and what is left of it for the KV pool."""
