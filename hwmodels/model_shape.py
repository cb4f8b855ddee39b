"""The shape of a decoder-only transformer: what decides its parameters, KV cache and work.

Covers dense and mixture-of-experts models with multi-head or grouped-query attention. A part of a
tensor-parallel model is a `ModelShape` too (`sharded`), so that one set of formulas serves both.
Not modelled: latent attention, sliding windows, models that mix dense and expert layers, adapters,
quantised weights.
"""

from dataclasses import dataclass, field, fields, replace

from hwmodels.collectives import MAX_GPUS_PER_NODE
from hwmodels.strict_json import shown
from sim.errors import ConfigError

MAX_SIZE = 10**9
"""Largest whole number of a shape; no model comes near."""

_MAY_BE_ZERO = frozenset(
    {
        "intermediate_size",
        "num_position_embeddings",
        "num_experts",
        "experts_per_token",
        "moe_intermediate_size",
        "shared_expert_intermediate_size",
    }
)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes and switches of a model, whole or one GPU's part of it.

    Attributes:
        name: name of the model.
        num_layers: transformer layers.
        hidden_size: width of the residual stream.
        num_attention_heads: query heads.
        num_kv_heads: key/value heads; fewer than query heads means grouped-query attention.
        head_dim: width of a head.
        intermediate_size: width of the dense MLP; 0 when every layer has experts instead.
        vocab_size: rows of the embedding table.
        max_context_tokens: longest context the model was made for.
        is_gated_mlp: MLP with gate, up and down projections; otherwise up and down only.
        has_tied_embeddings: the output projection shares the embedding table.
        has_qkv_bias: bias on query, key and value projections.
        has_output_bias: bias on the attention output projection.
        has_mlp_bias: bias on the projections of the MLP.
        has_qk_norm: a norm of width `head_dim` on queries and another on keys.
        has_norm_bias: norms carry a bias (LayerNorm) besides the scale.
        num_position_embeddings: rows of a learned position table; 0 with rotary positions.
        num_experts: routed experts per layer; 0 for a dense model.
        experts_per_token: routed experts that one token visits.
        moe_intermediate_size: width of one routed expert.
        shared_expert_intermediate_size: width of the expert every token visits; 0 if there is none.
        dtype_bytes: bytes of a weight and of an activation.
        kv_dtype_bytes: bytes of one KV cache element.
        source: where the numbers come from.
    """

    name: str
    num_layers: int
    hidden_size: int
    num_attention_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_context_tokens: int
    is_gated_mlp: bool = True
    has_tied_embeddings: bool = False
    has_qkv_bias: bool = False
    has_output_bias: bool = False
    has_mlp_bias: bool = False
    has_qk_norm: bool = False
    has_norm_bias: bool = False
    num_position_embeddings: int = 0
    num_experts: int = 0
    experts_per_token: int = 0
    moe_intermediate_size: int = 0
    shared_expert_intermediate_size: int = 0
    dtype_bytes: int = 2
    kv_dtype_bytes: int = 2
    source: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.type is int:
                smallest = 0 if item.name in _MAY_BE_ZERO else 1
                if type(value) is not int or value < smallest:
                    self._refuse(f"{item.name} must be a whole number >= {smallest}", value)
                if value > MAX_SIZE:
                    self._refuse(f"{item.name} must be at most {MAX_SIZE:,}", value)
            elif item.type is bool and type(value) is not bool:
                self._refuse(f"{item.name} must be true or false", value)
        if self.num_attention_heads % self.num_kv_heads:
            what = f"num_kv_heads must divide num_attention_heads {self.num_attention_heads}"
            self._refuse(what, self.num_kv_heads)
        if self.num_experts:
            if not 1 <= self.experts_per_token <= self.num_experts:
                what = f"experts_per_token must be 1..num_experts ({self.num_experts})"
                self._refuse(what, self.experts_per_token)
            if not self.moe_intermediate_size:
                self._refuse("moe_intermediate_size must be >= 1 with experts", 0)
            if self.intermediate_size:
                what = "intermediate_size must be 0 with experts in every layer"
                self._refuse(what, self.intermediate_size)
        elif not self.intermediate_size:
            self._refuse("intermediate_size must be >= 1 without experts", 0)

    def _refuse(self, what: str, value: object) -> None:
        raise ConfigError(f"model {self.name}: {what}, found {shown(value)}")

    @property
    def query_size(self) -> int:
        """Width of all query heads together."""
        return self.num_attention_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all key heads together (the values have the same)."""
        return self.num_kv_heads * self.head_dim

    @property
    def mlp_up_matrices(self) -> int:
        """Input projections of an MLP: gate and up, or up alone."""
        return 2 if self.is_gated_mlp else 1

    @property
    def attention_matrix_parameters(self) -> int:
        """Matrix elements of one layer's attention projections."""
        return self.hidden_size * (2 * self.query_size + 2 * self.kv_size)

    @property
    def expert_matrix_parameters(self) -> int:
        """Matrix elements of one routed expert; 0 for a dense model."""
        return self._mlp_matrix_parameters(self.moe_intermediate_size)

    def _mlp_matrix_parameters(self, width: int) -> int:
        return (self.mlp_up_matrices + 1) * self.hidden_size * width

    @property
    def _shared_layer_parameters(self) -> int:
        """Parameters of a layer that every token uses: all but the routed experts."""
        matrices = (
            self.attention_matrix_parameters
            + self._mlp_matrix_parameters(self.intermediate_size)
            + self._mlp_matrix_parameters(self.shared_expert_intermediate_size)
            + self.hidden_size * self.num_experts
        )
        biases = 0
        if self.has_qkv_bias:
            biases += self.query_size + 2 * self.kv_size
        if self.has_output_bias:
            biases += self.hidden_size
        if self.has_mlp_bias:
            biases += self.mlp_up_matrices * self.intermediate_size + self.hidden_size
        norms = 2 * self._norm_parameters + (2 * self.head_dim if self.has_qk_norm else 0)
        return matrices + biases + norms

    @property
    def _norm_parameters(self) -> int:
        return self.hidden_size * (2 if self.has_norm_bias else 1)

    @property
    def _outer_parameters(self) -> int:
        tables = self.vocab_size * (1 if self.has_tied_embeddings else 2)
        return (tables + self.num_position_embeddings) * self.hidden_size + self._norm_parameters

    @property
    def num_parameters(self) -> int:
        """Parameters held; a tied embedding table counts once."""
        layer = self._shared_layer_parameters + self.num_experts * self.expert_matrix_parameters
        return self.num_layers * layer + self._outer_parameters

    @property
    def num_active_parameters(self) -> int:
        """Parameters that one token uses: all of them, but only the experts it visits."""
        visited = self.experts_per_token * self.expert_matrix_parameters
        layer = self._shared_layer_parameters + visited
        return self.num_layers * layer + self._outer_parameters

    @property
    def weight_bytes(self) -> int:
        """Memory of the parameters, bytes."""
        return self.num_parameters * self.dtype_bytes

    @property
    def kv_bytes_per_token(self) -> int:
        """KV cache of one token over all layers, bytes."""
        return 2 * self.num_layers * self.kv_size * self.kv_dtype_bytes

    def can_shard(self, tensor_parallel: int) -> bool:
        """Whether the model splits evenly over that many GPUs.

        Query heads and MLP widths must divide; KV heads must divide, or be copied a whole number of
        times. The vocabulary may not divide: engines pad it.
        """
        widths = (
            self.num_attention_heads,
            self.intermediate_size,
            self.moe_intermediate_size,
            self.shared_expert_intermediate_size,
        )
        if tensor_parallel < 1 or any(width % tensor_parallel for width in widths):
            return False
        return not self.num_kv_heads % tensor_parallel or not tensor_parallel % self.num_kv_heads

    @property
    def tensor_parallel_degrees(self) -> list[int]:
        """Degrees within one node that `sharded` accepts, ascending."""
        degrees = range(1, min(self.num_attention_heads, MAX_GPUS_PER_NODE) + 1)
        return [degree for degree in degrees if self.can_shard(degree)]

    def sharded(self, tensor_parallel: int) -> "ModelShape":
        """The part of the model that one of `tensor_parallel` GPUs holds.

        Heads, MLP widths, experts' widths and vocabulary are split; norms, routers, position tables
        and the biases of row-parallel projections are copied, as are KV heads beyond their number.
        Source: column- and row-parallel layers of Megatron-LM (Shoeybi et al. 2019), as in vLLM.

        Raises:
            ConfigError: the model does not split evenly; lists those of one node that do.
        """
        if not self.can_shard(tensor_parallel):
            allowed = ", ".join(map(str, self.tensor_parallel_degrees))
            raise ConfigError(
                f"model {self.name}: cluster.tensor_parallel={tensor_parallel} does not divide its "
                f"{self.num_attention_heads} heads, {self.num_kv_heads} KV heads and MLP width; "
                f"possible: {allowed}"
            )
        return replace(
            self,
            num_attention_heads=self.num_attention_heads // tensor_parallel,
            num_kv_heads=max(1, self.num_kv_heads // tensor_parallel),
            intermediate_size=self.intermediate_size // tensor_parallel,
            moe_intermediate_size=self.moe_intermediate_size // tensor_parallel,
            shared_expert_intermediate_size=self.shared_expert_intermediate_size // tensor_parallel,
            vocab_size=-(-self.vocab_size // tensor_parallel),
        )
