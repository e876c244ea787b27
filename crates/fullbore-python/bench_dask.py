"""Measures what a task of fullbore.dask costs: python bench_dask.py [TASKS]

Two workers of one thread run tasks that do nothing, then the pipeline `cat IN | cat > OUT` by bash, by `fullbore run --whole`,
and by map_pipelines(). Install a wheel that was built with --release, and `fullbore[dask]`, first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import fullbore.dask
from fullbore._whole import command


def nothing(_: int) -> None:
    pass


def bare(source: str) -> None:
    subprocess.run(["bash", "-o", "pipefail", "-c", 'cat "$1" | cat > "$1.bare"', "bash", source], check=True)


def whole(source: str) -> None:
    pipeline = ["--", "cat", source, "|", "cat"]
    report, output = f"--json={source}.json", f"--output={source}.whole"
    subprocess.run([command(), "run", "--quiet", "--whole", report, output, *pipeline], check=True)


def main() -> None:
    from distributed import Client, LocalCluster

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        sources = [os.path.join(folder, f"in{number}") for number in range(count)]
        for source in sources:
            with open(source, "w") as file:
                file.write("line\n")
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0")
        with cluster, Client(cluster) as client:

            def pipelines(sources: list[str], prefix: str) -> list[Any]:
                return fullbore.dask.map_pipelines(
                    client, ["cat", "cat"], sources, [f"{source}.{prefix}" for source in sources]
                )

            def seconds(submit: Callable[[], list[Any]]) -> float:
                began = time.perf_counter()
                client.gather(submit())
                return time.perf_counter() - began

            # Both workers import what they need.
            client.gather(pipelines(sources[:20], "warm") + client.map(bare, sources[:20], pure=False))
            client.gather(client.map(whole, sources[:20], pure=False))
            empty = seconds(lambda: client.map(nothing, range(count), pure=False))
            shell = seconds(lambda: client.map(bare, sources, pure=False))
            run = seconds(lambda: client.map(whole, sources, pure=False))
            tasks = seconds(lambda: pipelines(sources, "out"))
    rows = {"nothing": empty, "bash": shell, "fullbore run --whole": run, "map_pipelines()": tasks}
    for what, took in rows.items():
        print(f"{count} tasks: {what:22} {took:7.3f} s, {took / count * 2e3:6.2f} ms of a worker each")


if __name__ == "__main__":
    main()
