/* filter.c - the system calls that a variant may not make: those that widen the kernel's surface,
 * inspect other processes, keep memory that no limit counts, or reach out. */
#include "sandbox/sandbox_parts.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Rejected with EPERM.  Names unknown to this libseccomp belong to newer kernels: they are
 * skipped. */
static const char *const refused[] = {
    /* namespaces and mounts */
    "unshare", "setns", "mount", "umount", "umount2", "pivot_root", "chroot", "fsopen", "fsmount",
    "fsconfig", "fspick", "move_mount", "open_tree", "open_tree_attr", "mount_setattr",
    /* other processes */
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease",
    "kcmp", "pidfd_getfd",
    /* wide surfaces */
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "fanotify_init", "lookup_dcookie", "modify_ldt", "landlock_add_rule",
    /* keys, handles, modules, the machine */
    "keyctl", "add_key", "request_key", "name_to_handle_at", "open_by_handle_at", "init_module",
    "finit_module", "delete_module", "create_module", "kexec_load", "kexec_file_load", "reboot",
    "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "personality", "syslog", "iopl",
    "ioperm", "settimeofday", "clock_settime", "clock_settime64", "adjtimex", "clock_adjtime",
    "sethostname", "setdomainname", "vhangup", "nfsservctl", "uselib", "ustat", "sysfs",
    "mbind", "migrate_pages", "move_pages", "set_mempolicy",
    /* memory that outlives its maps */
    "memfd_create", "memfd_secret", "shmget", "shmat", "semget", "msgget", "mq_open",
};

static int add_refused(scmp_filter_ctx ctx)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        int call = seccomp_syscall_resolve_name(refused[i]);
        if (call == __NR_SCMP_ERROR) continue;
        int status = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), call, 0);
        if (status && status != -EDOM && status != -EINVAL) return status;
    }
    return 0;
}

static int add_namespaces(scmp_filter_ctx ctx)
{
    static const scmp_datum_t flags[] = {CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNS,    CLONE_NEWNET,
                                         CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    int status = 0;
    for (size_t i = 0; i < ARRAY_LEN(flags) && !status; i++)
        status = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                  SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]));
    /* Its flags are in memory, which filters cannot read: libraries fall back to clone. */
    if (!status) status = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return status;
}

/* Only sockets within this process, and no bytes typed into a terminal. */
static int add_arguments(scmp_filter_ctx ctx)
{
    const scmp_datum_t word = UINT32_MAX;
    int status = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                  SCMP_A0(SCMP_CMP_NE, AF_UNIX, 0));
    if (!status)
        status = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                                  SCMP_A1(SCMP_CMP_MASKED_EQ, word, TIOCSTI));
    if (!status)
        status = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                                  SCMP_A1(SCMP_CMP_MASKED_EQ, word, TIOCLINUX));
    return status;
}

int memory_file(view content)
{
    int fd = memfd_create("cerium", MFD_CLOEXEC);
    size_t at = 0;
    while (fd >= 0 && at < content.len) {
        ssize_t n = write(fd, content.ptr + at, content.len - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            close(fd);
            return -1;
        }
        at += (size_t)n;
    }
    if (fd >= 0) lseek(fd, 0, SEEK_SET);
    return fd;
}

int filter_open(cerium_error *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    int fd = memory_file((view){NULL, 0});
    int status = ctx && fd >= 0 ? 0 : -ENOMEM;
    /* Calls by another architecture's numbers would pass the filter: they end the program. */
    if (!status) status = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (!status) status = add_refused(ctx);
    if (!status) status = add_namespaces(ctx);
    if (!status) status = add_arguments(ctx);
    if (!status) status = seccomp_export_bpf(ctx, fd);
    if (ctx) seccomp_release(ctx);
    if (!status) {
        lseek(fd, 0, SEEK_SET);
        return fd;
    }
    if (fd >= 0) close(fd);
    error_set(err, CERIUM_ERR_IO, "the filter of system calls: %s", strerror(-status));
    return -1;
}
