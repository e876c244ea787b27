"""fullbore.dask: whole pipelines as tasks of Dask's distributed scheduler."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import LIMIT, wait_until

distributed = pytest.importorskip("distributed", reason="skipped: distributed cannot be had")

import fullbore.dask  # noqa: E402
from fullbore import PipelineError  # noqa: E402


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
    )
    with cluster, distributed.Client(cluster) as made:
        yield made


def inputs_in(folder: Path, count: int) -> list[str]:
    paths = [folder / f"in{number} $HOME '{number}'" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(f"line {number}\n".encode() * 20_000)
    return [str(path) for path in paths]


def attempts_in(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".fullbore")]


def test_each_input_is_one_task_and_no_shell_sees_its_name(client: Any, tmp_path: Path) -> None:
    inputs = inputs_in(tmp_path, 6)
    outputs = [f"{path}.out" for path in inputs]
    stages = ["cat {input}", ["sed", "s/^/{index} {name} /;s/x{output}//"], "sort -u"]
    # A stage that names the output writes it itself.
    with pytest.raises(PipelineError):
        client.gather(fullbore.dask.map_pipelines(client, stages[:2], inputs[:1], outputs[:1]))
    stages[1] = ["sed", "s/^/{index} /"]
    futures = fullbore.dask.map_pipelines(client, stages, inputs, outputs)
    reports = client.gather(futures)
    for number, (report, output) in enumerate(zip(reports, outputs)):
        assert Path(output).read_text() == f"{number} line {number}\n"
        assert (report.index, report.output, report.skipped) == (number, output, False)
        assert report.returncodes == (0, 0, 0) and report.bytes == os.stat(output).st_size
        assert report.report is not None and len(report.report.stages) == 3
    # Made again, nothing is run, unless an input is newer.
    os.utime(inputs[2], (time.time() + 100, time.time() + 100))
    again = client.gather(fullbore.dask.map_pipelines(client, stages, inputs, outputs))
    assert [report.skipped for report in again] == [True, True, False, True, True, True]
    text = str(fullbore.dask.summary([*reports, *again]))
    assert "7 pipelines on 1 machine" in text and "3 sort" in text
    assert "<html" in fullbore.dask.summary(reports).html
    assert attempts_in(tmp_path) == []


def test_outputs_by_name_stdin_and_seals(client: Any, tmp_path: Path) -> None:
    inputs = inputs_in(tmp_path, 2)
    outputs = [str(tmp_path / f"out{number}") for number in range(2)]
    # The stdin of the first stage is the input, and the program writes its output itself.
    client.gather(
        fullbore.dask.map_pipelines(client, ["cat", ["dd", "of={output}", "status=none"]], inputs, outputs)
    )
    assert Path(outputs[1]).read_bytes() == Path(inputs[1]).read_bytes()
    # It is no sealed stream, so it is made again.
    seal = ["cat", [os.path.join(os.path.dirname(sys.executable), "fullbore"), "copy", "--seal"]]
    for skipped in (False, True):
        reports = client.gather(fullbore.dask.map_pipelines(client, seal, inputs, outputs, done="sealed"))
        assert [report.skipped for report in reports] == [skipped, skipped]


def test_a_failure_leaves_the_output_as_it_was(client: Any, tmp_path: Path) -> None:
    (source,) = inputs_in(tmp_path, 1)
    output = tmp_path / "out"
    output.write_text("old")
    os.utime(output, (1, 1))
    for stages, more in [
        ([["sh", "-c", "cat; exit 3"], "cat"], {}),
        (["cat", "head -c 3"], {"at_least": 4}),
        (["sleep 600", "cat"], {"stalled": 0.5}),
        (["none-of-that-name"], {}),
    ]:
        with pytest.raises((PipelineError, EOFError)):
            fullbore.dask.map_pipelines(client, stages, [source], [output], **more)[0].result()
        assert output.read_text() == "old" and attempts_in(tmp_path) == []
    accepted = fullbore.dask.map_pipelines(
        client, [["sh", "-c", "cat; exit 3"], "wc -l"], [source], [output], accept={1: 3}, retries=1
    )
    assert accepted[0].result().returncodes == (3, 0) and output.read_text() == "20000\n"
    for wrong in ({"accept": {1: 0}}, {"done": "x"}, {"at_least": "x"}):
        with pytest.raises(ValueError):
            fullbore.dask.map_pipelines(client, ["cat"], [source], [output], **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one output"):
        fullbore.dask.map_pipelines(client, ["cat"], [source], [])
    with pytest.raises(ValueError, match="same output"):
        fullbore.dask.map_pipelines(client, ["cat"], [source, source], [output, output])


def is_running(words: str) -> bool:
    return subprocess.run(["pgrep", "-x", "-f", words], capture_output=True).returncode == 0


def test_a_cancelled_future_ends_its_pipeline(client: Any, tmp_path: Path) -> None:
    (source,) = inputs_in(tmp_path, 1)
    seconds = f"6{random.randrange(10**6)}"
    futures = fullbore.dask.map_pipelines(client, [f"sleep {seconds}", "cat"], [source], [tmp_path / "out"])
    wait_until(lambda: is_running(f"sleep {seconds}"))
    client.cancel(futures)
    wait_until(lambda: not is_running(f"sleep {seconds}"))
    wait_until(lambda: attempts_in(tmp_path) == [])
    assert not (tmp_path / "out").exists()


def test_what_a_killed_attempt_left_is_removed_and_never_that_of_a_running_one(tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    dead = tmp_path / ".out.fullbore" / "host-1-00"
    dead.mkdir(parents=True)
    (dead / ".fullbore.lock").touch()
    (dead / "out").write_text("part")
    other = tmp_path / ".other.fullbore" / "host-1-00"
    other.mkdir(parents=True)
    with fullbore.dask._Attempt(output) as attempt:
        # The attempt has removed it.
        assert not dead.exists()
        assert fullbore.dask.clean([output]) == []
        assert os.path.exists(os.path.dirname(attempt.path))
    assert attempts_in(tmp_path) == [".other.fullbore"]
    # This one was killed before it had a lock.
    dead.mkdir(parents=True)
    assert fullbore.dask.clean([output, "s3://x/y"]) == [str(dead)]
    assert other.exists()


def test_urls_of_fsspec(client: Any, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_text("b\na\n")
    output = tmp_path / "out"
    urls = ([f"file://{source}"], [f"file://{output}"])
    (report,) = client.gather(fullbore.dask.map_pipelines(client, ["sort"], *urls))
    assert output.read_text() == "a\nb\n" and not report.skipped
    (report,) = client.gather(fullbore.dask.map_pipelines(client, ["sort"], *urls))
    assert report.skipped
    os.utime(source, (time.time() + 100, time.time() + 100))
    with pytest.raises(PipelineError):
        client.gather(fullbore.dask.map_pipelines(client, [["sh", "-c", "cat; exit 3"]], *urls))
    assert output.read_text() == "a\nb\n"


def test_s3(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    moto = pytest.importorskip("moto.server", reason="skipped: moto cannot be had")
    s3fs = pytest.importorskip("s3fs", reason="skipped: s3fs cannot be had")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        of_server = {
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        }
        for name, value in of_server.items():
            monkeypatch.setenv(name, value)
        client.run(exec, f"import os; os.environ.update({of_server!r})")
        s3 = s3fs.S3FileSystem()
        s3.mkdir("bucket")
        with s3.open("bucket/in", "wb") as file:
            file.write(b"b\na\n" * 1000)
        urls = (["s3://bucket/in"], ["s3://bucket/out"])
        for skipped in (False, True):
            (report,) = client.gather(fullbore.dask.map_pipelines(client, ["sort -u"], *urls))
            assert report.skipped == skipped and s3.cat("bucket/out") == b"a\nb\n"
        fails = [["sh", "-c", "cat; exit 3"], "sort"]
        with pytest.raises(PipelineError):
            client.gather(fullbore.dask.map_pipelines(client, fails, urls[0], ["s3://bucket/none"]))
        s3.invalidate_cache()
        assert not s3.exists("bucket/none") and s3.cat("bucket/out") == b"a\nb\n"
    finally:
        server.stop()


def test_a_full_disk_leaves_no_output(client: Any, tmp_path: Path) -> None:
    (source,) = inputs_in(tmp_path, 1)
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], capture_output=True).returncode:
        pytest.skip("skipped: only root may mount")
    try:
        with pytest.raises(PipelineError):
            client.gather(fullbore.dask.map_pipelines(client, ["cat"], [source], [small / "out"]))
        assert os.listdir(small) == []
        client.gather(fullbore.dask.map_pipelines(client, ["head -c 9"], [source], [small / "out"]))
        assert os.listdir(small) == ["out"]
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_scheduler_that_is_restarted_loses_no_output(tmp_path: Path) -> None:
    inputs = inputs_in(tmp_path, 4)
    outputs = [f"{path}.out" for path in inputs]
    seconds = f"0.{random.randrange(10**8, 2 * 10**8)}"
    stages = ["cat", ["sh", "-c", f"cat; sleep {seconds}"], "sha256sum"]
    for is_last in (False, True):
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
        )
        with cluster, distributed.Client(cluster) as client:
            futures = fullbore.dask.map_pipelines(client, stages, inputs, outputs)
            if is_last:
                client.gather(futures)
            else:
                # All of it goes down while the others run.
                wait_until(lambda: any(os.path.exists(output) for output in outputs))
        wait_until(lambda: not is_running(f"sleep {seconds}"))
        for source, output in zip(inputs, outputs):
            if is_last or os.path.exists(output):
                expected = hashlib.sha256(Path(source).read_bytes()).hexdigest()
                assert Path(output).read_text().split()[0] == expected
    fullbore.dask.clean(outputs)
    assert attempts_in(tmp_path) == []


def worker(address: str, folder: Path) -> subprocess.Popen[bytes]:
    words = ["-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    return subprocess.Popen(
        [sys.executable, *words, "--local-directory", str(folder), "--death-timeout", "60"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_workers_that_are_killed_lose_no_output_and_leave_nothing_running(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    inputs = inputs_in(tmp_path, 40)
    outputs = [f"{path}.out" for path in inputs]
    mark = f"0.0{rng.randrange(10**8, 10**9)}"
    fails = set(rng.sample(range(40), 5))
    scheduler = distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=50)
    with scheduler, distributed.Client(scheduler) as client:
        # A task that was lost with many workers is tried again all the same.
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 100))
        workers = [worker(scheduler.scheduler_address, tmp_path / f"w{number}") for number in range(2)]
        try:
            futures = []
            for number in range(40):
                exit_code = 3 if number in fails else 0
                stages = ["cat", ["sh", "-c", f"cat; sleep {mark}; exit {exit_code}"], "sha256sum"]
                futures += fullbore.dask.map_pipelines(
                    client, stages, inputs[number : number + 1], outputs[number : number + 1]
                )
            kills = 0
            until = time.monotonic() + LIMIT
            # A result that was lost with its worker is "lost" until its task runs again.
            while any(future.status in ("pending", "lost") for future in futures):
                assert time.monotonic() < until
                time.sleep(rng.random())
                if kills < 5 and any(os.path.exists(output) for output in outputs):
                    kills += 1
                    at = rng.randrange(2)
                    workers[at].kill()
                    workers[at].wait()
                    workers[at] = worker(scheduler.scheduler_address, tmp_path / f"w{kills + 2}")
            for number, (future, source, output) in enumerate(zip(futures, inputs, outputs)):
                # The scheduler may learn only now that a worker is dead: exception() and result() wait for the new run.
                if number in fails:
                    assert isinstance(future.exception(LIMIT), fullbore.PipelineError)
                    assert not os.path.exists(output)
                else:
                    expected = hashlib.sha256(Path(source).read_bytes()).hexdigest()
                    future.result(LIMIT)
                    assert Path(output).read_text().split()[0] == expected
        finally:
            for one in workers:
                one.send_signal(signal.SIGTERM)
            for one in workers:
                one.wait(LIMIT)
    wait_until(lambda: not is_running(f"sleep {mark}"))
    fullbore.dask.clean(outputs)
    assert attempts_in(tmp_path) == []
