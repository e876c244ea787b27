"""Pipeline with whole, output, accept, at_least and stalled; copy with atomic and at_least."""

import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fullbore
from conftest import LIMIT, wait_until
from fullbore import PIPE, Pipeline, PipelineError


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def test_no_stage_sees_an_end_that_a_failure_caused(tmp_path: Path) -> None:
    up, marker = tmp_path / "up", tmp_path / "marker"
    behind = sh(f"cat > '{up}'; echo committed > '{marker}'")
    with pytest.raises(PipelineError, match="stage 1 of 2 .* exited with 3") as error:
        with Pipeline([sh("echo part; exit 3"), behind], whole=True, check=True) as p:
            p.wait()
    assert (error.value.stage, error.value.returncode) == (1, 3)
    assert p.returncode == 3 and p.returncodes[0] == 3 and p.returncodes[1] in (-15, 143)
    assert not marker.exists()
    with Pipeline([sh("echo all"), behind], whole=True, check=True) as p:
        pass
    assert (p.returncodes, marker.read_text(), up.read_text()) == ([0, 0], "committed\n", "all\n")
    assert [stage.exit_code for stage in p.report().stages] == [0, 0]


def test_the_output_is_replaced_when_all_have_succeeded(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("old\n")
    with pytest.raises(PipelineError):
        Pipeline([sh("seq 3; exit 7"), "cat"], output=out, check=True).wait()
    assert out.read_text() == "old\n"
    # Relative to this process, and the stages run elsewhere.
    here = os.path.relpath(out)
    assert Pipeline(["pwd", ["sed", "s|^|in |"]], output=here, cwd="/").wait() == 0
    assert out.read_text() == "in /\n"
    with Pipeline([["printf", "%s.", "|", "a b", "$HOME", "é"], "cat"], output=out, check=True):
        pass
    assert out.read_text() == "|.a b.$HOME.é."
    assert os.listdir(tmp_path) == ["out"]


def test_accepted_failures(tmp_path: Path) -> None:
    out = tmp_path / "out"
    grep = ["grep", "none", "/dev/null"]
    assert Pipeline([grep, "cat"], output=out).wait() == 1
    for accept in ({"grep": 1}, {1: [1, 3]}):
        with Pipeline([grep, "cat"], output=out, accept=accept, check=True) as p:
            pass
        assert (p.returncode, p.returncodes) == (0, [1, 0])
    handles = [sys.executable, "-c", "import sys\ntry:\n while 1: print('y' * 99)\nexcept OSError: sys.exit(4)"]
    with Pipeline([handles, "head -n 1"], output=out, accept={1: "early"}, check=True) as p:
        pass
    for wrong, kind in [({"a": 0}, ValueError), ({"a": []}, ValueError), ({1.5: 1}, TypeError), ({1: "late"}, ValueError)]:
        with pytest.raises(kind):
            Pipeline(["true"], accept=wrong)  # type: ignore[arg-type]
    # No stage is called so.
    assert Pipeline(["true"], accept={"tar": 1}).wait() == 2


def test_an_empty_stream_replaces_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("old\n")
    with pytest.raises(PipelineError) as error:
        Pipeline(["true", "cat"], output=out, at_least=1, check=True).wait()
    assert error.value.stage == 0 and "true | cat" in str(error.value)
    assert out.read_text() == "old\n"
    Pipeline(["echo x", "cat"], output=out, at_least="1", check=True).wait()
    assert out.read_text() == "x\n"
    with pytest.raises(ValueError, match="needs an output"):
        Pipeline(["true"], at_least=1)


def test_a_stall_ends_the_pipeline(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    stages = [sh("echo x; exec sleep 600"), sh(f"cat > /dev/null; echo committed > '{marker}'")]
    began = time.monotonic()
    with pytest.raises(PipelineError):
        Pipeline(stages, whole=True, stalled=1, check=True).wait(timeout=LIMIT)
    assert time.monotonic() - began < LIMIT and not marker.exists()
    with pytest.raises(ValueError):
        Pipeline(["true"], stalled=0)


def test_an_exception_in_the_block_causes_no_end(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    stages = [sh("echo x; exec sleep 600"), sh(f"cat > /dev/null; echo committed > '{marker}'")]
    with pytest.raises(KeyError):
        with Pipeline(stages, whole=True):
            raise KeyError
    assert not marker.exists()
    p = Pipeline(stages, whole=True)
    p.terminate()
    assert p.wait(timeout=LIMIT) != 0 and not marker.exists()


def test_what_cannot_be_whole_is_refused() -> None:
    with pytest.raises(ValueError, match="stdin=PIPE"):
        Pipeline(["cat"], stdin=PIPE, whole=True)
    with pytest.raises(ValueError, match="exclude each other"):
        Pipeline(["cat"], stdout=PIPE, output="x")
    with Pipeline(["echo out", "cat"], stdout=PIPE, whole=True, check=True) as p:
        assert p.stdout.read() == b"out\n"


def test_a_whole_pipeline_outlives_no_failure_of_its_parent(tmp_path: Path) -> None:
    """Python is killed: the pipeline goes on or is ended, but no stage sees an end that this causes."""
    marker = tmp_path / "marker"
    program = (
        "import fullbore, signal, os\n"
        f"p = fullbore.Pipeline([['sh', '-c', 'echo x; exec sleep 600'], ['sh', '-c', 'cat; echo y > {marker}']],"
        " whole=True)\nprint(p.pids[0], flush=True)\nsignal.pause()"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    assert not marker.exists()
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    assert not marker.exists()
    parent.stdout.close()


def test_random_pipelines_leave_no_marker(tmp_path: Path) -> None:
    """The tests of `run` have more of these: here are those that Python starts."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for number in range(12):
        marker, out = tmp_path / f"marker{number}", tmp_path / f"out{number}"
        count = rng.randrange(2, 5)
        broken = rng.randrange(count)
        stages = []
        for at in range(count):
            copies = "head -c 100000 /dev/zero" if at == 0 else "cat"
            fails = rng.choice(["exit 3", "kill -9 $$", "kill -15 $$"]) if at == broken else ":"
            commits = f"echo committed > '{marker}'" if at > broken else ":"
            stages.append(sh(f"{copies}; {fails}; {commits}"))
        with pytest.raises(PipelineError) as error:
            Pipeline(stages, output=out, check=True, grace=rng.choice([0.0, 2.0])).wait(timeout=LIMIT)
        assert error.value.stage == broken + 1, error.value
        assert not marker.exists() and not out.exists()


def test_an_atomic_copy_is_complete_or_not_there(tmp_path: Path) -> None:
    source, sink = tmp_path / "source", tmp_path / "sink"
    source.write_bytes(b"new" * 100_000)
    assert fullbore.copy(source, sink, atomic=True).bytes == 300_000
    os.chmod(sink, 0o640)
    link = tmp_path / "link"
    link.symlink_to("sink")
    fullbore.copy(source, link, atomic=True, limit=3)
    assert sink.read_bytes() == b"new" and link.is_symlink()
    assert stat.S_IMODE(sink.stat().st_mode) == 0o640
    # The sink is also the source.
    fullbore.copy(sink, sink, atomic=True)
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(EOFError, match="at_least is 1") as error:
        fullbore.copy(empty, sink, atomic=True, at_least=1)
    assert error.value.report.bytes == 0 and sink.read_bytes() == b"new"  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="atomic=True"):
        fullbore.copy(source, sink, at_least=1)

    def fail(_: int) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        fullbore.copy(source, sink, atomic=True, progress=fail)
    assert sink.read_bytes() == b"new"
    for wrong in (tmp_path, f"{sink}/", tmp_path / "none" / "x", "/dev/null", f"{tmp_path}/new/."):
        with pytest.raises(OSError):
            fullbore.copy(source, wrong, atomic=True)
    with pytest.raises(ValueError, match="open descriptor"):
        fullbore.copy(source, "/dev/stdout", atomic=True)
    with pytest.raises(TypeError, match="needs a path"):
        fullbore.copy(source, 1, atomic=True)
    assert sorted(os.listdir(tmp_path)) == ["empty", "link", "sink", "source"]
