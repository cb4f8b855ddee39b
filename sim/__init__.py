"""Discrete-event core of flocksim: requests, KV cache, instances, clusters, records."""
