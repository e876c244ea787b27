"""Ends of pipelines as programs in Python have them. PROGRAM is a command line for the shell.

write FILE                 write a file to stdout
read                       count the bytes and the lines of stdin
from KIND FILE PROGRAM     give a program a socket as stdin, and write a file into the other end
into KIND PROGRAM          give a program a socket as stdout, and count what arrives at the other end
KIND is unix or tcp (over the loopback interface).
"""

import os
import shutil
import socket
import subprocess
import sys


def pair(kind):
    if kind == "unix":
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        return near, server.accept()[0]


def count(read):
    count = lines = 0
    while block := read(1 << 16):
        count += len(block)
        lines += block.count(b"\n")
    print(count, lines)


def main(verb, *words):
    if verb == "write":
        with open(words[0], "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        return 0
    if verb == "read":
        count(sys.stdin.buffer.read1)
        return 0
    near, far = pair(words[0])
    line = " ".join(words[2:] if verb == "from" else words[1:])
    if verb == "into":
        with subprocess.Popen(["sh", "-c", "exec " + line], stdout=far) as program:
            far.close()
            count(near.recv)
            return program.wait()
    with subprocess.Popen(["sh", "-c", "exec " + line], stdin=far) as program:
        far.close()
        with open(words[1], "rb") as file:
            while block := file.read(1 << 16):
                near.sendall(block)
        near.close()
        return program.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
