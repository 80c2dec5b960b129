"""Every profile that ships is whole and sensible; a wrong one is a sentence that says where and what would be right."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.cluster.profiles import load_profile, load_profile_to_run, profile_names
from jobs.configs import Resources, ShardConfig
from jobs.errors import UserError
from transformer.config import TrainingConfig

SHIPPED = ["cpu-cluster", "gpu1", "gpu32", "gpu8", "gpu8-p100", "laptop"]


def write(directory: Path, text: str) -> str:
    file = directory / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_these_profiles_ship() -> None:
    assert profile_names() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_profile_says_what_it_needs_and_fits_into_it(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert profile.description
    assert profile.cpus is not None
    assert profile.gpus is not None
    assert profile.device_tflops is not None
    assert profile.watts is not None
    train, data, translate, serve = profile.train, profile.data, profile.translate, profile.serve
    assert train.workers * train.cpus_per_worker <= profile.cpus
    assert train.workers * train.gpus_per_worker <= profile.gpus
    assert data.tasks * data.cpus_per_task <= profile.cpus
    assert translate.actors * translate.cpus_per_actor <= profile.cpus
    assert translate.actors * translate.gpus_per_actor <= profile.gpus
    assert serve.max_replicas * serve.cpus_per_replica <= profile.cpus
    assert serve.max_replicas * serve.gpus_per_replica <= profile.gpus
    assert (train.gpus_per_worker > 0) == (profile.gpus > 0) == (train.precision == "bf16" or name == "gpu8-p100")


@pytest.mark.parametrize("name", SHIPPED)
def test_no_profile_has_more_workers_than_the_papers_update_has_micro_batches(name: str) -> None:
    micro_batches = TrainingConfig().tokens_per_update // ShardConfig().micro_batch_tokens
    assert load_profile(name).train.workers <= micro_batches


def test_laptop_is_the_default() -> None:
    laptop = load_profile("laptop")
    assert (laptop.train, laptop.data, laptop.translate) == (Resources().train, Resources().data, Resources().translate)
    assert laptop.serve == Resources().serve
    assert laptop.name == Resources().name


def test_a_file_of_ones_own_is_named_after_itself_and_starts_from_the_defaults(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, "cpus = 4\n[train]\nworkers = 4\n"))
    assert profile.name == "mine"
    assert profile.cpus == 4.0
    assert profile.train == replace(Resources().train, workers=4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[train]\nworker = 3", ["mine.toml", "train.worker", "Did you mean train.workers?"]),
        ("[trian]\nworkers = 3", ["trian", "Did you mean train?"]),
        ("zzz = 3", ["zzz", "There are: name, description"]),
        ("[train]\nworkers = 'two'", ["train.workers", "a whole number", "'two'"]),
        ("[train]\nworkers = 2.0", ["train.workers", "a whole number"]),
        ("[train]\nworkers = true", ["train.workers", "a whole number", "True"]),
        ("[train]\nworkers = 0", ["train.workers must be at least 1"]),
        ("[train]\ncompile = 1", ["train.compile", "true or false"]),
        ("[train]\nprecision = 'fp8'", ["train.precision", "'fp32', 'tf32', 'bf16', 'auto'"]),
        ("cpus = true", ["cpus", "a number"]),
        ("train = 3", ["train", "a table"]),
        ("cpus = 1\nx = = 3", ["not valid TOML", "line 2"]),
    ],
)
def test_a_wrong_profile_is_a_sentence(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        load_profile(write(tmp_path, text))
    for word in words:
        assert word in str(caught.value)


def test_a_profile_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(UserError, match="Did you mean gpu8"):
        load_profile("gpu88")
    with pytest.raises(UserError, match="no profile file"):
        load_profile("./nowhere.toml")
    with pytest.raises(UserError, match="There are: cpu-cluster, gpu1"):
        load_profile("")


def test_a_profile_that_is_not_text_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8"):
        load_profile(str(tmp_path / "mine.toml"))


def test_profiles_load_nothing_heavy() -> None:
    heavy = "{'ray', 'torch', 'mlflow', 'pyarrow', 'numpy', 'requests'}"
    code = (
        "import sys; from jobs.cluster.profiles import load_profile; load_profile('gpu8'); "
        f"print({heavy} & set(sys.modules) or 'none')"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "none"


def test_a_profile_for_estimates_only_is_refused_for_work() -> None:
    assert load_profile("gpu8-p100").estimates_only
    with pytest.raises(UserError, match=r"gpu8-p100 is for estimates only .* PyTorch has no kernels"):
        load_profile_to_run("gpu8-p100")
    assert load_profile_to_run("gpu8") == load_profile("gpu8")
