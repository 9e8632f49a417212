/* guest_walls.c - the walls around one variant: namespaces, mounts, limits, descriptors, rights,
 * system calls.  Every call is checked: if a wall fails, the job ends. */
#include "sandbox/guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILTER_MAX = 4096, NICE = 5, SHM_BYTES = 4 << 20, FILES_MAX = 16384 };

static struct sock_filter filter[FILTER_MAX];
static struct sock_fprog program;

bool walls_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, filter, sizeof filter);
    close(fd);
    if (n <= 0 || (size_t)n % sizeof filter[0] || (size_t)n == sizeof filter) return false;
    program = (struct sock_fprog){(unsigned short)((size_t)n / sizeof filter[0]), filter};
    return true;
}

/* One write(2), whose error is visible: buffered files hide it. */
static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool whole = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    return close(fd) == 0 && whole;
}

/* Without id maps a new file system allows no files.  The ids stay the same. */
static bool map_ids(uid_t uid, gid_t gid)
{
    char users[64], groups[64];
    snprintf(users, sizeof users, "%u %u 1", uid, uid);
    snprintf(groups, sizeof groups, "%u %u 1", gid, gid);
    return write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/uid_map", users) &&
           write_file("/proc/self/gid_map", groups);
}

static bool mount_memory(const char *place, uint64_t size)
{
    char how[96];
    snprintf(how, sizeof how, "size=%llu,nr_inodes=%d,mode=0700", (unsigned long long)size,
             size > SHM_BYTES ? FILES_MAX : 64);
    return mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, how) == 0;
}

const char *walls_outer(const wire_job *job)
{
    uid_t uid = getuid();
    gid_t gid = getgid();
    struct stat st;
    if (!(job->flags & WIRE_INNER)) return NULL;
    /* Other processes may not inspect this one, but it must write its own maps. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)) return "prctl";
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC)) return "unshare";
    if (!map_ids(uid, gid)) return "uid_map";
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)) return "prctl";
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return "private mounts";
    if (!mount_memory("/tmp", job->tmp_bytes)) return "tmpfs on /tmp";
    if (stat("/dev/shm", &st) == 0 && !mount_memory("/dev/shm", SHM_BYTES)) return "/dev/shm";
    if (stat("/task", &st) == 0 &&
        mount(NULL, "/task", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL))
        return "read-only /task";
    return NULL;
}

/* ---- limits ---- */

static bool limit(int what, uint64_t most)
{
    struct rlimit now, want = {most, most};
    if (getrlimit((__rlimit_resource_t)what, &now)) return false;
    if (now.rlim_max < most) want.rlim_cur = want.rlim_max = now.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &want) == 0;
}

/* V8 reserves more address space than any limit on it would allow: limit its data instead. */
static const char *set_limits(const wire_job *job)
{
    int memory = job->language == WIRE_JAVASCRIPT || job->language == WIRE_COMMAND ? RLIMIT_DATA
                                                                                  : RLIMIT_AS;
    if (!limit(memory, job->memory_bytes)) return "limit of memory";
    if (!limit(RLIMIT_CPU, job->cpu_s)) return "limit of processor time";
    if (!limit(RLIMIT_FSIZE, job->file_bytes)) return "limit of a file";
    if (!limit(RLIMIT_NOFILE, job->descriptors)) return "limit of descriptors";
    if (!limit(RLIMIT_CORE, 0) || !limit(RLIMIT_MEMLOCK, 0) || !limit(RLIMIT_MSGQUEUE, 0))
        return "limits";
    if (!limit(RLIMIT_STACK, 8 << 20)) return "limit of the stack";
    /* Counted within the user namespace, since Linux 5.14. */
    return limit(RLIMIT_NPROC, job->processes) ? NULL : "limit of processes";
}

static const char *drop_rights(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {0};
    for (unsigned long cap = 0; cap <= 63; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1) (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return syscall(SYS_capset, &head, none) ? "capabilities" : NULL;
}

static const char *set_descriptors(int out, int err, int mark)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* Above all places that are filled. */
    int from[4] = {null, out, err, mark};
    for (int i = 0; i < 4; i++)
        if (from[i] < 0 || (from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 10)) < 0)
            return "descriptors";
    for (int i = 0; i < 4; i++)
        if (dup2(from[i], i) != i) return "descriptors";
    return syscall(SYS_close_range, GUEST_FD_MARK + 1, ~0u, 0) ? "close_range" : NULL;
}

const char *walls_inner(const wire_job *job, int out, int err, int mark)
{
    const char *why = set_descriptors(out, err, mark); /* later errors are reported there */
    if (why) return why;
    /* A process group of its own: otherwise kill(0, 9) would reach the watchers. */
    if (setsid() < 0) return "setsid";
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)) return "parent death signal";
    (void)!nice(NICE); /* if it has a niceness already, it keeps that */
    why = set_limits(job);
    if (!why) why = drop_rights();
    if (why) return why;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)) return "prctl";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return "no new privileges";
    if (!program.len) return "no filter of system calls";
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) return "filter of system calls";
    return NULL;
}
