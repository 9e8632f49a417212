/* shared.c - the handler of SIGBUS and its list of mappings. */
#include "store/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The data that the signal handler may read: complete before `end` is set, and cleared after `end`
 * is. */
static struct {
    _Atomic uintptr_t begin, end; /* end 0 = free */
    _Atomic bool torn;
} places[SHARED_MAX];
static struct sigaction before;
static uintptr_t page_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Only calls that are allowed in a handler: mmap and sigaction are one system call each. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    int saved = errno;
    (void)context;
    for (size_t i = 0; i < SHARED_MAX; i++) {
        if (at >= atomic_load(&places[i].end) || at < atomic_load(&places[i].begin)) continue;
        void *page = (void *)(at & ~(page_bytes - 1));
        atomic_store(&places[i].torn, true);
        if (mmap(page, page_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page) {
            errno = saved;
            return;
        }
    }
    sigaction(number, &before, NULL); /* the same again, as without this handler */
    errno = saved;
}

static int install(void)
{
    static bool is_installed;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    if (is_installed) return 0;
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, &before)) return errno;
    is_installed = true;
    return 0;
}

static int take_place(const shared *s)
{
    for (int i = 0; i < SHARED_MAX; i++) {
        if (atomic_load(&places[i].end)) continue;
        atomic_store(&places[i].torn, false);
        atomic_store(&places[i].begin, (uintptr_t)s->at);
        atomic_store(&places[i].end, (uintptr_t)s->at + s->len);
        return i;
    }
    return -1;
}

int shared_open(shared *s, int fd, size_t len)
{
    *s = (shared){.len = len, .fd = fd};
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return errno;
    s->at = at;
    pthread_mutex_lock(&lock);
    int code = install();
    s->place = code ? -1 : take_place(s);
    pthread_mutex_unlock(&lock);
    if (s->place >= 0) return 0;
    munmap(at, len);
    s->at = NULL;
    return code ? code : ENFILE;
}

void shared_close(shared *s)
{
    if (!s->at) return;
    atomic_store(&places[s->place].end, 0);
    munmap(s->at, s->len);
    s->at = NULL;
}

bool shared_is_whole(const shared *s)
{
    struct stat st;
    return !atomic_load(&places[s->place].torn) && !fstat(s->fd, &st) &&
           (uint64_t)st.st_size >= s->len;
}

int shared_mend(shared *s)
{
    int code = posix_fallocate(s->fd, 0, (off_t)s->len);
    if (code) return code;
    atomic_store(&places[s->place].torn, false); /* first: the next truncation is detected */
    void *at = mmap(s->at, s->len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, s->fd, 0);
    return at == s->at ? 0 : errno;
}
