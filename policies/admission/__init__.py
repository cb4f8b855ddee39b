"""Policies of the group `admission`."""
