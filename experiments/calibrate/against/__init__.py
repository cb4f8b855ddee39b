"""`flocksim-calibrate against`: a measured run beside its replay, and the host's constants."""
