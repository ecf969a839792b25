"""Speed against other libraries: `python -m benchmarks`."""
