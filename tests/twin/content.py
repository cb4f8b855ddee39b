"""What a KV block of a request contains, as a key that is equal where contents are equal."""

from sim.prefix_tree import NO_NODE
from sim.workload import Workload

BlockKey = tuple[str, int, int]
"""("node", node, position) or ("private", request, position)."""


def block_keys(workload: Workload, index: int, block_tokens: int) -> list[BlockKey]:
    """Content of every full block of prompt and output of request `index`, first block first.

    A block is named after whoever owns its last token: a node of the path, the output node, or the
    request alone.
    """
    owners = _token_owners(workload, index)
    num_full_blocks = len(owners) // block_tokens
    keys: list[BlockKey] = []
    for position in range(num_full_blocks):
        kind, owner = owners[(position + 1) * block_tokens - 1]
        keys.append((kind, owner, position))
    return keys


def _token_owners(workload: Workload, index: int) -> list[tuple[str, int]]:
    """Owner of every token of prompt and output."""
    prompt = int(workload.prompt_tokens[index])
    output = int(workload.output_tokens[index])
    owners: list[tuple[str, int]] = []
    for node in workload.path(index):
        owners += [("node", node)] * int(workload.tree.num_tokens[node])
    assert len(owners) <= prompt, f"request {index}: path is longer than the prompt"
    output_node = NO_NODE if workload.output_node is None else int(workload.output_node[index])
    if output_node != NO_NODE:
        assert len(owners) == prompt, f"request {index}: private prompt before an output node"
        size = int(workload.tree.num_tokens[output_node])
        assert size == output, f"request {index}: output node holds {size} tokens, not {output}"
        owners += [("node", output_node)] * size
    owners += [("private", index)] * (prompt + output - len(owners))
    return owners
