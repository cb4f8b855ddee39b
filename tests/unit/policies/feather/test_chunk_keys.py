"""Chunk keys are equal exactly where prompts are."""

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching.feather.chunk_keys import chunk_keys
from sim.request import Request
from tests.twin.stories import Ask, workload_of
from tests.unit.policies.feather.tokens import chunk_prefixes, random_requests, tokens_of


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), chunk_tokens=st.integers(1, 20))
def test_keys_are_equal_if_and_only_if_the_tokens_up_to_there_are(
    seed: int, chunk_tokens: int
) -> None:
    workload, requests = random_requests(seed)
    prefix_of_key: dict[int, object] = {}
    key_of_prefix: dict[object, int] = {}
    for request in requests:
        keys = chunk_keys(request, chunk_tokens)
        prefixes = chunk_prefixes(tokens_of(workload, request), chunk_tokens)
        assert len(keys) == len(prefixes)
        for key, prefix in zip(keys, prefixes, strict=True):
            assert prefix_of_key.setdefault(key, prefix) == prefix
            assert key_of_prefix.setdefault(prefix, key) == key


def test_the_last_partial_chunk_is_included() -> None:
    # A node of 10 tokens; alone, with 1 private token, and with 5 that end a full chunk.
    workload = workload_of(
        [Ask(0, 10, 1, (0,)), Ask(0, 11, 1, (0,)), Ask(0, 15, 1, (0,))], [(-1, 10)]
    )
    requests = [Request(workload, k, 0.0, n, 1, (0,), n - 10) for k, n in enumerate((10, 11, 15))]
    keys = [chunk_keys(request, 4) for request in requests]
    assert [len(k) for k in keys] == [3, 3, 4]
    assert keys[0][:2] == keys[1][:2] == keys[2][:2]
    assert len({k[2] for k in keys}) == 3


def test_chunks_longer_than_the_prompt_are_one_partial_chunk() -> None:
    assert len(chunk_keys(Request(None, 3, 0.0, 7, 1, (), 7), 50)) == 1
