"""The recorded traces of the studies of LMETRIC: found where the data are, and as long as said."""

import pytest

from experiments.composing import compose_config
from experiments.schema.job import read_job
from experiments.studies.lmetric.setting import SCALES, Setting
from experiments.studies.lmetric.sources import SOURCES, Source, data_directory
from experiments.studies.lmetric.variants import JSQ
from experiments.studies.runs import Case
from experiments.sweep.replication import load_workload
from sim.workload import Workload
from tests.data_path import real_data_dir

pytestmark = pytest.mark.real_data


def workload(case: Case) -> Workload:
    return load_workload(read_job(compose_config(list(case.overrides))[0]))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.label)
def test_a_recording_is_found_and_comes_at_the_rate_asked_for(source: Source) -> None:
    if not (real_data_dir() / source.file).exists():
        pytest.skip(f"real data not here: {source.file} (set FLOCKSIM_DATA)")
    assert data_directory() == real_data_dir()
    setting = Setting(source=source, load=0.5)
    plain = workload(setting.plain_case("quick")) if source.is_scaled else None
    own = plain.num_requests / plain.arrival_s[-1] if plain else 1.0
    job = workload(setting.case(JSQ, SCALES["quick"], source.rate("quick", 20.0, own)))
    assert 2500 <= job.num_requests <= 5000
    flood = workload(setting.flood_case("quick"))
    assert flood.num_requests >= 3.5 * job.num_requests
    assert not flood.arrival_s.any()
    assert job.prompt_tokens.max() <= 57_000
    # Agents start their sessions at that rate: calls come spread over the time that these last.
    if not job.is_closed_loop:
        assert job.num_requests / job.arrival_s[-1] == pytest.approx(20.0, rel=0.15)
