"""Policies of the group `batching`."""
