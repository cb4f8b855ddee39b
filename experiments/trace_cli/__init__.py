"""The command `flocksim-trace`: look at, check, convert, generate and compare traces."""
