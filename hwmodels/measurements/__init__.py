"""Readers of measured kernel times. Each leaves known defects out and says what and why.

Units are converted here (tables give milliseconds, KiB, GB/s): rows hold seconds and bytes.
"""
