"""How much a cluster can take: flood throughput, and the highest rate that meets an SLO."""
