"""Workloads: trace readers, synthetic generators, transforms, prefix compression."""
