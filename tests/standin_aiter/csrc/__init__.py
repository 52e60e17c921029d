"""Sources beside the package, as aiter has them."""
