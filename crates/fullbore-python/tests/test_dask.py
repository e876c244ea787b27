"""fullbore.dask: whole pipelines as tasks of Dask's distributed scheduler."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import LIMIT, wait_until

distributed = pytest.importorskip("distributed", reason="skipped: distributed cannot be had")

import fullbore.dask  # noqa: E402
from fullbore import PipelineError  # noqa: E402
from test_dask_killed import attempts_in, inputs_in, is_running  # noqa: E402


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
    )
    with cluster, distributed.Client(cluster) as made:
        yield made


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
    assert "1 machine, and 5 more skipped" in str(fullbore.dask.summary(again))
    assert str(fullbore.dask.summary(again[:2])) == "0 pipelines on 0 machines, and 2 more skipped\n"
    assert json.loads(fullbore.dask.summary(again[:2]).json)["skipped"] == 2
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


def test_an_upload_that_is_cancelled_leaves_the_output_as_it_was(client: Any, tmp_path: Path) -> None:
    go, begun = tmp_path / "go", tmp_path / "begun"

    def register() -> None:
        from typing import Any

        import fsspec
        from fsspec.implementations.local import LocalFileSystem

        class Slow(LocalFileSystem):  # type: ignore[misc]
            protocol = "slow"

            def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
                opened = super().open(path, mode, **options)
                write = opened.write

                def wait_and_write(data: bytes) -> Any:
                    begun.touch()
                    while not go.exists():
                        time.sleep(0.01)
                    return write(data)

                if "w" in mode:
                    opened.write = wait_and_write
                return opened

        fsspec.register_implementation("slow", Slow, clobber=True)

    client.run(register)
    output = tmp_path / "out"
    output.write_text("before")
    (source,) = inputs_in(tmp_path, 1)
    call = dict(stages=["cat"], inputs=[source], outputs=[f"slow://{output}"], done="never")
    (future,) = fullbore.dask.map_pipelines(client, **call)
    wait_until(begun.exists)
    future.cancel()

    def state(dask_worker: Any) -> str:
        task = dask_worker.state.tasks.get(future.key)
        return "gone" if task is None else str(task.state)

    wait_until(lambda: set(client.run(state).values()) <= {"gone", "cancelled"})
    go.touch()
    # The next task of each worker runs when the cancelled one has ended.
    client.gather([client.submit(str, number, workers=[worker], pure=False) for number, worker in enumerate(client.nthreads())])
    assert output.read_text() == "before"
    (report,) = client.gather(fullbore.dask.map_pipelines(client, **call))
    assert output.read_bytes() == Path(source).read_bytes() and not report.skipped
    assert sorted(os.listdir(tmp_path)) == sorted(["begun", "go", "out", Path(source).name])


def test_a_file_system_without_transactions_is_refused(client: Any, tmp_path: Path) -> None:
    def register() -> None:
        from typing import Any

        import fsspec
        from fsspec.implementations.dirfs import DirFileSystem
        from fsspec.implementations.local import LocalFileSystem
        from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

        class File(AbstractBufferedFile):  # type: ignore[misc]
            def _upload_chunk(self, final: bool = False) -> bool:
                with open(self.path, "ab") as file:
                    file.write(self.buffer.getvalue())
                return True

            def _initiate_upload(self) -> None:
                open(self.path, "wb").close()

        class AtOnce(AbstractFileSystem):  # type: ignore[misc]
            protocol = "atonce"

            def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
                return File(self, path, mode, **options)

            def rm(self, path: str, **_: Any) -> None:
                os.unlink(path)

        class Foreign(AtOnce):
            """Its files are those of another library, as pyarrow's."""

            protocol = "foreign"

            def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
                return open(path, mode)

        class Inner(DirFileSystem):  # type: ignore[misc]
            """Its transactions do not reach the file system inside."""

            protocol = "inner"

            def __init__(self, **options: Any) -> None:
                super().__init__("/", LocalFileSystem(), **options)

        for made in (AtOnce, Foreign, Inner):
            fsspec.register_implementation(made.protocol, made, clobber=True)

    client.run(register)
    output = tmp_path / "out"
    output.write_text("before")
    (source,) = inputs_in(tmp_path, 1)
    for protocol in ("atonce", "foreign", "inner"):
        futures = fullbore.dask.map_pipelines(client, ["cat"], [source], [f"{protocol}://{output}"], done="never")
        with pytest.raises(OSError, match="has no transactions"):
            client.gather(futures)
        assert output.read_text() == "before", protocol
        assert sorted(os.listdir(tmp_path)) == sorted(["out", Path(source).name]), protocol


DIES_WHILE_IT_UPLOADS = """
import os, signal, sys, fullbore.dask
def look(seen=[]):
    # The input is one piece of 8 MiB, and the first part that s3fs uploads are 50 MiB.
    if sys._getframe(1).f_code.co_name == "_copy":
        seen.append(1)
    if len(seen) == 9:
        os.kill(os.getpid(), signal.SIGKILL)
fullbore.dask._look = look
fullbore.dask._run(fullbore.dask._Task(
    0, "s3://bucket/in", "s3://bucket/large", (("head", "-c", "70M", "/dev/zero"),), fullbore.dask.Whole(True), 0, 1 << 20,
    1.0, "newer", False))
"""


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
        # A worker is killed when a part of its output was uploaded.
        killed = subprocess.run([sys.executable, "-c", DIES_WHILE_IT_UPLOADS])
        s3.invalidate_cache()
        assert killed.returncode == -signal.SIGKILL and not s3.exists("bucket/large")
        assert [upload["Key"] for upload in s3.list_multipart_uploads("bucket")] == ["large"]
        large = fullbore.dask.map_pipelines(client, ["head -c 70M /dev/zero"], ["s3://bucket/in"], ["s3://bucket/large"])
        assert large[0].result().bytes == 70 << 20
        s3.invalidate_cache()
        assert s3.size("bucket/large") == 70 << 20
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


NAMES = ["a b", "quote'\"", "new\nline", "{input}", "{output} $(x)", "-n", "a::b", "lock", "n" * 250 + ".tar", "\udcff"]


def test_names_are_words_and_keep_their_ends(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("in", "out"):
        (tmp_path / folder).mkdir()
    for name in NAMES:
        (tmp_path / "in" / name).write_text("text\n")
    # They are relative to the working directory of the caller, and that of the workers is another.
    monkeypatch.chdir(tmp_path)
    inputs = [os.fsencode(f"in/{name}") for name in NAMES]
    outputs = [Path("out", name) for name in NAMES]
    # cp makes the same name in the folder of the attempt, and the shell gets the names as arguments.
    text = 'cp -- "$1" "$2" && echo "${1##*/}/${2##*/}/$3" >> "$2"'
    stages = [["sh", "-c", text, "sh", "{input}", "{output}", "{name}"]]
    reports = client.gather(fullbore.dask.map_pipelines(client, stages, inputs, outputs))  # type: ignore[arg-type]
    for name in NAMES:
        made = os.fsencode(name)
        assert (tmp_path / "out" / name).read_bytes() == b"text\n" + made + b"/" + made + b"/" + made + b"\n"
    assert sorted(os.listdir(tmp_path / "out")) == sorted(NAMES) and sorted(os.listdir(tmp_path / "in")) == sorted(NAMES)
    assert f"{len(NAMES)} pipelines" in str(fullbore.dask.summary(reports))


def test_no_shell_parses_the_name_of_a_file(client: Any) -> None:
    for stage in ("sh -c 'cat {input}'", "timeout 9 /bin/bash -ec 'wc {name}'", ["env", "A=1", "zsh", "-c", "x > {output}"]):
        with pytest.raises(ValueError, match="as an argument"):
            fullbore.dask.map_pipelines(client, [stage], ["in"], ["out"])


def test_places_that_are_no_files(client: Any, tmp_path: Path) -> None:
    (source,) = inputs_in(tmp_path, 1)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    os.utime(tmp_path / "file", (1, 1))

    def made(output: str, *stages: Any, **more: Any) -> Any:
        (future,) = fullbore.dask.map_pipelines(client, stages or ["wc -l"], [source], [tmp_path / output], **more)
        return future.result()

    for output in ("folder", "fifo"):
        with pytest.raises(OSError, match="no regular file"):
            made(output)
    with pytest.raises(FileNotFoundError, match="the folder of the output is missing"):
        made("none/out")
    with pytest.raises(OSError, match="without making"):
        made("out", "true {output}")
    with pytest.raises(OSError, match="else than a regular file"):
        made("out", "mkdir {output}")
    with pytest.raises(OSError, match="changed while it was read"):
        made("out", ["touch", "-d", "now + 1 hour", source])
    with pytest.raises(ValueError, match="an input and an output"):
        fullbore.dask.map_pipelines(client, ["cat"], [source], [tmp_path / "x" / ".." / os.path.basename(source)])
    with pytest.raises(PipelineError) as failed:
        made("out", "false")
    assert source in failed.value.__notes__[0]
    assert sorted(os.listdir(tmp_path)) == sorted([os.path.basename(source), "folder", "fifo", "file", "link"])
    # As with -o of the command, a link stays, and its file is replaced.
    os.utime(source, (2, 2))
    made("link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "20000\n"
    # What is too small now is made again.
    assert made("link", at_least=6).skipped
    with pytest.raises(EOFError):
        made("link", at_least=7)


#: Runs a task, and is killed before or after its output gets its name.
DIES_AT_THE_RENAME = """
import os, signal, sys, fullbore.dask
def replace(old, new, rename=os.replace):
    if sys.argv[1]:
        rename(old, new)
    os.kill(os.getpid(), signal.SIGKILL)
os.replace = replace
fullbore.dask._run(fullbore.dask._Task(
    0, *sys.argv[2:], (("cat",),), fullbore.dask.Whole(True), 0, 1 << 20, 1.0, "newer", False))
"""


def test_two_calls_at_once_and_a_death_at_the_rename(client: Any, tmp_path: Path) -> None:
    inputs = inputs_in(tmp_path, 8)
    outputs = [f"{path}.out" for path in inputs]
    calls = [fullbore.dask.map_pipelines(client, ["cat", "sort -u"], inputs, outputs, done="never") for _ in range(3)]
    for futures in calls:
        client.gather(futures)
    assert [Path(output).read_text() for output in outputs] == [f"line {number}\n" for number in range(8)]
    assert attempts_in(tmp_path) == []
    for is_renamed in (False, True):
        output = str(tmp_path / f"killed {is_renamed}")
        values = (0, inputs[0], output, (("cat",),), fullbore.dask.Whole(True), 0, 1 << 20, 1.0, "newer", False)
        dies = [sys.executable, "-c", DIES_AT_THE_RENAME, "x" * is_renamed, *values[1:3]]
        assert subprocess.run(dies).returncode == -signal.SIGKILL
        assert os.path.exists(output) == is_renamed and attempts_in(tmp_path) != []
        report = fullbore.dask._run(fullbore.dask._Task(*values))  # type: ignore[arg-type]
        assert report.skipped == is_renamed and report.bytes == os.stat(inputs[0]).st_size
        fullbore.dask.clean([output])
        assert attempts_in(tmp_path) == []


class Endless:
    """A file system with an input that does not end."""

    protocol = "endless"

    def __init__(self) -> None:
        import fsspec.implementations.memory as memory

        closed = self.closed = threading.Event()
        opened = self.opened = threading.Event()

        class File:
            def read(self, size: int) -> bytes:
                opened.set()
                time.sleep(0.001)
                return b"x"

            def __enter__(self) -> "File":
                return self

            def __exit__(self, *_: object) -> None:
                closed.set()

        class System(memory.MemoryFileSystem):  # type: ignore[misc]
            protocol = "endless"

            def open(self, *_: Any, **__: Any) -> File:
                return File()

        self.system = System


def test_bench_runs_once_on_a_machine(client: Any) -> None:
    run = json.loads(fullbore.dask.bench(client, "ladder/write_read", "--rounds", "1", "--seconds", "0.01"))
    assert [found["name"] for found in run["experiments"]] == ["write_read"]
    # Two machines: each worker says that it is on one of its own.
    machine = fullbore.dask._machine
    try:
        fullbore.dask._machine = _another_machine
        compared = fullbore.dask.bench(client, "ladder/write_read", "--rounds", "1", "--seconds", "0.01")
    finally:
        fullbore.dask._machine = machine
    assert "write_read" in compared and "host-1" in compared


def _another_machine() -> tuple[str, str]:
    return str(os.getpid()), "host"


def test_memory_and_workers_in_this_process(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    endless = Endless()
    fsspec.register_implementation("endless", endless.system, clobber=True)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0", silence_logs=50
    )
    seconds = f"7{random.randrange(10**6)}"
    with cluster, distributed.Client(cluster) as client:
        urls = [f"memory://bucket/{number}.txt" for number in range(20)]
        for number, url in enumerate(urls):
            memory.pipe(url, f"{number}\n".encode() * number)
        outputs = [f"{url}.out" for url in urls]
        for skipped in (False, True):
            reports = client.gather(fullbore.dask.map_pipelines(client, ["cat {input}", "cat"], urls, outputs))
            assert [report.skipped for report in reports] == [skipped] * 20
            assert [report.bytes for report in reports] == [memory.size(url) for url in urls]
        assert all(memory.cat(url) == memory.cat(output) for url, output in zip(urls, outputs))
        with pytest.raises(PipelineError):
            client.gather(fullbore.dask.map_pipelines(client, ["cat", "false"], urls[:1], ["memory://bucket/none"]))
        assert not memory.exists("memory://bucket/none")
        # Cancelled while it is downloaded.
        futures = fullbore.dask.map_pipelines(client, ["cat"], ["endless://x"], [tmp_path / "out"])
        endless.opened.wait(LIMIT)
        client.cancel(futures)
        assert endless.closed.wait(LIMIT)
        # The threads of these workers do not die with them.
        futures = fullbore.dask.map_pipelines(client, [f"sleep {seconds}"], urls[:1], [tmp_path / "out"])
        wait_until(lambda: is_running(f"sleep {seconds}"))
    wait_until(lambda: not is_running(f"sleep {seconds}"))
    wait_until(lambda: os.listdir(tmp_path) == [])


def test_resources_are_those_of_dask(tmp_path: Path) -> None:
    inputs = inputs_in(tmp_path, 6)
    outputs = [f"{path}.out" for path in inputs]
    # mkdir(1) fails if two run at the same time.
    alone = ["sh", "-c", 'mkdir "$1" || exit 9; cat; sleep 0.05; rmdir "$1"', "sh", str(tmp_path / "drive")]
    cluster = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=4,
        processes=False,
        resources={"DRIVE": 1},
        dashboard_address="127.0.0.1:0",
        silence_logs=50,
    )
    with cluster, distributed.Client(cluster) as client:
        client.gather(fullbore.dask.map_pipelines(client, [alone], inputs, outputs, resources={"DRIVE": 1}))
    assert [Path(output).read_bytes() for output in outputs] == [Path(source).read_bytes() for source in inputs]
