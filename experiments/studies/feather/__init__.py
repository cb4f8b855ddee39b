"""Feather's claims, each beside what the simulator gives for it; nothing is tuned to meet one."""
