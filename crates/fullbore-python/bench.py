"""Measures fullbore against the standard library, and prints the table of the README: python bench.py

Each row compares two ways to do the same job in the same pipeline, in interleaved rounds, and shows the
medians. Install a wheel that was built with --release first.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

MIB = 1 << 20

#: Fast jobs move this many times as many bytes, so that the time to start Python and import numpy is negligible.
MORE = 4

#: Reads its stdin with read(2), and discards the bytes.
READER = "import os\nb = bytearray(1 << 20)\nf = open(0, 'rb', buffering=0)\nwhile f.readinto(b): pass"

#: Discards its stdin without copying it.
DROPPER = "import os\nnull = os.open(os.devnull, os.O_WRONLY)\nwhile os.splice(0, null, 1 << 20): pass"

#: Writes 1 MiB pieces with write(2).
WRITER = "import os\ndata = bytes(1 << 20)\nfor _ in range(COUNT): os.write(1, data)"

WRITERS = {
    "sys.stdout.buffer.write": """
import sys
data = bytes(1 << 20)
write = sys.stdout.buffer.write
for _ in range(COUNT): write(data)
sys.stdout.buffer.flush()
""",
    "Producer.write": """
import sys, fullbore
data = bytes(1 << 20)
with fullbore.Producer(sys.stdout.buffer) as out:
    write = out.write
    for _ in range(COUNT): write(data)
""",
    "numpy, Producer.write": """
import sys, fullbore, numpy
array = numpy.empty((1 << 19) // 8, numpy.uint64)
with fullbore.Producer(sys.stdout.buffer) as out:
    for i in range(COUNT * 2):
        array[:] = i
        out.write(array)
""",
    "numpy, reserve and commit": """
import sys, fullbore, numpy
with fullbore.Producer(sys.stdout.buffer) as out:
    for i in range(COUNT * 2):
        numpy.frombuffer(out.reserve(1 << 19), numpy.uint64)[:] = i
        out.commit(1 << 19)
""",
}

COPIERS = {
    "shutil.copyfileobj": """
import shutil, sys
shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)
sys.stdout.buffer.flush()
""",
    "fullbore.copy": """
import sys, fullbore
fullbore.copy(sys.stdin.buffer, sys.stdout.buffer)
""",
    "grow the source, fullbore.copy": """
import sys, fullbore
fullbore.grow(sys.stdin.buffer, "1M")
fullbore.copy(sys.stdin.buffer, sys.stdout.buffer)
""",
    "grow the source, copy by reference": """
import sys, fullbore
fullbore.grow(sys.stdin.buffer, "1M")
fullbore.copy(sys.stdin.buffer, sys.stdout.buffer, "reference")
""",
}

LINES = {
    "sys.stdin.buffer": "import sys\nn = 0\nfor line in sys.stdin.buffer: n += 1",
    "Consumer": "import sys, fullbore\nn = 0\nfor line in fullbore.Consumer(sys.stdin.buffer): n += 1",
}


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Returns the seconds that a call takes, and the CPU seconds of its processes."""

    def cpu() -> float:
        total = 0.0
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            used = resource.getrusage(who)
            total += used.ru_utime + used.ru_stime
        return total

    before, began = cpu(), time.perf_counter()
    run()
    return time.perf_counter() - began, cpu() - before


def python(program: str, **more: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program], **more)  # type: ignore[call-overload,no-any-return]


def finish(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        if process.wait() != 0:
            sys.exit(f"{process.args!r} failed")


def pipeline(*programs: str) -> None:
    """Runs these programs in a pipeline, with the default pipes of subprocess."""
    stages: list[subprocess.Popen[bytes]] = []
    for program in programs:
        before = stages[-1].stdout if stages else None
        stages.append(
            python(program, stdin=before, stdout=subprocess.PIPE if len(stages) + 1 < len(programs) else None)
        )
        if before:
            before.close()
    finish(*stages)


def with_popen(path: str) -> None:
    cat = subprocess.Popen(["cat", path], stdout=subprocess.PIPE)
    wc = subprocess.Popen(["wc", "-l"], stdin=cat.stdout, stdout=subprocess.DEVNULL)
    assert cat.stdout
    cat.stdout.close()
    finish(cat, wc)


def with_pipeline(path: str, watch: bool = True) -> None:
    import fullbore

    with fullbore.Pipeline([["cat", path], "wc -l"], stdout=fullbore.DEVNULL, check=True, watch=watch) as p:
        p.wait()


def between_files(copy: Callable[[str, str], object], folder: str) -> None:
    sink = os.path.join(folder, "copy")
    copy(os.path.join(folder, "big"), sink)
    os.unlink(sink)


def copyfileobj(source: str, sink: str) -> None:
    with open(source, "rb") as one, open(sink, "wb") as other:
        shutil.copyfileobj(one, other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=1024, help="bytes of each job, in MiB")
    parser.add_argument("--folder", help="where the files are (default: the folder for temporary files)")
    options = parser.parse_args()
    import fullbore

    mib = options.mib
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        big = os.path.join(folder, "big")
        line = b"a line of sixty-three bytes, as they may be in some log file  \n"
        with open(big, "wb") as file:
            for _ in range(mib):
                file.write(line * (MIB // len(line)))

        def writers(reader: str, *, numpy: bool) -> dict[str, Callable[[], object]]:
            return {
                name.removeprefix("numpy, "): lambda p=text: pipeline(of_size(p, MORE), reader)  # type: ignore[misc]
                for name, text in WRITERS.items()
                if name.startswith("numpy") == numpy
            }

        def copiers(writer: str, reader: str, more: int) -> dict[str, Callable[[], object]]:
            return {name: lambda p=text: pipeline(of_size(writer, more), p, reader) for name, text in COPIERS.items()}  # type: ignore[misc]

        def of_size(program: str, more: int) -> str:
            return program.replace("COUNT", str(more * mib))

        # (job, multiple of the bytes, {way: call}); the reference way is first.
        jobs: list[tuple[str, int, dict[str, Callable[[], object]]]] = [
            ("write 1 MiB pieces into a pipe", MORE, writers(READER, numpy=False)),
            ("the same, to a reader that does not copy", MORE, writers(DROPPER, numpy=False)),
            ("fill with numpy, into a pipe", MORE, writers(READER, numpy=True)),
            ("the same, to a reader that does not copy", MORE, writers(DROPPER, numpy=True)),
            ("copy from pipe to pipe", 1, copiers(WRITER, READER, 1)),
            ("the same, between programs that do not copy", MORE, copiers(WRITERS["Producer.write"], DROPPER, MORE)),
            (
                "copy from file to file",
                1,
                {
                    "shutil.copyfileobj": lambda: between_files(copyfileobj, folder),
                    "fullbore.copy": lambda: between_files(fullbore.copy, folder),
                },
            ),
            (
                "read lines of 63 bytes from a pipe",
                1,
                {
                    name: lambda p=text: finish(  # type: ignore[misc]
                        python(p, stdin=subprocess.Popen(["cat", big], stdout=subprocess.PIPE).stdout)
                    )
                    for name, text in LINES.items()
                },
            ),
            (
                "cat big | wc -l",
                1,
                {
                    "subprocess.Popen": lambda: with_popen(big),
                    "Pipeline": lambda: with_pipeline(big),
                    "Pipeline(watch=False)": lambda: with_pipeline(big, watch=False),
                },
            ),
        ]
        print("| job | way | GiB/s | CPU s/GiB | times |\n|---|---|---|---|---|")
        for job, more, ways in jobs:
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
            for turn in range(options.rounds):
                names = list(ways) if turn % 2 == 0 else list(ways)[::-1]
                for name in names:
                    found[name].append(timed(ways[name]))
            gib = mib / 1024 * more
            first = statistics.median(seconds for seconds, _ in next(iter(found.values())))
            for name, rounds in found.items():
                seconds = statistics.median(one for one, _ in rounds)
                cpu = statistics.median(one for _, one in rounds)
                print(
                    f"| {job} | `{name}` | {gib / seconds:.2f} | {cpu / gib:.2f} | {first / seconds:.2f} |",
                    flush=True,
                )
    loaded = [timed_import() for _ in range(11)]
    print(f"\n`import fullbore` takes {statistics.median(loaded) * 1000:.1f} ms.")


def timed_import() -> float:
    program = "import time; t = time.perf_counter(); import fullbore; print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)


if __name__ == "__main__":
    main()
