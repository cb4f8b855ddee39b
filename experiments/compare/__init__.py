"""The command `flocksim-compare`: policies against a baseline, as tables, files and figures."""
