"""walls.py - runs in the sandbox as a program: each test fails if a wall is missing."""
import ctypes
import os
import resource
import socket

libc = ctypes.CDLL(None, use_errno=True)
EPERM, EACCES, ENOSYS, EROFS, EAFNOSUPPORT = 1, 13, 38, 30, 97


def call(name, *args):
    """The errno of a C library function; 0 if it succeeds."""
    return ctypes.get_errno() if getattr(libc, name)(*args) == -1 else 0


def syscall(number, *args):
    return call("syscall", ctypes.c_long(number), *map(ctypes.c_long, args))


def error_of(f, *args):
    try:
        f(*args)
    except OSError as e:
        return e.errno
    return 0


def status():
    with open("/proc/self/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
