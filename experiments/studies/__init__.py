"""Studies: published measurements and claims, each beside what the simulator gives for it."""
