"""What is in a trace: arrivals, lengths, sharing, reuse against cache size, sessions.

All of it is computed from the compressed `Workload`, in time that grows with its path nodes and
not with its tokens. Prints and draws nothing.
"""
