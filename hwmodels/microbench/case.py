"""What is measured once: a benchmark with its parameters."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

from hwmodels.microbench.errors import CaseError

HEAD_DIM = 128
"""Width of an attention head in every case, elements."""
ELEMENT_BYTES = 2
"""Bytes of a bf16 element."""
PAGE_TOKENS = 16
"""Tokens of a KV page: the default block of vLLM v1."""

Value = int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(ABC):
    """A benchmark with its parameters; each field is one parameter.

    Every number is a whole number of at least 1, unless a case says otherwise.

    Attributes:
        name: name of the benchmark in rows.
    """

    name: ClassVar[str]
    choices: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Allowed texts of each parameter that is a text."""
    may_be_zero: ClassVar[tuple[str, ...]] = ()
    """Numbers that may be 0."""

    def __post_init__(self) -> None:
        for item in fields(self):
            self._check(item.name, getattr(self, item.name), item.type)

    def _check(self, key: str, value: object, kind: object) -> None:
        where = f"{self.name}: {key}"
        if key in self.choices:
            allowed = self.choices[key]
            if value not in allowed:
                raise CaseError(f"{where} must be one of {', '.join(allowed)}, found {value!r}")
        elif kind is bool:
            if not isinstance(value, bool):
                raise CaseError(f"{where} must be true or false, found {value!r}")
        else:
            smallest = 0 if key in self.may_be_zero else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise CaseError(
                    f"{where} must be a whole number of at least {smallest}, found {value!r}"
                )

    @property
    def params(self) -> dict[str, Value]:
        """Parameters by name, sorted."""
        return {key: getattr(self, key) for key in sorted(item.name for item in fields(self))}

    @property
    def id(self) -> str:
        """`name:key=value,...` with sorted keys: the same case has the same id in every file."""
        pairs = (f"{key}={_shown(value)}" for key, value in self.params.items())
        return f"{self.name}:{','.join(pairs)}"

    @property
    @abstractmethod
    def num_bytes(self) -> int | None:
        """Bytes of inputs and outputs, each counted once however often it is read; None: none."""

    @property
    def num_flops(self) -> int | None:
        """Floating-point operations, a multiply-add counted as two; None where none matter."""
        return None

    @property
    def read_bytes(self) -> int:
        """Bytes that the processors read and write together, repeats counted."""
        return self.num_bytes or 0

    @property
    def memory_bytes(self) -> int:
        """Device memory that the case needs at most, inputs, outputs and checks together."""
        return 2 * (self.num_bytes or 0)

    @property
    def compile_key(self) -> str:
        """Cases of one key share their compiled kernels."""
        return self.name


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
