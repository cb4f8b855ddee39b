"""Loading models by name and by path."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from hwmodels.model_catalogue import available_models, load_model
from sim.errors import ConfigError


@pytest.mark.parametrize("name", available_models())
def test_entry_is_named_as_its_file_and_has_a_source(name: str) -> None:
    shape = load_model(name)
    assert shape.name == name
    assert shape.source


def test_unknown_name_lists_the_valid_ones_and_the_closest() -> None:
    with pytest.raises(ConfigError, match=r"unknown model 'lama3_8b' \(did you mean llama3_8b\?\)"):
        load_model("lama3_8b")


def test_name_close_to_none_gets_no_suggestion() -> None:
    with pytest.raises(ConfigError) as caught:
        load_model("zzz")
    assert "did you mean" not in str(caught.value)
    assert "qwen3_8b" in str(caught.value)


def packaged(name: str) -> dict[str, object]:
    text = (files("hwmodels") / "catalogue" / f"{name}.json").read_text(encoding="utf-8")
    record: dict[str, object] = json.loads(text)
    return record


def test_own_entry_is_read_by_path(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text(json.dumps(packaged("llama3_8b") | {"name": "deep", "num_layers": 64}))
    deep, original = load_model(str(path)), load_model("llama3_8b")
    assert deep.name == "deep"
    assert deep.kv_bytes_per_token == 2 * original.kv_bytes_per_token


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"num_layer": 3}, "unknown key num_layer; allowed: name, num_layers"),
        ({"num_layers": "3"}, "num_layers must be a whole number >= 1, found '3'"),
        ({"source": ""}, "source: must be a text that is not empty"),
        ({"name": 3}, "name: must be a text that is not empty"),
    ],
)
def test_mistake_in_an_entry_is_one_clear_line(
    tmp_path: Path, change: dict[str, object], complaint: str
) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(packaged("llama3_8b") | change))
    with pytest.raises(ConfigError, match=complaint):
        load_model(path)


def test_missing_key_is_named(tmp_path: Path) -> None:
    record = packaged("llama3_8b")
    del record["vocab_size"]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(record))
    with pytest.raises(ConfigError, match="missing key vocab_size"):
        load_model(path)


def test_hugging_face_folder_is_recognised(tmp_path: Path) -> None:
    folder = tmp_path / "some-model"
    folder.mkdir()
    config = {
        "architectures": ["OPTForCausalLM"],
        "hidden_size": 2560,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "ffn_dim": 10240,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
    }
    (folder / "config.json").write_text(json.dumps(config))
    for path in (folder, str(folder), folder / "config.json"):
        shape = load_model(path)
        assert shape.name == "some-model"
        assert shape.num_parameters == load_model("opt_2_7b").num_parameters
