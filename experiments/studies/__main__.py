"""`python -m experiments.studies` is `flocksim-study`."""

from experiments.studies.command import main

if __name__ == "__main__":
    main()
