"""Policies of the group `routing`."""
