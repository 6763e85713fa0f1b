"""Benchmarks: every performance claim of the README comes from here. Run them with `make bench`."""
