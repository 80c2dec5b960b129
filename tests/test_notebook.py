"""The Python way: what the README shows of it works, on a small demo that is made already."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_demo import ROOT, SMALL

from pipelines.notebook import plan

README = (ROOT / "README.md").read_text()


def test_a_plan_is_that_of_the_command_line(tmp_path: Path) -> None:
    planned = plan("table3-demo", {"training.steps": 300, "model.d_k": None}, rows=["A/h=1"], workspace=str(tmp_path))
    (trained,) = [each.step for each in planned.to_do if each.step.stage.curve]
    assert trained.config.training.steps == 300
    assert list(tmp_path.iterdir()) == []


@pytest.mark.ray
@pytest.mark.slow
def test_the_lines_of_the_readme_plan_run_and_translate(undisturbed: Path, tmp_path: Path) -> None:
    shutil.copytree(undisturbed, tmp_path / "w")
    (block,) = [code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "pipelines.notebook" in code]
    (line,) = [line for line in block.splitlines() if line.startswith("settings = ")]
    small = {name: value for name, _, value in (setting.partition("=") for setting in SMALL)} | {"translation.beam": 2}
    script = tmp_path / "notebook.py"
    script.write_text(
        "if __name__ == '__main__':\n    " + block.replace(line, f"settings = {small}").replace("\n", "\n    ")
    )
    env = {**os.environ, "ATTN_WORKSPACE": str(tmp_path / "w"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "['translate model', 'score model', 'report demo']"
    score, page = lines[-2].split()
    assert float(score) > 0
    assert Path(page).is_file()
    assert lines[-1].strip(), "a translation"
