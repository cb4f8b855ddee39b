"""FLOPs and bytes of each kind of operator, by hand on a tiny model and against known totals."""

from dataclasses import replace

import pytest

from hwmodels.model_catalogue import load_model
from hwmodels.model_shape import ModelShape
from hwmodels.work import (
    Work,
    all_reduce_bytes,
    attention_bytes_per_new_token,
    attention_flops_per_pair,
    causal_pairs,
    decode_attention_work,
    distinct_experts,
    layer_matmuls,
    logits_matmul,
    matmul_work,
    num_all_reduces,
    prefill_attention_work,
    small_ops_bytes,
)

TINY = ModelShape(
    name="tiny",
    num_layers=2,
    hidden_size=4,
    num_attention_heads=2,
    num_kv_heads=1,
    head_dim=2,
    intermediate_size=3,
    vocab_size=5,
    max_context_tokens=64,
)
TINY_MOE = replace(
    TINY, intermediate_size=0, num_experts=4, experts_per_token=2, moe_intermediate_size=3
)


def test_matmul_counts_two_flops_per_product_and_each_matrix_once() -> None:
    assert matmul_work(3, 5, 7, 2) == Work(2 * 3 * 5 * 7, 2 * (15 + 35 + 21))


def test_layer_matmuls_by_hand() -> None:
    assert layer_matmuls(TINY, 1) == [
        Work(2 * 4 * 8, 2 * (4 + 32 + 8)),  # query 4, key 2, value 2
        Work(2 * 4 * 4, 2 * (4 + 16 + 4)),
        Work(2 * 4 * 6, 2 * (4 + 24 + 6)),  # gate and up
        Work(2 * 3 * 4, 2 * (3 + 12 + 4)),
    ]


def test_expert_matmuls_read_the_experts_that_are_visited() -> None:
    router, up, down = layer_matmuls(TINY_MOE, 1)[2:]
    assert router == Work(2 * 4 * 4, 2 * (4 + 16 + 4))
    assert up == Work(2 * 2 * 4 * 6, 2 * (2 * (4 + 6) + 2 * 24))
    assert down == Work(2 * 2 * 3 * 4, 2 * (2 * (3 + 4) + 2 * 12))


def test_two_tokens_visit_three_of_four_experts_on_average() -> None:
    up = layer_matmuls(TINY_MOE, 2)[3]
    assert up.hbm_bytes == 2 * (4 * (4 + 6) + 3 * 24)


@pytest.mark.parametrize(
    ("num_tokens", "expected"), [(0, 0.0), (1, 8.0), (2, 15.5), (10_000, 128.0)]
)
def test_distinct_experts_grow_from_those_of_one_token_to_all(
    num_tokens: int, expected: float
) -> None:
    assert distinct_experts(128, 8, num_tokens) == pytest.approx(expected)


def test_shared_expert_is_a_second_mlp() -> None:
    shape = replace(TINY_MOE, shared_expert_intermediate_size=3)
    assert layer_matmuls(shape, 1)[2:4] == layer_matmuls(TINY, 1)[2:4]


@pytest.mark.parametrize("name", ["llama3_8b", "opt_13b", "qwen3_30b_a3b", "mixtral_8x7b"])
def test_matmul_flops_of_a_token_are_twice_its_active_matrices(name: str) -> None:
    shape = load_model(name)
    layers = shape.num_layers * sum(work.flops for work in layer_matmuls(shape, 1))
    flops = layers + logits_matmul(shape, 1).flops
    table = shape.vocab_size * shape.hidden_size
    matrices = shape.num_active_parameters - (0 if shape.has_tied_embeddings else table)
    assert flops / (2 * matrices) == pytest.approx(1, abs=0.002)


def test_logits_are_computed_for_sampled_positions_only() -> None:
    assert logits_matmul(TINY, 0) == Work(0, 0)
    assert logits_matmul(TINY, 3) == Work(2 * 3 * 4 * 5, 2 * (12 + 20 + 15))


def test_small_operators_by_hand() -> None:
    # Layer: norms 2 x 16, rotary 2 x (4 + 2), activation 9. Once: embedding 8, last norm 16.
    assert small_ops_bytes(TINY, 1) == 2 * (2 * (32 + 12 + 9) + 8 + 16)
    assert small_ops_bytes(TINY, 10) == 10 * small_ops_bytes(TINY, 1)


def test_learned_positions_need_no_rotary_operator() -> None:
    learned = replace(TINY, num_position_embeddings=64)
    assert small_ops_bytes(TINY, 1) - small_ops_bytes(learned, 1) == 2 * (2 * 12)


def test_attention_constants_by_hand() -> None:
    assert attention_flops_per_pair(TINY) == 4 * 2 * 4
    assert attention_bytes_per_new_token(TINY) == 2 * 2 * 4 * 2 + 16


def test_decode_attention_reads_every_context_once() -> None:
    assert decode_attention_work(TINY, 2, 30) == Work(30 * 32, 30 * 16 + 2 * 48)


@pytest.mark.parametrize(("new", "prefix"), [(1, 0), (3, 5), (7, 0), (1, 40)])
def test_causal_pairs_count_each_visible_token(new: int, prefix: int) -> None:
    assert causal_pairs(new, prefix) == sum(prefix + i + 1 for i in range(new))


def test_prefill_attention_by_hand() -> None:
    assert prefill_attention_work(TINY, 3, 5) == Work(21 * 32, 8 * 16 + 3 * 48)


def test_prefill_of_one_token_is_decode_of_one_request() -> None:
    assert prefill_attention_work(TINY, 1, 9) == decode_attention_work(TINY, 1, 10)


def test_chunks_of_a_prompt_have_the_pairs_of_the_whole() -> None:
    assert causal_pairs(100, 0) + causal_pairs(28, 100) == causal_pairs(128, 0)


def test_all_reduces_carry_hidden_states_twice_per_layer_and_once_for_the_embedding() -> None:
    assert all_reduce_bytes(TINY, 6) == 6 * 4 * 2
    assert num_all_reduces(TINY) == 5
