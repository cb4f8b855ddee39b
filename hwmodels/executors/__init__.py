"""Executors: how a step reaches the GPU, what that costs, and which memory it reserves.

One class per file, chosen by the config group `executor`; docs/executors.md states the rules.
"""
