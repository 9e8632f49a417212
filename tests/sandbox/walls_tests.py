# sockets: of this machine alone
for family in (socket.AF_INET, socket.AF_INET6, 16, 17, 40, 38):
    assert error_of(socket.socket, family, socket.SOCK_RAW if family > 10 else 1) == EAFNOSUPPORT
assert error_of(socket.socket(socket.AF_UNIX).connect, "\0/tmp/.X11-unix/X0") == 111
with open("/proc/net/dev") as f:
    assert [line.split(":")[0].strip() for line in f][2:] == ["lo"]

# namespaces and mounts
for flag in (0x10000000, 0x20000000, 0x00020000, 0x40000000, 0x08000000, 0x04000000, 0x02000000):
    assert call("unshare", flag) == EPERM
    assert os.uname().machine != "x86_64" or syscall(56, flag | 17, 0) == EPERM
assert syscall(435, 0, 0) == ENOSYS
assert call("mount", b"none", b"/tmp", b"tmpfs", 0, b"") == EPERM
assert call("umount2", b"/tmp", 2) == EPERM
assert call("setns", 0, 0) == EPERM
assert syscall(428, -100, 0, 0) == EPERM  # open_tree
assert syscall(430, 0, 0) == EPERM  # fsopen

# other processes
assert call("ptrace", 16, 1, 0, 0) == EPERM
assert call("process_vm_readv", 1, 0, 0, 0, 0, 0) == EPERM
assert os.getpid() == 1 and os.getppid() == 0
assert error_of(os.kill, 2, 9) == 3
own = str(os.readlink("/proc/self"))
for pid in [p for p in os.listdir("/proc") if p.isdigit() and p != own]:
    for name in ("mem", "environ", "maps", "fd/0", "cwd"):
        path = "/proc/%s/%s" % (pid, name)
        look = os.readlink if "fd" in name or name == "cwd" else open
        assert error_of(look, path) in (EACCES, EPERM, 2), path

# the kernel's large attack surfaces, keys, memory that outlives its mappings
for number in (425, 321, 298, 323, 319, 320, 250, 248) if os.uname().machine == "x86_64" else ():
    assert syscall(number, 0, 0, 0, 0, 0) == EPERM, number
for name in ("shmget", "msgget", "semget"):
    assert call(name, 0, 4096, 0o1600) == EPERM, name
assert call("personality", 0) == EPERM
r, w = os.pipe()
assert call("ioctl", 0, 0x5412, b"x") == EPERM and call("ioctl", 0, 0x541C, b"x") == EPERM

# privileges
now = status()
assert all(int(now[name], 16) == 0 for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"))
assert now["NoNewPrivs"] == "1" and now["Seccomp"] == "2"
assert os.getuid() != 0 and os.geteuid() != 0
assert error_of(os.setuid, 0) in (EPERM, 22)

# files: visible ones, and writable ones
assert not set(os.listdir("/")) & {"root", "home", "work", "var", "mnt", "opt", "srv", "sys"}
assert set(os.listdir("/etc") if os.path.exists("/etc") else []) <= {"alternatives", "ld.so.cache"}
for folder in ("/", "/dev", "/usr", "/usr/lib", "/sandbox", "/etc", "/proc", "/proc/sys/kernel"):
    if os.path.exists(folder):
        made = error_of(os.open, folder + "/left", os.O_WRONLY | os.O_CREAT)
        assert made in (EROFS, EACCES, 2), folder
assert error_of(open, "/sandbox/guest.so", "ab") in (EROFS, EACCES)
assert error_of(os.chmod, "/sandbox/zygote.py", 0o777) == EROFS
assert error_of(open, "/proc/sys/kernel/hostname", "w") in (EROFS, EACCES)
assert sorted(os.listdir("/tmp")) == [] and sorted(os.listdir("/dev/shm")) == []
assert os.statvfs("/tmp").f_blocks * os.statvfs("/tmp").f_frsize <= 16 << 20
assert set(os.environ) <= {"PATH", "HOME", "LC_ALL", "TZ", "SOURCE_DATE_EPOCH", "PYTHONHASHSEED",
                           "PYTHONDONTWRITEBYTECODE", "PWD"}
assert len(os.listdir("/proc/self/fd")) <= 4 + 2 + 1

# limits
for name, most in (("CPU", 2), ("AS", 512 << 20), ("FSIZE", 1 << 20), ("NOFILE", 64), ("NPROC", 32),
                   ("CORE", 0), ("STACK", 8 << 20), ("MSGQUEUE", 0), ("MEMLOCK", 0)):
    assert resource.getrlimit(getattr(resource, "RLIMIT_" + name)) == (most, most), name
assert os.getpriority(os.PRIO_PROCESS, 0) >= 5

# leftovers
with open("/tmp/left", "w") as f:
    f.write("x")
with open("/dev/shm/left", "w") as f:
    f.write("x")
