"""Studies of executors: what graphs of fixed shape cost, and what paged staging wins back.

The paper whose mechanism `kv_rm` has was withdrawn by its authors: nothing of it is a target.
"""
