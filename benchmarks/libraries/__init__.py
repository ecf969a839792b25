"""One module per library: each lists the methods that `python -m benchmarks` can run."""
