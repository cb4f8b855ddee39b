"""Lower tiers of the prefix cache: host memory, and a remote store behind it."""
