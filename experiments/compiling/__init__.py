"""`flocksim-compile`: the engine's busiest modules as machine code."""
