"""Hydra configuration groups (this file makes `pkg://experiments.conf` importable)."""
