"""`python -m experiments` is `flocksim`."""

from experiments.cli import main

if __name__ == "__main__":
    main()
