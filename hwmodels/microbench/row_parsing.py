"""Lines of a rows file read back, every mistake told in one line."""

from collections.abc import Collection, Mapping
from dataclasses import fields

from hwmodels.microbench.cases import case_of
from hwmodels.microbench.errors import CaseError, RowsError
from hwmodels.microbench.row_format import (
    SCHEMA,
    VERSION_KEYS,
    DeviceInfo,
    Failure,
    Header,
    Measurement,
    Row,
)

_CASE_KEYS = ("kind", "case", "id", "params")
_ROW_KEYS = (
    *_CASE_KEYS,
    *(item.name for item in fields(Measurement)),
    *("bytes", "flops", "took_s"),
)


def header_of(record: object) -> Header:
    """The header that a JSON value holds.

    Raises:
        RowsError: it holds none; says what is wrong, not where.
    """
    line = _object("the first line", record)
    if line.get("kind") != "header":
        raise RowsError(f'the first line must have kind "header", found {line.get("kind")!r}')
    if line.get("schema") != SCHEMA:
        raise RowsError(f"schema must be {SCHEMA}, found {line.get('schema')!r}")
    _check_keys(line, ("kind", "schema", "device", "versions", "date", "plan", "seed"))
    device = _object("device", line["device"])
    _check_keys(device, [item.name for item in fields(DeviceInfo)])
    versions = _object("versions", line["versions"])
    _check_keys(versions, VERSION_KEYS)
    return Header(
        device=DeviceInfo(
            name=_text("name", device["name"]),
            num_sms=_count("num_sms", device["num_sms"]),
            l2_bytes=_count("l2_bytes", device["l2_bytes"]),
            memory_bytes=_count("memory_bytes", device["memory_bytes"]),
            compute_capability=_text("compute_capability", device["compute_capability"]),
            num_gpus=_count("num_gpus", device["num_gpus"]),
        ),
        versions={key: _text(key, value) for key, value in versions.items()},
        date=_text("date", line["date"]),
        plan=_text("plan", line["plan"]),
        seed=_count("seed", line["seed"], 0),
    )


def entry_of(record: object) -> Row | Failure:
    """The row or failure that a JSON value holds.

    Raises:
        RowsError: it holds neither, or something in it is wrong; says what, not where.
    """
    line = _object("the line", record)
    kind = line.get("kind")
    if kind not in ("row", "failure"):
        raise RowsError(f'kind must be "row" or "failure", found {kind!r}')
    _check_keys(line, _ROW_KEYS if kind == "row" else (*_CASE_KEYS, "why"))
    try:
        case = case_of(_text("case", line["case"]), _object("params", line["params"]))
    except CaseError as error:
        raise RowsError(str(error)) from None
    if line["id"] != case.id:
        raise RowsError(f"id {line['id']!r} does not say the parameters: {case.id}")
    if kind == "failure":
        return Failure(case=case, why=_text("why", line["why"]))
    for key, value in (("bytes", case.num_bytes), ("flops", case.num_flops)):
        if line[key] != value:
            raise RowsError(f"{key} of {case.id} are {value}, found {line[key]!r}")
    p20_s, p50_s, p80_s = (_positive(key, line[key]) for key in ("p20_s", "p50_s", "p80_s"))
    if not p20_s <= p50_s <= p80_s:
        raise RowsError(f"p20_s, p50_s, p80_s must not fall, found {p20_s}, {p50_s}, {p80_s}")
    measurement = Measurement(
        p20_s=p20_s,
        p50_s=p50_s,
        p80_s=p80_s,
        repeats=_count("repeats", line["repeats"]),
        max_error=_number_or_none("max_error", line["max_error"]),
        tolerance=_number_or_none("tolerance", line["tolerance"]),
    )
    return Row(case=case, measurement=measurement, took_s=_number("took_s", line["took_s"]))


def _object(what: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise RowsError(f"{what} must be a JSON object, found {type(value).__name__}")
    return value


def _check_keys(record: Mapping[str, object], keys: Collection[str]) -> None:
    missing = [key for key in keys if key not in record]
    unknown = [key for key in record if key not in keys]
    if missing or unknown:
        parts = [f"missing key {', '.join(missing)}"] if missing else []
        parts += [f"unknown key {', '.join(map(repr, unknown))}"] if unknown else []
        raise RowsError("; ".join(parts))


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RowsError(f"{key} must be a text that is not empty, found {value!r}")
    return value


def _count(key: str, value: object, smallest: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
        raise RowsError(f"{key} must be a whole number of at least {smallest}, found {value!r}")
    return value


def _number(key: str, value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf"):  # type: ignore[operator]
        raise RowsError(f"{key} must be a number of at least 0, found {value!r}")
    return float(value)  # type: ignore[arg-type]


def _positive(key: str, value: object) -> float:
    number = _number(key, value)
    if not number:
        raise RowsError(f"{key} must be above 0, found {value!r}")
    return number


def _number_or_none(key: str, value: object) -> float | None:
    return None if value is None else _number(key, value)
