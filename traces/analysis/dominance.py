"""Sums over the beginnings of a sequence of what lies above a threshold, many at once."""

import numpy as np

from sim.workload import FloatArray, IntArray


def sums_above(keys: IntArray, weights: FloatArray, stop: IntArray, low: IntArray) -> FloatArray:
    """For each query q the sum of weights[i] over i < stop[q] with keys[i] > low[q].

    A beginning is cut into pieces of 1, 2, 4, ... values by the binary digits of its length. All
    pieces of one size are sorted at once, the pieces of the size below being sorted already; time
    is O((keys + queries) log keys).

    Args:
        keys: >= 0. Shape (n,).
        weights: one per key. Shape (n,).
        stop: 0 to n. Shape (num_queries,).
        low: >= -1. Shape (num_queries,).
    """
    n = len(keys)
    result = np.zeros(len(stop))
    step = int(max(keys.max(initial=0), low.max(initial=0))) + 2
    # keys are shifted by 1 so that a threshold of -1 fits below
    sorted_keys, sorted_weights = keys + 1, np.asarray(weights, dtype=np.float64)
    for level in range(n.bit_length()):
        piece = (np.arange(n) >> level) * step
        order = np.argsort(piece + sorted_keys, kind="stable")
        sorted_keys, sorted_weights = sorted_keys[order], sorted_weights[order]
        asks = np.flatnonzero((stop >> level) & 1)
        if not len(asks):
            continue
        first_piece = (stop[asks] >> (level + 1)) << 1
        end = np.minimum((first_piece + 1) << level, n)
        above = first_piece * step + low[asks] + 1
        begin = np.searchsorted(piece + sorted_keys, above, side="right")
        total = np.append(0.0, np.cumsum(sorted_weights))
        result[asks] += total[end] - total[begin]
    return result
