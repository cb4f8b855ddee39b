"""Runs the command as `python -m hwmodels.microbench`."""

from hwmodels.microbench.cli import main

main()
