import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(b' '.join(line.split(b' ')[:4]) + b'\n')
