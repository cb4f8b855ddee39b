"""A small mechanistic simulator of an L2 cache under one decode-attention layer."""
