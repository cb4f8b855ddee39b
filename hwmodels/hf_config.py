"""A `ModelShape` from the `config.json` that Hugging Face repositories carry.

Keys that change the shape are read, keys that would change the cost in a way we do not model are
refused, and the rest (initialisers, token ids, dropout) is left alone. Weights are taken as 16-bit:
engines cast 32-bit checkpoints down when they load them.
Source: defaults of the configuration classes of transformers 4.57.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from hwmodels.model_shape import MAX_SIZE, ModelShape
from hwmodels.strict_json import read_object, shown
from sim.errors import ConfigError

_SIZE_KEYS = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
)
_SIXTEEN_OR_MORE_BITS = ("bfloat16", "float16", "float32", "auto")


class _Config:
    """Typed look-ups in one configuration; errors name the file and the key."""

    def __init__(self, path: Path, record: Mapping[str, object]) -> None:
        self.path = path
        self._record = record

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number; a key that is missing or null takes the default, if there is one."""
        value = self._record.get(key)
        if value is None and default is not None:
            return default
        if value is None:
            raise ConfigError(f"{self.path}: missing key {key}")
        if type(value) is not int or not 1 <= value <= MAX_SIZE:
            raise ConfigError(
                f"{self.path}: {key} must be a whole number >= 1 and <= {MAX_SIZE:,}, "
                f"found {shown(value)}"
            )
        return value

    def head_dim(self) -> int:
        """The head width given, or the hidden width over the query heads."""
        hidden, heads = self.whole("hidden_size"), self.whole("num_attention_heads")
        if self._record.get("head_dim") is None and hidden % heads:
            raise ConfigError(
                f"{self.path}: hidden_size {hidden} is no multiple of num_attention_heads {heads}, "
                "and head_dim is not given"
            )
        return self.whole("head_dim", hidden // heads)

    def flag(self, key: str, default: bool) -> bool:
        """A truth value; a missing key takes the default."""
        value = self._record.get(key, default)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.path}: {key} must be true or false, found {shown(value)}")
        return value

    def must_be(self, key: str, *allowed: object) -> None:
        """Refuse a key whose value asks for something that is not modelled."""
        value = self._record.get(key, allowed[0])
        if value not in allowed:
            text = " or ".join(repr(item) for item in allowed)
            raise ConfigError(f"{self.path}: {key}={shown(value)} is not modelled; allowed: {text}")


def _rotary(config: _Config, name: str, kv_heads: int | None = None) -> ModelShape:
    """What Llama, Mistral, Qwen and Mixtral have in common."""
    return ModelShape(
        name=name,
        num_layers=config.whole("num_hidden_layers"),
        hidden_size=config.whole("hidden_size"),
        num_attention_heads=config.whole("num_attention_heads"),
        num_kv_heads=config.whole("num_key_value_heads", kv_heads),
        head_dim=config.head_dim(),
        intermediate_size=config.whole("intermediate_size"),
        vocab_size=config.whole("vocab_size"),
        max_context_tokens=config.whole("max_position_embeddings"),
        has_tied_embeddings=config.flag("tie_word_embeddings", False),
        source=f"Hugging Face configuration {config.path.name}",
    )


def _llama(config: _Config, name: str) -> ModelShape:
    bias = config.flag("attention_bias", False)
    shape = _rotary(config, name, kv_heads=config.whole("num_attention_heads"))
    mlp_bias = config.flag("mlp_bias", False)
    return replace(shape, has_qkv_bias=bias, has_output_bias=bias, has_mlp_bias=mlp_bias)


def _mistral(config: _Config, name: str) -> ModelShape:
    config.must_be("sliding_window", None)
    return _rotary(config, name)


def _qwen2(config: _Config, name: str) -> ModelShape:
    config.must_be("use_sliding_window", False)
    return replace(_rotary(config, name), has_qkv_bias=True)


def _qwen3(config: _Config, name: str) -> ModelShape:
    config.must_be("use_sliding_window", False)
    bias = config.flag("attention_bias", False)
    shape = _rotary(config, name)
    return replace(shape, has_qk_norm=True, has_qkv_bias=bias, has_output_bias=bias)


def _qwen3_moe(config: _Config, name: str) -> ModelShape:
    config.must_be("decoder_sparse_step", 1)
    config.must_be("mlp_only_layers", [], None)
    return replace(
        _qwen3(config, name),
        intermediate_size=0,
        num_experts=config.whole("num_experts"),
        experts_per_token=config.whole("num_experts_per_tok"),
        moe_intermediate_size=config.whole("moe_intermediate_size"),
    )


def _mixtral(config: _Config, name: str) -> ModelShape:
    config.must_be("sliding_window", None)
    shape = _rotary(config, name)
    return replace(
        shape,
        intermediate_size=0,
        num_experts=config.whole("num_local_experts"),
        experts_per_token=config.whole("num_experts_per_tok"),
        moe_intermediate_size=shape.intermediate_size,
    )


OPT_POSITION_OFFSET = 2
"""Rows of OPT's position table before the first position.

Source: OPTLearnedPositionalEmbedding in transformers."""


def _opt(config: _Config, name: str) -> ModelShape:
    heads = config.whole("num_attention_heads")
    hidden = config.whole("hidden_size")
    config.must_be("do_layer_norm_before", True)
    config.must_be("word_embed_proj_dim", hidden)
    config.must_be("layer_norm_elementwise_affine", True)
    config.must_be("_remove_final_layer_norm", False)
    bias = config.flag("enable_bias", True)
    context = config.whole("max_position_embeddings")
    return ModelShape(
        name=name,
        num_layers=config.whole("num_hidden_layers"),
        hidden_size=hidden,
        num_attention_heads=heads,
        num_kv_heads=heads,
        head_dim=config.head_dim(),
        intermediate_size=config.whole("ffn_dim"),
        vocab_size=config.whole("vocab_size"),
        max_context_tokens=context,
        is_gated_mlp=False,
        has_tied_embeddings=config.flag("tie_word_embeddings", True),
        has_qkv_bias=bias,
        has_output_bias=bias,
        has_mlp_bias=bias,
        has_norm_bias=True,
        num_position_embeddings=context + OPT_POSITION_OFFSET,
        source=f"Hugging Face configuration {config.path.name}",
    )


_READERS: dict[str, Callable[[_Config, str], ModelShape]] = {
    "LlamaForCausalLM": _llama,
    "MistralForCausalLM": _mistral,
    "Qwen2ForCausalLM": _qwen2,
    "Qwen3ForCausalLM": _qwen3,
    "Qwen3MoeForCausalLM": _qwen3_moe,
    "MixtralForCausalLM": _mixtral,
    "OPTForCausalLM": _opt,
}


def supported_architectures() -> list[str]:
    """Architecture names that `from_hf_config` reads, sorted."""
    return sorted(_READERS)


def from_hf_config(path: str | Path) -> ModelShape:
    """Read a Hugging Face `config.json`, or the folder that holds one.

    The model is named after the folder.

    Raises:
        ConfigError: the file is broken, lacks a key, names an architecture that is not supported,
            or asks for a feature that is not modelled.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "config.json"
    record = read_object(path)
    _refuse_nested(path, record)
    architectures = record.get("architectures")
    found = architectures[0] if isinstance(architectures, list) and architectures else architectures
    reader = _READERS.get(found) if isinstance(found, str) else None
    if reader is None:
        allowed = ", ".join(supported_architectures())
        raise ConfigError(
            f"{path}: architecture {shown(found)} is not supported; allowed: {allowed}"
        )
    config = _Config(path, record)
    config.must_be("quantization_config", None)
    for key in ("torch_dtype", "dtype"):
        config.must_be(key, *_SIXTEEN_OR_MORE_BITS, None)
    return reader(config, path.resolve().parent.name)


def _refuse_nested(path: Path, record: Mapping[str, object]) -> None:
    """Refuse a multimodal configuration: its language model is described one level down."""
    for outer in ("text_config", "llm_config", "language_config"):
        inner = record.get(outer)
        if not isinstance(inner, dict):
            continue
        nested = [key for key in _SIZE_KEYS if key in inner and key not in record]
        if nested:
            raise ConfigError(
                f"{path}: {', '.join(nested)} only inside {outer}: multimodal models are not "
                "modelled; give the configuration of the language model alone"
            )
