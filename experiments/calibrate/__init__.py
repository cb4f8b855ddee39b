"""The command `flocksim-calibrate`: fit kernel models to measured times, and check them."""
