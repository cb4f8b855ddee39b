"""Scheduling policies: batching, routing, eviction, admission. One class file each."""
