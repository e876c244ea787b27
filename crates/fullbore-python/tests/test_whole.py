"""Pipeline with whole, output, accept, at_least and stalled; copy with atomic and at_least."""

import gc
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        Pipeline(["cat"], stdout=PIPE, output="x")
    with Pipeline(["echo out", "cat"], stdout=PIPE, whole=True, check=True) as p:
        assert p.stdout.read() == b"out\n"


@pytest.mark.parametrize("text", [False, True])
def test_only_a_close_is_the_end_of_stdin(tmp_path: Path, text: bool) -> None:
    up, marker = tmp_path / "up", tmp_path / "marker"
    stages = [sh(f"cat; echo 1 >> '{marker}'"), sh(f"cat > '{up}'; echo 2 >> '{marker}'")]

    def start() -> Pipeline:
        return Pipeline(stages, stdin=PIPE, whole=True, check=True, text=text, grace=0.1)

    data: Any = "é" * 100_000 if text else b"x" * 300_000

    def is_complete() -> None:
        assert up.stat().st_size == len(data.encode() if text else data)
        assert marker.read_text() == "1\n2\n"
        marker.unlink()

    with start() as p:
        p.stdin.write(data)
    is_complete()
    p = start()
    p.communicate(data)
    is_complete()
    with start() as p:
        with p.stdin as stdin:
            stdin.write(data)
        assert p.wait(timeout=LIMIT) == 0
    is_complete()
    # It is not complete.
    with pytest.raises(KeyError):
        with start() as p:
            p.stdin.write(data)
            raise KeyError
    assert not marker.exists()
    with pytest.raises(KeyError):
        with start() as p:
            with p.stdin as stdin:
                stdin.write(data)
                raise KeyError
    assert not marker.exists()
    p = start()
    pid = p.pids[0]
    p.stdin.write(data)
    del p
    gc.collect()
    os.waitpid(pid, 0)
    assert not marker.exists()
    # Stages that read no further than they have to, and one that fails.
    with Pipeline([["head", "-c", "3"], "cat"], stdin=PIPE, stdout=PIPE, whole=True, check=True) as p:
        p.stdin.write(b"abcdef")
        p.stdin.flush()
        assert p.stdout.read() == b"abc"
    with pytest.raises(PipelineError) as error:
        with Pipeline([sh("read x; exit 3"), sh(f"cat; echo 2 >> '{marker}'")], stdin=PIPE, whole=True, check=True) as p:
            p.stdin.write(b"a\n")
    assert error.value.stage == 1 and not marker.exists()


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


#: What stages behind the first one are: each notes it if it sees an end of its input. What `root` starts may not be
#: signalled if an ordinary user runs the pipeline. What goes on after its child has ended does not write to the next stage,
#: because a broken pipe is no end.
SCRIPTS = {
    "cat": "cat && echo $1 >> seen",
    "list": "(cat > /dev/null; true); echo $1 >> seen",
    "tee": "tee >(cat > /dev/null; echo $1 >> seen) > /dev/null && echo $1 >> seen",
    "ignores": "trap '' PIPE; cat && echo $1 >> seen",
    "root": "echo $$ >> roots; cat > /dev/null; echo $1 >> seen",
}

#: How Python runs a pipeline: its words are the folder, the stages, the options, and what happens then.
PROGRAM = """
import ast, os, signal, sys, time
import fullbore
stages, options, event = map(ast.literal_eval, sys.argv[1:])
if event == "stdin":
    options["stdin"] = fullbore.PIPE
try:
    with fullbore.Pipeline(stages, stdout=fullbore.DEVNULL, check=True, grace=0.05, **options) as p:
        print("started", flush=True)
        if event == "stdin":
            while True:
                p.stdin.write(b"x" * 999)
                p.stdin.flush()
        if event == "raise":
            time.sleep(options.get("delay", 0.01))
            raise KeyError
except fullbore.PipelineError as error:
    sys.exit(error.returncode if error.returncode > 0 else 128 - error.returncode)
except KeyError:
    sys.exit(99)
"""


def becomes_root(folder: Path) -> bool:
    """Makes setpriv with the set-user-ID bit, which is what sudo is, and says whether that works here."""
    found = shutil.which("setpriv")
    if os.geteuid() != 0 or found is None:
        return False
    shutil.copy(found, folder / "become")
    os.chmod(folder / "become", 0o4755)
    become = [str(folder / "become"), "--reuid=0", "--regid=0", "--clear-groups", "true"]
    return subprocess.run([found, "--reuid=65534", "--regid=65534", "--clear-groups", *become], check=False).returncode == 0


def stops(pid: str) -> bool:
    """Stops a process, and says whether it has stopped or ended."""
    os.kill(int(pid), signal.SIGSTOP)
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TtZX"


def end_roots(folder: Path) -> None:
    """Ends the processes that only root may signal: each shell before its child."""
    roots = folder / "roots"
    for pid in roots.read_text().split() if roots.exists() else []:
        if not is_in(pid, folder):
            continue
        try:
            # It may be about to start its child.
            wait_until(lambda: stops(pid))
            below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for one in (pid, *below):
                os.kill(int(one), signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            pass


def test_random_pipelines_leave_no_marker() -> None:
    """As the random pipelines in crates/fullbore-cli/tests/load/run_whole.rs, started by Python: one of the stages fails or
    stalls or has read enough, or Python raises an exception or is ended at a random moment. FULLBORE_TEST_PIPELINES is how
    many there are."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    # Every user may look into this one.
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        for script, text in SCRIPTS.items():
            (folder / script).write_text(text)
        kinds = ["cat", "list", "tee", "ignores"]
        as_user: list[str] = []
        if becomes_root(folder) and is_for_everybody(as_user := ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]):
            kinds.append("root")
        else:
            as_user = []
        for number in range(int(os.environ.get("FULLBORE_TEST_PIPELINES", "12"))):
            random_pipeline(rng, folder, kinds, as_user, number)


def is_for_everybody(as_user: list[str]) -> bool:
    """Whether another user may import the package and run the command."""
    tried = [*as_user, sys.executable, "-c", "from fullbore._whole import command; command()"]
    return subprocess.run(tried, check=False, capture_output=True).returncode == 0


def random_pipeline(rng: random.Random, folder: Path, kinds: list[str], as_user: list[str], number: int) -> None:
    count = rng.randrange(1, 5)
    behind: list[list[str]] = []
    for at in range(count):
        kind = rng.choice(kinds)
        become = ["./become", "--reuid=0", "--regid=0", "--clear-groups"] if kind == "root" else []
        behind.append([*become, "bash" if kind == "tee" else "sh", kind, str(at)])
    event = rng.choice(["fail", "fail", "early", "stall", "raise", "kill", "kill", "term", "stdin"])
    size = rng.randrange(300_000)
    first = {
        "fail": f"head -c {size} /dev/zero; " + rng.choice(["exit 3", "kill -9 $$", "kill -15 $$"]),
        "early": "trap '' PIPE; while echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; do :; done 2> /dev/null; exit 7",
        "stdin": "cat",
    }.get(event, "echo x; exec sleep 1000")
    stages = [["sh", "-c", first], *behind]
    options: dict[str, Any] = {"whole": True}
    if event == "early":
        stages.insert(1, ["head", "-c", str(rng.randrange(1, size + 2))])
        stages = stages[:2] + [stage for stage in stages[2:] if stage[-2] != "root"]
        options["accept"] = {1: "early"}
    if event == "stall":
        options = {"whole": rng.random() < 0.5, "stalled": 0.3}
    what = (number, stages, event)
    ignores_sigpipe = ["sh", "-c", "trap '' PIPE; exec \"$@\"", "sh"] if rng.random() < 0.5 else []
    program = [*ignores_sigpipe, *as_user, sys.executable, "-c", PROGRAM]
    python = subprocess.Popen(
        [*program, repr(stages), repr(options), repr(event)], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert python.stdout is not None
    started = python.stdout.readline()
    python.stdout.close()
    assert started, what
    if event in ("kill", "term", "stdin"):
        time.sleep(rng.random() * 0.03)
        python.send_signal(signal.SIGTERM if event == "term" else signal.SIGKILL)
    # The command is a child of Python, and the holder, which ends last, is one of the command.
    code = python.wait(LIMIT)
    seen = folder / "seen"
    if event == "early":
        assert code == 0 and seen.exists() == (len(stages) > 2), what
        seen.unlink(missing_ok=True)
        return
    assert code != 0 and not seen.exists(), what

    def has_ended() -> bool:
        end_roots(folder)
        # What was started during the first look by a process that has ended since is seen by the second.
        return not any(is_in(pid, folder) for _ in range(2) for pid in os.listdir("/proc") if pid.isdigit())

    wait_until(has_ended)
    assert not seen.exists(), what


def is_in(pid: str, folder: Path) -> bool:
    """Whether a process, but for one that has ended, runs in a folder."""
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(folder)
    except OSError:
        return False


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
