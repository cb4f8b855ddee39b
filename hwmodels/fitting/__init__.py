"""Fitting of kernel models to measured times: robust least squares, standard errors, hold-out."""
