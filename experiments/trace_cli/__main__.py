"""`python -m experiments.trace_cli` is `flocksim-trace`."""

from experiments.trace_cli.command import main

if __name__ == "__main__":
    main()
