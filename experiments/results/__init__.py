"""What a job writes: result.json, run.json, requests.parquet, steps.parquet."""
