"""One recipe per kernel model: what is fitted, within which bounds, on which rows."""
