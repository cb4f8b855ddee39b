"""`python -m experiments.calibrate` is `flocksim-calibrate`."""

from experiments.calibrate.command import main

if __name__ == "__main__":
    main()
