"""Hugging Face configurations: same counts as the catalogue, and refusals that name the key."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hwmodels.hf_config import from_hf_config
from hwmodels.model_catalogue import load_model
from sim.errors import ConfigError

Config = dict[str, object]

LLAMA3_8B: Config = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
QWEN2_5_0_5B: Config = {
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 896,
    "intermediate_size": 4864,
    "max_position_embeddings": 32768,
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
QWEN3_32B: Config = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "head_dim": 128,
    "hidden_size": 5120,
    "intermediate_size": 25600,
    "max_position_embeddings": 40960,
    "num_attention_heads": 64,
    "num_hidden_layers": 64,
    "num_key_value_heads": 8,
    "vocab_size": 151936,
}
QWEN3_30B_A3B: Config = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "decoder_sparse_step": 1,
    "head_dim": 128,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "max_position_embeddings": 40960,
    "mlp_only_layers": [],
    "moe_intermediate_size": 768,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "vocab_size": 151936,
}
MIXTRAL_8X7B: Config = {
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "sliding_window": None,
    "vocab_size": 32000,
}
OPT_13B: Config = {
    "architectures": ["OPTForCausalLM"],
    "do_layer_norm_before": True,
    "ffn_dim": 20480,
    "hidden_size": 5120,
    "max_position_embeddings": 2048,
    "num_attention_heads": 40,
    "num_hidden_layers": 40,
    "torch_dtype": "float16",
    "vocab_size": 50272,
    "word_embed_proj_dim": 5120,
}
MISTRAL_7B: Config = LLAMA3_8B | {
    "architectures": ["MistralForCausalLM"],
    "max_position_embeddings": 32768,
    "sliding_window": None,
    "vocab_size": 32768,
}


def written(folder: Path, config: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LLAMA3_8B, "llama3_8b"),
        (QWEN2_5_0_5B, "qwen2_5_0_5b"),
        (QWEN3_32B, "qwen3_32b"),
        (QWEN3_30B_A3B, "qwen3_30b_a3b"),
        (MIXTRAL_8X7B, "mixtral_8x7b"),
        (OPT_13B, "opt_13b"),
    ],
)
def test_configuration_gives_the_shape_of_the_catalogue(
    tmp_path: Path, config: Config, name: str
) -> None:
    path = written(tmp_path, config)
    assert from_hf_config(path) == replace(load_model(name), name=tmp_path.name)


def test_mistral_has_its_published_parameters(tmp_path: Path) -> None:
    assert from_hf_config(written(tmp_path, MISTRAL_7B)).num_parameters == 7_248_023_552


def test_llama_without_kv_heads_has_one_per_query_head(tmp_path: Path) -> None:
    config = {key: value for key, value in LLAMA3_8B.items() if key != "num_key_value_heads"}
    assert from_hf_config(written(tmp_path, config)).num_kv_heads == 32


def test_llama_biases_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, LLAMA3_8B | {"attention_bias": True, "mlp_bias": True})
    shape = from_hf_config(path)
    assert shape.has_qkv_bias
    assert shape.has_output_bias
    assert shape.has_mlp_bias


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size"])
def test_missing_key_is_named(tmp_path: Path, key: str) -> None:
    config = {name: value for name, value in LLAMA3_8B.items() if name != key}
    with pytest.raises(ConfigError, match=f"config.json: missing key {key}"):
        from_hf_config(written(tmp_path, config))


def test_qwen_must_state_its_kv_heads(tmp_path: Path) -> None:
    config = {key: value for key, value in QWEN3_32B.items() if key != "num_key_value_heads"}
    with pytest.raises(ConfigError, match="missing key num_key_value_heads"):
        from_hf_config(written(tmp_path, config))


@pytest.mark.parametrize("architectures", [["GPT2LMHeadModel"], [], None, "x", [3]])
def test_unknown_architecture_lists_the_supported_ones(
    tmp_path: Path, architectures: object
) -> None:
    path = written(tmp_path, LLAMA3_8B | {"architectures": architectures})
    with pytest.raises(ConfigError) as caught:
        from_hf_config(path)
    message = str(caught.value)
    assert "is not supported; allowed: LlamaForCausalLM, MistralForCausalLM" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("base", "change", "complaint"),
    [
        (LLAMA3_8B, {"hidden_size": "4096"}, "hidden_size must be a whole number >= 1"),
        (LLAMA3_8B, {"num_hidden_layers": 0}, "num_hidden_layers must be a whole number >= 1"),
        (LLAMA3_8B, {"hidden_size": 10**300 * 32}, "hidden_size must be .* <= 1,000,000,000, fou"),
        (LLAMA3_8B, {"vocab_size": 10**9 + 1}, "vocab_size must be .* found 1000000001"),
        (LLAMA3_8B, {"hidden_size": 4097}, "no multiple of num_attention_heads 32"),
        (LLAMA3_8B, {"num_key_value_heads": 5}, "num_kv_heads must divide"),
        (LLAMA3_8B, {"tie_word_embeddings": "no"}, "tie_word_embeddings must be true or false"),
        (LLAMA3_8B, {"quantization_config": {"bits": 4}}, "quantization_config=.*not modelled"),
        (LLAMA3_8B, {"torch_dtype": "float8_e4m3fn"}, "torch_dtype='float8_e4m3fn' is not mod"),
        (MISTRAL_7B, {"sliding_window": 4096}, "sliding_window=4096 is not modelled"),
        (QWEN2_5_0_5B, {"use_sliding_window": True}, "use_sliding_window=True is not modelled"),
        (QWEN3_30B_A3B, {"mlp_only_layers": [0]}, r"mlp_only_layers=\[0\] is not modelled"),
        (QWEN3_30B_A3B, {"decoder_sparse_step": 2}, "decoder_sparse_step=2 is not modelled"),
        (QWEN3_30B_A3B, {"num_experts_per_tok": 200}, "experts_per_token must be 1..num_exp"),
        (OPT_13B, {"word_embed_proj_dim": 512}, "word_embed_proj_dim=512 is not modelled"),
        (OPT_13B, {"do_layer_norm_before": False}, "do_layer_norm_before=False is not modelled"),
    ],
)
def test_what_is_not_modelled_or_makes_no_sense_is_refused(
    tmp_path: Path, base: Config, change: Config, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        from_hf_config(written(tmp_path, base | change))


def test_broken_json_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"architectures": [', encoding="utf-8")
    with pytest.raises(ConfigError, match="not valid JSON"):
        from_hf_config(path)


def test_folder_without_configuration_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.json: cannot read the file"):
        from_hf_config(tmp_path)


@pytest.mark.parametrize("architecture", ["LlavaForConditionalGeneration", "LlamaForCausalLM"])
def test_multimodal_configuration_is_refused_by_what_is_nested(
    tmp_path: Path, architecture: str
) -> None:
    outer = {"architectures": [architecture], "vocab_size": 7}
    path = written(tmp_path, outer | {"text_config": LLAMA3_8B})
    with pytest.raises(ConfigError) as caught:
        from_hf_config(path)
    message = str(caught.value)
    assert "hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads" in message
    assert "only inside text_config: multimodal models are not modelled" in message
    assert "vocab_size" not in message


def test_what_does_not_change_the_cost_is_left_alone(tmp_path: Path) -> None:
    more = {"rope_scaling": {"type": "yarn", "factor": 4.0}, "text_config": None}
    plain = from_hf_config(written(tmp_path, LLAMA3_8B))
    assert from_hf_config(written(tmp_path, LLAMA3_8B | more)) == plain
