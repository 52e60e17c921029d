"""Tell: health endpoints, metrics, events and reports."""
