"""fullbore.dask when workers and schedulers are killed: each output is complete or absent, and nothing is left running."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conftest import LIMIT, wait_until

distributed = pytest.importorskip("distributed", reason="skipped: distributed cannot be had")

import fullbore.dask  # noqa: E402

#: Longer than Dask takes to learn of several deaths: it connects to a dead worker for half a minute each time.
LONG = 4 * LIMIT

#: FULLBORE_TEST_LOAD asks for as many as it takes to meet every moment.
INPUTS = 200 if "FULLBORE_TEST_LOAD" in os.environ else 24


def inputs_in(folder: Path, count: int) -> list[str]:
    paths = [folder / f"in{number} $HOME '{number}'" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(f"line {number}\n".encode() * 20_000)
    return [str(path) for path in paths]


def attempts_in(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".fullbore")]


def is_running(words: str) -> bool:
    return subprocess.run(["pgrep", "-x", "-f", words], capture_output=True).returncode == 0


def sums_are_right(inputs: list[str], outputs: list[str]) -> int:
    """Returns how many outputs are there, after each of these is compared with the sum that this process computes."""
    there = 0
    for source, output in zip(inputs, outputs):
        if os.path.exists(output):
            there += 1
            assert Path(output).read_text().split()[0] == hashlib.sha256(Path(source).read_bytes()).hexdigest(), output
    return there


def started(module: str, *words: str) -> subprocess.Popen[bytes]:
    words = ("-m", f"distributed.cli.{module}", *words)
    return subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def worker(folder: Path, *scheduler: str) -> subprocess.Popen[bytes]:
    more = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", str(LIMIT)]
    return started("dask_worker", *scheduler, *more, "--local-directory", str(folder))


def ended(processes: list[subprocess.Popen[bytes]], number: int) -> None:
    for process in processes:
        process.send_signal(number)
    for process in processes:
        process.wait(LIMIT)


def test_workers_that_are_killed_lose_no_output_and_leave_nothing_running(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    inputs = inputs_in(tmp_path, INPUTS)
    outputs = [f"{path}.out" for path in inputs]
    mark = f"0.0{rng.randrange(10**8, 10**9)}"
    fails, retries = set(rng.sample(range(INPUTS), 5)), 20
    # Writes a line for each attempt. A quarter of them fail, and some inputs always do.
    begins = 'echo "$1" >> "$2"; cat'
    ends = f'cat; sleep {mark}; case " $2 " in *" $1 "*) exit 3; esac; exit $(($(od -An -N1 -tu1 /dev/urandom) < 64))'
    stages = [
        ["sh", "-c", begins, "sh", "{index}", str(tmp_path / "log")],
        ["sh", "-c", ends, "sh", "{index}", " ".join(map(str, fails))],
        "sha256sum",
    ]
    scheduler = distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=50)
    with scheduler, distributed.Client(scheduler) as client:
        # A task that was lost with many workers is tried again all the same.
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 1000))
        workers = [worker(tmp_path / f"w{number}", scheduler.scheduler_address) for number in range(2)]
        try:
            futures = fullbore.dask.map_pipelines(client, stages, inputs, outputs, retries=retries)
            left = set(range(INPUTS)) - fails
            for kill in range(INPUTS // 8):
                # At a random moment of the work that goes on.
                goal = rng.choice(sorted(left)) if left else None
                wait_until(lambda: goal is None or os.path.exists(outputs[goal]) or futures[goal].done())
                left = {number for number in left if not os.path.exists(outputs[number])}
                time.sleep(rng.random() / 20)
                at = rng.randrange(2)
                ended([workers[at]], signal.SIGKILL)
                workers[at] = worker(tmp_path / f"w{kill + 2}", scheduler.scheduler_address)
            for number, future in enumerate(futures):
                # The scheduler may learn only now that a worker is dead: exception() and result() wait for the new run.
                if number in fails:
                    assert isinstance(future.exception(LONG), fullbore.PipelineError)
                    assert not os.path.exists(outputs[number])
                else:
                    future.result(LONG)
            found = client.run_on_scheduler(
                lambda dask_scheduler, keys: [
                    (dask_scheduler.tasks[key].retries, dask_scheduler.tasks[key].suspicious) for key in keys
                ],
                keys=[future.key for future in futures],
            )
        finally:
            # Nothing is asked of them any more, and Dask may take its time to close one.
            ended(workers, signal.SIGKILL)
    assert sums_are_right(inputs, outputs) == INPUTS - 5
    begun = Counter(int(line) for line in (tmp_path / "log").read_text().split())
    for number, (unused, suspicious) in enumerate(found):
        # Dask counts an attempt that failed by the retries, and calls a task suspicious for each worker that died with it,
        # also before its pipeline began.
        failed = retries - unused + 1
        assert failed <= begun[number] <= failed + suspicious, (number, begun[number], unused, suspicious)
    wait_until(lambda: not is_running(f"sleep {mark}"))
    fullbore.dask.clean(outputs)
    assert attempts_in(tmp_path) == []


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_stages_end_with_their_worker(tmp_path: Path, number: int, whole: bool) -> None:
    (source,) = inputs_in(tmp_path, 1)
    seconds = f"8{random.randrange(10**6)}"
    scheduler = distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=50)
    with scheduler, distributed.Client(scheduler) as client:
        only = worker(tmp_path / "w", scheduler.scheduler_address)
        (future,) = fullbore.dask.map_pipelines(
            client, ["cat", f"sleep {seconds}"], [source], [tmp_path / "out"], whole=whole
        )
        wait_until(lambda: is_running(f"sleep {seconds}"))
        ended([only], number)
        wait_until(lambda: not is_running(f"sleep {seconds}"))
        # Dask runs it again.
        again = worker(tmp_path / "w2", scheduler.scheduler_address)
        wait_until(lambda: is_running(f"sleep {seconds}"))
        client.cancel(future)
        wait_until(lambda: not is_running(f"sleep {seconds}"))
        ended([again], signal.SIGKILL)
    fullbore.dask.clean([tmp_path / "out"])
    assert attempts_in(tmp_path) == [] and not (tmp_path / "out").exists()


def test_a_scheduler_that_is_killed_loses_no_output(tmp_path: Path) -> None:
    inputs = inputs_in(tmp_path, INPUTS // 4)
    outputs = [f"{path}.out" for path in inputs]
    seconds = f"0.1{random.randrange(10**8)}"
    stages = ["cat", ["sh", "-c", f"cat; sleep {seconds}"], "sha256sum"]
    for is_last in (False, True):
        file = str(tmp_path / f"scheduler{is_last}")
        named = ["--scheduler-file", file]
        scheduler = started("dask_scheduler", *named, "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        workers = [worker(tmp_path / f"w{number}{is_last}", *named) for number in range(2)]
        try:
            wait_until(lambda: os.path.exists(file) and os.stat(file).st_size > 0)
            with distributed.Client(scheduler_file=file, timeout=LIMIT, heartbeat_interval=1000) as client:
                futures = fullbore.dask.map_pipelines(client, stages, inputs, outputs)
                if is_last:
                    reports: list[Any] = client.gather(futures)
                else:
                    # It goes down while tasks run.
                    wait_until(lambda: any(os.path.exists(output) for output in outputs))
                    ended([scheduler], signal.SIGKILL)
        finally:
            ended([scheduler], signal.SIGKILL)
            ended(workers, signal.SIGKILL)
        wait_until(lambda: not is_running(f"sleep {seconds}"))
        there = sums_are_right(inputs, outputs)
    assert there == len(inputs)
    assert any(report.skipped for report in reports)
    assert attempts_in(tmp_path) == []
