"""What `flocksim-calibrate against` says: JSON, and the overlay profile."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.calibrate.against.base import seen_from
from experiments.calibrate.against.figures_of import Pair, errors_of, pairs, rate_pairs
from experiments.calibrate.against.host_constants import OFFSET
from experiments.calibrate.against.options import Question
from experiments.calibrate.against.replay import OVERLAY_FILE
from experiments.calibrate.against.study import Fitted, Study
from experiments.quantities import count, duration
from experiments.schema.front_end import CONSTANTS, front_end_of, why_unhashed
from experiments.schema.job import JobConfig
from experiments.sweep.spelling import override_as_typed
from hwmodels.fitting.rounding import rounded
from hwmodels.overlay import Overlay

_SAME_ERROR = 5e-4
"""Ratio by which errors may differ and are printed alike."""

_SLOWER_RATIO = 0.02
"""Share by which the GPU must be slower before it is said to be."""


def document_of(study: Study, question: Question, job: JobConfig) -> dict[str, Any]:
    """Content of against.json; the same input gives the same bytes."""
    measured, simulated = study.measured, study.simulated
    return {
        "run": {
            "file": Path(question.path).name,
            "format": measured.format,
            "sha256": measured.sha256,
            "num_requests": measured.num_requests,
            "num_failed": measured.num_failed,
        },
        "overrides": list(question.overrides),
        "fidelity": job.hardware.fidelity,
        "num_compared": int(simulated.is_done.sum()),
        "figures": {
            name: _record(pair)
            for name, pair in {
                **pairs(measured, simulated, 0.0, simulated.is_done),
                **rate_pairs(measured, simulated),
            }.items()
        },
        "fit": None if study.fitted is None else _fit_record(study, study.fitted),
        "overrides_with_fit": overrides_with_fit(study, question, job),
        "notes": notes_of(study),
    }


def heldout_errors(study: Study, fitted: Fitted) -> tuple[dict[str, float], dict[str, float]]:
    """Errors on the requests that the fit did not see, as configured and fitted."""
    measured, rows = study.measured, fitted.is_heldout
    return (
        errors_of(measured, study.simulated, 0.0, rows),
        errors_of(measured, fitted.simulated, fitted.offset_s, rows),
    )


def heldout_pairs(study: Study, fitted: Fitted) -> tuple[dict[str, Pair], dict[str, Pair]]:
    """Figures of the requests that the fit did not see, as configured and fitted."""
    measured, rows = study.measured, fitted.is_heldout
    return (
        pairs(measured, study.simulated, 0.0, rows),
        pairs(measured, fitted.simulated, fitted.offset_s, rows),
    )


def written_overlay(study: Study, question: Question, job: JobConfig) -> Overlay | None:
    """The overlay to write, as seen from where it is written; None if nothing was identified."""
    fitted = study.fitted
    if fitted is None or not fitted.changed:
        return None
    run, base = study.measured, study.base
    source = (
        f"fitted to {count(fitted.num_requests_fit)} requests of {Path(question.path).name} "
        f"(sha256 {run.sha256[:12]}), fidelity {job.hardware.fidelity}"
    )
    before, after = heldout_errors(study, fitted)
    overlay = replace(
        base,
        name=question.directory.resolve().name or "fitted",
        date=question.date,
        values={**base.values, **fitted.changed},
        sources={**base.sources, **dict.fromkeys(fitted.changed, source)},
        error_before=before,
        error_after=after,
        num_requests_fit=fitted.num_requests_fit,
        num_requests_heldout=int(fitted.is_heldout.sum()),
        fidelity=job.hardware.fidelity,
    )
    return seen_from(overlay, question.directory)


def overrides_with_fit(study: Study, question: Question, job: JobConfig) -> list[str]:
    """What gives flocksim the fitted constants, with the server configured as for the fit.

    As typed into a shell; nothing without a fit. The offset becomes the delay of the front end, on
    top of what it was; where there was no front end its other constants are 0.
    """
    fitted = study.fitted
    if fitted is None or not does_error_fall(study, fitted):
        return []
    has_offset = OFFSET not in fitted.fit.not_identified
    replaced: tuple[str, ...] = ("hardware", "hardware.path") if fitted.changed else ()
    replaced += ("frontend.enabled", "frontend.delay_s") if has_offset else ()
    found = [
        shlex.quote(item)
        for item in question.overrides
        if item.lstrip("+").partition("=")[0] not in replaced
    ]
    if fitted.changed:
        path = override_as_typed("hardware.path", question.directory / OVERLAY_FILE)
        found += ["hardware=from_file", path]
    if has_offset:
        hashes = not why_unhashed(job.engine, job.engine_options.prefix_caching)
        there = front_end_of(job.frontend, hashes)
        delay_s = rounded(fitted.offset_s + (there.delay_s if there else 0.0), 6)
        found += ["frontend.enabled=true", f"frontend.delay_s={delay_s!r}"]
        names = [] if there else [name for name in CONSTANTS if name != "delay_s"]
        found += [f"frontend.{n}=0" for n in names if hashes or n != "hash_block_s"]
    return found


def does_error_fall(study: Study, fitted: Fitted) -> bool:
    """Whether the fit helps requests that it did not see: by the sum of the mean errors."""
    before, after = heldout_errors(study, fitted)
    return sum(after.values()) < sum(before.values())


def notes_of(study: Study) -> list[str]:
    """What a reader of the figures must know, a line each."""
    run, num_done = study.measured, int(study.simulated.is_done.sum())
    notes = []
    if run.num_failed:
        total = run.num_requests + run.num_failed
        notes.append(
            f"{run.num_failed:,} of {total:,} requests failed when measured: they are not "
            "replayed, although they may have kept the server busy"
        )
    if num_done < run.num_requests:
        notes.append(
            f"{run.num_requests - num_done:,} requests are refused in the replay (too long for "
            "its KV cache or engine.max_model_len): they are not compared"
        )
    if run.gaps_s is None:
        notes.append("ITL is not compared: the file holds no gaps between tokens")
    elif not run.has_a_gap_per_token:
        notes.append(
            f"ITL is not compared: {len(run.gaps_s):,} gaps for "
            f"{int((run.output_tokens - 1).sum()):,} tokens, the server sent several at a time"
        )
    if study.fitted is not None:
        notes += _fit_notes(study, study.fitted)
    return notes


def _fit_notes(study: Study, fitted: Fitted) -> list[str]:
    notes = []
    too_slow = _gpu_note(study, fitted)
    if fitted.fit.not_identified:
        names = ", ".join(fitted.fit.not_identified)
        advice = "" if too_slow else "; a run at other rates may"
        notes.append(
            f"not identified: {names}: this run does not tell (standard error over 30 %), kept "
            f"as before{advice}"
        )
    notes += too_slow
    if not does_error_fall(study, fitted):
        notes.append("the error on requests held out did not fall: do not use the fitted constants")
        return notes
    before, after = heldout_errors(study, fitted)
    worse = [
        f"{name.removesuffix('_ratio').upper()} {100 * before[name]:.1f} % before, "
        f"{100 * error:.1f} % after"
        for name, error in after.items()
        if error > before[name] + _SAME_ERROR
    ]
    if worse:
        notes.append(f"with the fitted constants the error is larger for: {'; '.join(worse)}")
    return notes


def _gpu_note(study: Study, fitted: Fitted) -> list[str]:
    """A line if tokens take longer in the replay than measured even without the host's time."""
    _, after = heldout_pairs(study, fitted)
    pair = after.get("tpot_mean_s")
    if pair is None:
        return []
    # Every token is a step's, and every step has this time once.
    without_host_s = pair.simulated - fitted.fit.values["step_overhead_s"]
    if without_host_s <= (1 + _SLOWER_RATIO) * pair.measured:
        return []
    return [
        "host time cannot mend this: the simulated GPU is slower than the measured one (mean TPOT "
        f"{duration(without_host_s)} without the host's time per step, "
        f"{duration(pair.measured)} measured)"
    ]


def _fit_record(study: Study, fitted: Fitted) -> dict[str, Any]:
    before, after = heldout_errors(study, fitted)
    as_given, with_fit = heldout_pairs(study, fitted)
    return {
        "constants": {
            name: {
                "before_s": fitted.prior[name],
                "after_s": value,
                "standard_error_s": fitted.fit.standard_errors[name],
                "is_identified": name not in fitted.fit.not_identified,
            }
            for name, value in fitted.fit.values.items()
        },
        "num_requests_fit": fitted.num_requests_fit,
        "num_requests_heldout": int(fitted.is_heldout.sum()),
        "num_simulations": fitted.num_simulations,
        "error_before": before,
        "error_after": after,
        "heldout_figures": {
            name: {
                "measured": pair.measured,
                "before": as_given[name].simulated,
                "after": pair.simulated,
                "error_before_ratio": as_given[name].error,
                "error_after_ratio": pair.error,
            }
            for name, pair in with_fit.items()
        },
    }


def _record(pair: Pair) -> Mapping[str, float]:
    return {"measured": pair.measured, "simulated": pair.simulated, "error_ratio": pair.error}
