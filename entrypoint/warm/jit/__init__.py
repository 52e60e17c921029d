"""JIT: kernels built before the engine starts, under its own Python, where no watchdog of its own can see it."""
