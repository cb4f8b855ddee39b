"""Prefill and decode on instances of their own, and the KV that moves between them."""
