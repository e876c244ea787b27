"""The examples of docs/fleets.md for other schedulers: what can run here does."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fullbore._whole import command

#: tests/run copies the page beside the tests.
PAGE = next(
    path
    for path in (Path(__file__).parent / "fleets.md", Path(__file__).parents[3] / "docs" / "fleets.md")
    if path.exists()
).read_text()
ENV = {**os.environ, "PATH": f"{os.path.dirname(command())}:{os.environ['PATH']}"}


def files_in(folder: Path) -> list[str]:
    for number in range(3):
        (folder / f"in.{number}").write_text(f"{number}\n" * 1000)
    return [str(folder / f"in.{number}") for number in range(3)]


def check(folder: Path, outputs: list[Path]) -> None:
    """Checks the outputs, and that a summary has the reports beside them."""
    for number, output in enumerate(outputs):
        assert gzip.decompress(output.read_bytes()).decode() == f"{number}\n" * 1000
    reports = sorted(str(path) for path in folder.glob("*.json"))
    summary = subprocess.run(
        [command(), "run", "--summary", "--json", *reports], check=True, capture_output=True, text=True
    ).stdout
    assert json.loads(summary)["pipelines"] == len(outputs)


@pytest.mark.parametrize("start, index", [("sbatch .*? --wrap", "SLURM_ARRAY_TASK_ID"), ("srun .*? sh -c", "SLURM_PROCID")])
def test_what_slurm_runs(tmp_path: Path, start: str, index: str) -> None:
    found = re.search(rf"^{start} '([^']+)'", PAGE, re.MULTILINE)
    assert found is not None
    files_in(tmp_path)
    for number in range(3):
        subprocess.run(["sh", "-c", found[1]], check=True, cwd=tmp_path, env={**ENV, index: str(number)})
    check(tmp_path, [tmp_path / f"out.{number}.gz" for number in range(3)])


def test_what_kubernetes_runs(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="skipped: yaml cannot be had")
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (job,) = [found for block in blocks if (found := yaml.safe_load(block)) and "apiVersion" in found]
    pod: Any = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (mount,) = container["volumeMounts"]
    assert (job["kind"], job["spec"]["completionMode"], mount["mountPath"]) == ("Job", "Indexed", "/data")
    assert mount["name"] in [volume["name"] for volume in pod["volumes"]]
    files_in(tmp_path)
    words = [word.replace("/data", str(tmp_path)) for word in container["command"]]
    for number in range(3):
        subprocess.run(words, check=True, env={**ENV, "JOB_COMPLETION_INDEX": str(number)})
    check(tmp_path, [tmp_path / f"out.{number}.gz" for number in range(3)])


def test_what_ray_runs(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="skipped: Ray is not installed")
    (example,) = re.findall(r"```text\n(import ray.*?)```", PAGE, re.DOTALL)
    inputs = files_in(tmp_path)
    start = "import ray; ray.init(num_cpus=2, include_dashboard=False)"
    text = f"{start}\ninputs = {inputs!r}\n{example}"
    subprocess.run([sys.executable, "-c", text], check=True, env=ENV, cwd=tmp_path)
    check(tmp_path, [Path(f"{source}.gz") for source in inputs])
