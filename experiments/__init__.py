"""Commands, configuration, results and figures."""
