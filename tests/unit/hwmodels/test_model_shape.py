"""Model shapes: published parameter counts, KV bytes, and the parts of tensor-parallel models."""

from dataclasses import replace

import pytest

from hwmodels.model_catalogue import available_models, load_model
from hwmodels.model_shape import ModelShape
from hwmodels.work import layer_matmuls, logits_matmul
from sim.errors import ConfigError

PUBLISHED_PARAMETERS = {
    "codellama_34b": 33_743_970_304,
    "llama2_13b": 13_015_864_320,
    "llama2_70b": 68_976_648_192,
    "llama2_7b": 6_738_415_616,
    "llama3_70b": 70_553_706_496,
    "llama3_8b": 8_030_261_248,
    "llama3_1_8b": 8_030_261_248,
    "llama3_1_70b": 70_553_706_496,
    "longchat_13b": 13_015_864_320,
    "mixtral_8x7b": 46_702_792_704,
    "opt_13b": 12_853_473_280,
    "opt_2_7b": 2_651_596_800,
    "opt_30b": 29_974_540_288,
    "opt_6_7b": 6_658_473_984,
    "qwen2_5_0_5b": 494_032_768,
    "qwen2_5_14b": 14_770_033_664,
    "qwen2_5_1_5b": 1_543_714_304,
    "qwen2_5_32b": 32_763_876_352,
    "qwen2_5_72b": 72_706_203_648,
    "qwen2_5_7b": 7_615_616_512,
    "qwen3_14b": 14_768_307_200,
    "qwen3_30b_a3b": 30_532_122_624,
    "qwen3_32b": 32_762_123_264,
    "qwen3_8b": 8_190_735_360,
}
"""Elements over all tensors of the published checkpoints (Hugging Face model pages)."""

PUBLISHED_KV_KIB = {
    "codellama_34b": 192,
    "llama2_13b": 800,
    "llama2_70b": 320,
    "llama2_7b": 512,
    "llama3_70b": 320,
    "llama3_8b": 128,
    "llama3_1_8b": 128,
    "llama3_1_70b": 320,
    "longchat_13b": 800,
    "mixtral_8x7b": 128,
    "opt_13b": 800,
    "opt_2_7b": 320,
    "opt_30b": 1344,
    "opt_6_7b": 512,
    "qwen2_5_0_5b": 12,
    "qwen2_5_14b": 192,
    "qwen2_5_1_5b": 28,
    "qwen2_5_32b": 256,
    "qwen2_5_72b": 320,
    "qwen2_5_7b": 56,
    "qwen3_14b": 160,
    "qwen3_30b_a3b": 96,
    "qwen3_32b": 256,
    "qwen3_8b": 144,
}
"""KiB of keys and values of a token at 16 bit: layers * KV heads * head width / 256, each number
from the config of the checkpoint."""

TINY = ModelShape(
    name="tiny",
    num_layers=2,
    hidden_size=4,
    num_attention_heads=2,
    num_kv_heads=1,
    head_dim=2,
    intermediate_size=6,
    vocab_size=5,
    max_context_tokens=64,
)


def test_catalogue_is_complete() -> None:
    assert available_models() == sorted(PUBLISHED_PARAMETERS)


@pytest.mark.parametrize(("name", "num_parameters"), PUBLISHED_PARAMETERS.items())
def test_parameters_match_the_published_checkpoint(name: str, num_parameters: int) -> None:
    shape = load_model(name)
    assert shape.num_parameters == num_parameters
    assert shape.weight_bytes == 2 * num_parameters


@pytest.mark.parametrize(
    ("name", "billions"), [("mixtral_8x7b", 12.9), ("qwen3_30b_a3b", 3.3), ("llama3_8b", 8.0)]
)
def test_active_parameters_match_the_model_card(name: str, billions: float) -> None:
    assert load_model(name).num_active_parameters / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize("name", PUBLISHED_PARAMETERS)
def test_kv_bytes_per_token_are_two_vectors_per_layer_and_kv_head(name: str) -> None:
    assert load_model(name).kv_bytes_per_token == PUBLISHED_KV_KIB[name] * 1024


@pytest.mark.parametrize(("name", "num_parameters"), PUBLISHED_PARAMETERS.items())
def test_flops_of_a_token_are_twice_the_published_parameters_that_it_meets(
    name: str, num_parameters: int
) -> None:
    """All but looked-up tables and experts that the token does not visit; norms and biases, which
    the published number holds, are under half a percent."""
    shape = load_model(name)
    layers = shape.num_layers * sum(work.flops for work in layer_matmuls(shape, 1))
    flops = layers + logits_matmul(shape, 1).flops
    tables = shape.num_position_embeddings * shape.hidden_size
    tables += 0 if shape.has_tied_embeddings else shape.vocab_size * shape.hidden_size
    expert = 3 * shape.hidden_size * shape.moe_intermediate_size
    skipped = shape.num_layers * (shape.num_experts - shape.experts_per_token) * expert
    assert flops / (2 * (num_parameters - tables - skipped)) == pytest.approx(1, abs=0.005)


def test_parameters_of_a_tiny_model_by_hand() -> None:
    # Layer: q 4x4, k and v 4x2 each, o 4x4, gate/up/down 3 x 4x6, two norms of 4. Outside: two
    # tables of 5x4 and the last norm.
    assert TINY.num_parameters == 2 * (16 + 16 + 16 + 72 + 8) + 40 + 4


@pytest.mark.parametrize(
    ("switch", "added"),
    [
        ({"has_tied_embeddings": True}, -20),
        ({"has_qkv_bias": True}, 2 * (4 + 2 + 2)),
        ({"has_output_bias": True}, 2 * 4),
        ({"has_mlp_bias": True}, 2 * (6 + 6 + 4)),
        ({"has_qk_norm": True}, 2 * (2 + 2)),
        ({"has_norm_bias": True}, 2 * 8 + 4),
        ({"num_position_embeddings": 7}, 28),
        ({"is_gated_mlp": False}, -2 * 24),
        ({"shared_expert_intermediate_size": 1}, 2 * 12),
    ],
)
def test_each_switch_adds_its_parameters(switch: dict[str, object], added: int) -> None:
    changed = replace(TINY, **switch)  # type: ignore[arg-type]
    assert changed.num_parameters - TINY.num_parameters == added


def test_experts_count_all_when_held_and_the_visited_when_active() -> None:
    moe = replace(
        TINY, intermediate_size=0, num_experts=4, experts_per_token=1, moe_intermediate_size=6
    )
    router = 2 * 4 * 4
    assert moe.num_parameters == TINY.num_parameters + router + 2 * 3 * 72
    assert moe.num_active_parameters == TINY.num_parameters + router


@pytest.mark.parametrize("name", available_models())
def test_parts_of_a_model_hold_it_once_besides_copied_vectors(name: str) -> None:
    shape = load_model(name)
    for degree in shape.tensor_parallel_degrees:
        if degree > shape.num_kv_heads:
            continue
        held = degree * shape.sharded(degree).num_parameters
        assert shape.num_parameters <= held
        assert held <= (1 + 0.003 * (degree - 1)) * shape.num_parameters


def test_kv_heads_are_copied_when_there_are_more_gpus_than_heads() -> None:
    shape = load_model("llama3_8b")
    assert shape.sharded(8).kv_bytes_per_token == shape.kv_bytes_per_token // 8
    assert shape.sharded(16).kv_bytes_per_token == shape.kv_bytes_per_token // 8
    assert shape.sharded(16).num_attention_heads == 2


def test_one_gpu_holds_the_whole_model() -> None:
    assert TINY.sharded(1) == TINY


@pytest.mark.parametrize(
    ("name", "degree", "possible"),
    [("qwen2_5_7b", 8, "1, 2, 4"), ("llama3_8b", 3, "1, 2, 4, 8$"), ("opt_30b", 0, "1, 2")],
)
def test_impossible_split_lists_the_possible_degrees(name: str, degree: int, possible: str) -> None:
    with pytest.raises(
        ConfigError, match=f"cluster.tensor_parallel={degree} .*possible: {possible}"
    ):
        load_model(name).sharded(degree)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"num_layers": 0}, "num_layers must be a whole number >= 1, found 0"),
        ({"hidden_size": 4.0}, "hidden_size must be a whole number >= 1, found 4.0"),
        ({"num_layers": 10**9 + 1}, "num_layers must be at most 1,000,000,000, found 1000000001"),
        ({"num_layers": True}, "num_layers must be a whole number >= 1, found True"),
        ({"is_gated_mlp": 1}, "is_gated_mlp must be true or false, found 1"),
        ({"num_kv_heads": 3}, "num_kv_heads must divide num_attention_heads 2, found 3"),
        ({"intermediate_size": 0}, "intermediate_size must be >= 1 without experts"),
        ({"num_experts": 4}, "experts_per_token must be 1..num_experts"),
        (
            {"num_experts": 4, "experts_per_token": 2},
            "moe_intermediate_size must be >= 1 with experts",
        ),
        (
            {"num_experts": 4, "experts_per_token": 2, "moe_intermediate_size": 8},
            "intermediate_size must be 0 with experts in every layer, found 6",
        ),
    ],
)
def test_shape_that_makes_no_sense_is_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        replace(TINY, **change)  # type: ignore[arg-type]
