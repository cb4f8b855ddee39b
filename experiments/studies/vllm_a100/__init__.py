"""Inter-token latencies of vLLM on A100 against whole simulated runs."""
