"""What building needs."""
