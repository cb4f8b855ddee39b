"""Generators of synthetic workloads."""
