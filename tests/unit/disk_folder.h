/* disk_folder.h - pools with a temporary folder of kept KV, for its tests. */
#ifndef UNIT_KEPT_FOLDER_H
#define UNIT_KEPT_FOLDER_H

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kv_marks.h"

static char kept_root[64], kept_folder[256];
static _Atomic int n_notices, n_loaded;
static char notice_text[600];
static uint64_t kept_model = 11, kept_numbers = 22, disk_bytes = UINT64_C(1) << 30;
static uint64_t kept_warm_bytes; /* 0: nothing is read without a request */

static void take_notice(void *user, const char *line)
{
    (void)user;
    n_notices++;
    snprintf(notice_text, sizeof notice_text, "%s", line);
}

static void count_loaded(void *user)
{
    (void)user;
    n_loaded++;
}

static inline int keep_pool(kv_pool *pool)
{
    kv_disk_config keeping = {.folder = kept_folder, .model = kept_model, .numbers = kept_numbers,
                          .bytes_max = disk_bytes, .warm_bytes = kept_warm_bytes,
                          .notice = take_notice, .loaded = count_loaded};
    cerium_error err;
    n_notices = n_loaded = 0;
    notice_text[0] = 0;
    return kv_pool_attach_disk(pool, &keeping, &err);
}

static inline kv_pool *open_kept(uint32_t sequences, uint64_t size)
{
    kv_pool *pool = open_pool(sequences, size);
    TEST_CHECK(keep_pool(pool) == 0);
    return pool;
}

static inline bool fetch(kv_pool *pool, uint64_t tenant, const int32_t *tokens, uint32_t n)
{
    int old = n_loaded;
    uint64_t ticket = kv_pool_fetch(pool, tenant, tokens, n, 0);
    while (!kv_pool_is_fetched(pool, ticket)) usleep(200);
    while (ticket > 0 && n_loaded == old) usleep(200);  /* the caller is notified a moment later */
    return ticket > 0;
}

/* Like a session: release disagreeing blocks, fetch, then take. */
static inline uint32_t fetch_and_take(kv_sequence *seq, kv_pool *pool, uint64_t tenant,
                                      const int32_t *tokens, uint32_t n)
{
    kv_sequence_adopt(seq, tokens, n);
    fetch(pool, tenant, tokens, n);
    return take(seq, tenant, tokens, n);
}

static inline void wait_for_writer(kv_pool *pool, kv_use *use)
{
    do {
        usleep(100);
        kv_pool_measure(pool, use);
    } while (use->waiting);
}

static inline void make_kept_folder(void)
{
    snprintf(kept_root, sizeof kept_root, "/tmp/cerium-kept-XXXXXX");
    CHECK(mkdtemp(kept_root));
    snprintf(kept_folder, sizeof kept_folder, "%s/a/b", kept_root);
}

static inline bool is_kept(const char *name)
{
    return strstr(name, ".kv") || strstr(name, ".state");
}

/* The system's data on all files. */
static inline uint64_t sum_kept(void)
{
    uint64_t n = 0;
    struct stat st;
    char path[600];
    DIR *folder = opendir(kept_folder);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        snprintf(path, sizeof path, "%.250s/%.250s", kept_folder, e->d_name);
        if (is_kept(e->d_name) && stat(path, &st) == 0) n += (uint64_t)st.st_size;
    }
    if (folder) closedir(folder);
    return n;
}

/* Names of the existing files, in any order. */
static inline int list_kept(char paths[][200], int max)
{
    int n = 0;
    DIR *folder = opendir(kept_folder);
    for (struct dirent *e; folder && n < max && (e = readdir(folder));)
        if (is_kept(e->d_name))
            snprintf(paths[n++], 200, "%.120s/%.60s", kept_folder, e->d_name);
    if (folder) closedir(folder);
    return n;
}

static inline void empty_kept_folder(void)
{
    static char paths[2048][200];
    int n = list_kept(paths, 2048);
    for (int i = 0; i < n; i++) unlink(paths[i]);
}

static inline void remove_kept_folder(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", kept_root);
    CHECK(system(command) == 0);
}

/* A pool takes the folder while one allocation after the other fails.  Returns how many did. */
static inline int count_failures(kv_pool *(*open)(uint32_t sequences, uint64_t size))
{
    const long live = memory_live();
    int n_failed = 0;
    for (long k = 0, status = 1; status != 0; k++) {
        kv_pool *pool = open(1, 1);
        memory_fail_at(k);
        status = keep_pool(pool);
        memory_fail_at(-1);
        n_failed += status != 0;
        TEST_CHECK(status == 0 || status == CERIUM_ERR_MEMORY || n_notices);
        kv_pool_close(&pool);
        TEST_CHECK(memory_live() == live && k < 100);
    }
    return n_failed;
}

/* A process that writes for ever is killed later and later, each time step_us after the time
 * before; after each, what is found is right and no damage is reported. */
static inline void kill_writers(void (*write_for_ever)(void), uint32_t (*find)(void), int n_kills,
                                int step_us)
{
    uint32_t most = 0;
    for (int i = 0; i < n_kills; i++) {
        int status;
        if (i % 4 == 0) empty_kept_folder();
        fflush(stdout);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) write_for_ever();
        usleep((useconds_t)(1000 + i * step_us));
        kill(pid, SIGKILL);
        CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
        uint32_t n = find();
        TEST_CHECK_THAT(n_notices == 0, "%s", notice_text);
        if (n > most) most = n;
    }
    TEST_CHECK(most > 0);
}

#endif
