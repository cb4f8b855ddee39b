"""Studies of AlignedServe: batches by KV length against batches by age, and what they cost."""
