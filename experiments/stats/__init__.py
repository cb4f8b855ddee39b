"""Statistics of repeated runs: intervals of means, paired differences, breakdowns by request."""
