"""The cluster: what is true of one site only, each in a file of its own."""
