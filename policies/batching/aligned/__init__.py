"""AlignedServe: decode batches of requests whose KV has about the same length, fed from a host."""
