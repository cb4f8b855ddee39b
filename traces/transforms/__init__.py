"""Transforms of a trace, each recorded under `transforms` in the provenance.

They are applied in one fixed order, whatever the order in which they are given:

1. rows: `window_s`, `sample`, `limit`, then the stretches that a replication draws;
2. lengths: `scale_prompt` and `scale_output` together, `max_output_tokens`, `max_prompt_tokens`;
3. sharing: `strip_prefixes`;
4. load: `copies`, `poissonise`, `rate_scale`, `shift_s`;
5. names: `anonymise`;
6. closed loop: `replay_concurrency`.

All come before compression: rows that are left out share nothing.
"""

from traces.transforms.apply import transform
from traces.transforms.options import Transforms

__all__ = ["Transforms", "transform"]
