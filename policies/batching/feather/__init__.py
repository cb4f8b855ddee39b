"""Feather: the Chunked Hash Tree, its learners and the policy."""
