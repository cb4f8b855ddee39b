"""Policies of the group `eviction`."""
