"""What stands for `python` beside a server of :mod:`forked_python`: it has its call run there.

It ends as the forked process ends. Started without site-packages, in some hundredths of a second.
"""

import json
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def inherited() -> list[int]:
    """Return the open files that a program started here would have."""
    files = []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            files += [number] if os.get_inheritable(number) else []
        except OSError:  # the listing's own
            continue
    return files


def main() -> None:
    if sys.argv[1:2] not in (["-m"], ["-c"]):
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    files = inherited()
    server = socket.socket(socket.AF_UNIX)
    server.connect(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "socket"))
    socket.send_fds(server, [b"."], files)
    call = [sys.argv[1:], os.getcwd(), dict(os.environ), files]
    server.sendall(json.dumps(call).encode())
    server.shutdown(socket.SHUT_WR)
    answer = server.makefile()
    process = int(answer.readline())
    for number in FORWARDED:
        signal.signal(number, lambda received, _: os.kill(process, received))
    code = int(answer.readline())
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
