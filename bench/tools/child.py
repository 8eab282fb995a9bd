"""Run one command and write what it took: wall seconds, CPU seconds, peak KiB, exit code. Small on purpose, and so imports nothing.

A process that is started has the memory of who starts it as its first peak, and Linux keeps that over ``exec``.
"""

import os
import sys
import time

report, command = int(sys.argv[1]), sys.argv[2:]
os.set_inheritable(report, False)
started = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawnp(command[0], command, os.environ), 0)
taken = time.perf_counter() - started
os.write(report, f"{taken} {usage.ru_utime + usage.ru_stime} {usage.ru_maxrss} {os.waitstatus_to_exitcode(status)}".encode())
