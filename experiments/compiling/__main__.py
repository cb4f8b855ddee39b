"""`python -m experiments.compiling` is `flocksim-compile`."""

from experiments.compiling.entry import main

main()
