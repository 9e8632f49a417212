/* test_panel_file.c - panel files: a written file is accepted, and nothing else. */
#include "model/panel_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "unit.h"

enum { BYTES = 2 * PANEL_CHUNK_BYTES + 3 * 4096, CHUNKS = 3 };

static char folder[64], model[80];
static uint8_t *panels;
static panel_places places;
static const panel_key key = {.model = 11, .layout = 22, .bytes = BYTES};

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/cerium-panels-XXXXXX");
    CHECK(mkdtemp(folder));
    snprintf(model, sizeof model, "%s/m.gguf", folder);
    FILE *f = fopen(model, "w");
    CHECK(f && fclose(f) == 0);
    CHECK(panel_places_open(&places, model, folder, BYTES) == 0 && places.n == 1);
    panels = memory_map(BYTES);
    CHECK(panels);
    for (size_t i = 0; i < BYTES; i += 8) memcpy(panels + i, &(uint64_t){hash_u64(i, 7)}, 8);
}

static void remove_folder(void)
{
    unlink(places.paths[0]);
    unlink(model);
    CHECK(rmdir(folder) == 0); /* nothing is left over */
    panel_places_close(&places);
    memory_unmap(panels, BYTES);
}

static bool write_file(const panel_key *k, char *text)
{
    panel_writer w;
    bool ok = panel_writer_open(&w, &places, k);
    for (uint64_t i = 0; ok && i < panel_n_chunks(k->bytes); i++)
        ok = panel_writer_put(&w, i, panels);
    if (w.fd >= 0) ok = panel_writer_finish(&w);
    if (text) snprintf(text, PANEL_TEXT_MAX, "%s", w.fault);
    panel_writer_close(&w);
    return ok;
}

/* Whether the file is accepted and has the written content; otherwise the reason, in text. */
static bool reads(char *text)
{
    panel_map m;
    CHECK(panel_map_open(&m, &places, &key) == 0);
    bool good = m.panels != NULL;
    for (uint64_t i = 0; good && i < CHUNKS; i++)
        if (!panel_map_check(&m, i)) good = false;
    if (good) TEST_CHECK(memcmp(m.panels, panels, BYTES) == 0);
    if (text) snprintf(text, PANEL_TEXT_MAX, "%s", m.fault);
    panel_map_close(&m);
    return good;
}

static void flip(uint64_t at, uint8_t mask)
{
    uint8_t byte;
    int fd = open(places.paths[0], O_RDWR);
    CHECK(fd >= 0 && pread(fd, &byte, 1, (off_t)at) == 1);
    byte ^= mask;
    CHECK(pwrite(fd, &byte, 1, (off_t)at) == 1);
    close(fd);
}

static void writable(void) { CHECK(chmod(places.paths[0], 0600) == 0); }

static void test_round_trip(void)
{
    char text[PANEL_TEXT_MAX];
    TEST_CHECK(!reads(text) && !text[0]); /* a missing file is no fault */
    TEST_CHECK(write_file(&key, text) && !text[0]);
    TEST_CHECK(reads(text) && !text[0]);
    struct stat st;
    CHECK(stat(places.paths[0], &st) == 0);
    TEST_CHECK((st.st_mode & 0222) == 0);
    TEST_CHECK((uint64_t)st.st_size == panel_file_at(BYTES) + BYTES);
}

static void test_flips(void)
{
    const uint64_t head = panel_file_head_bytes(BYTES), at = panel_file_at(BYTES);
    CHECK(write_file(&key, NULL));
    writable();
    for (uint64_t i = 0; i < head; i++) {
        flip(i, (uint8_t)(1 << i % 8));
        TEST_CHECK_THAT(!reads(NULL), "byte %d of the head", (int)i);
        flip(i, (uint8_t)(1 << i % 8));
    }
    for (uint64_t i = 0; i < BYTES; i += 40960 - 1) {
        flip(at + i, (uint8_t)(1 << i % 8));
        TEST_CHECK_THAT(!reads(NULL), "byte %d of the panels", (int)i);
        flip(at + i, (uint8_t)(1 << i % 8));
    }
    TEST_CHECK(reads(NULL)); /* as before */
}

static void test_truncation(void)
{
    char text[PANEL_TEXT_MAX];
    const uint64_t head = panel_file_head_bytes(BYTES), at = panel_file_at(BYTES), end = at + BYTES;
    const uint64_t cuts[] = {end - 1, end - 4096, at + 2 * PANEL_CHUNK_BYTES,
                             at + PANEL_CHUNK_BYTES + 1, at + PANEL_CHUNK_BYTES, at + 1, at,
                             at - 1, 4096, head + 1, head, head - 1, 48, 47, 16, 8, 7, 1, 0};
    for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
        CHECK(write_file(&key, NULL));
        writable();
        CHECK(truncate(places.paths[0], (off_t)cuts[i]) == 0);
        TEST_CHECK_THAT(!reads(text) && strstr(text, cuts[i] < 8 ? "not a file" : "cut short"),
                        "cut to %d: %s", (int)cuts[i], text);
    }
    CHECK(write_file(&key, NULL));
    writable();
    CHECK(truncate(places.paths[0], (off_t)end + 1) == 0);
    TEST_CHECK(!reads(text) && strstr(text, "damaged"));
}

/* The state after a power cut if the name reached the disk and some blocks did not. */
static void test_lost_blocks(void)
{
    static const uint8_t zeros[4096];
    const uint64_t places_of[] = {0, panel_file_at(BYTES), panel_file_at(BYTES) + BYTES - 4096};
    for (size_t i = 0; i < ARRAY_LEN(places_of); i++) {
        CHECK(write_file(&key, NULL));
        writable();
        int fd = open(places.paths[0], O_RDWR);
        CHECK(pwrite(fd, zeros, sizeof zeros, (off_t)places_of[i]) == sizeof zeros);
        close(fd);
        TEST_CHECK(!reads(NULL));
    }
}

static void test_other_keys(void)
{
    char text[PANEL_TEXT_MAX];
    const panel_key others[] = {{.model = 12, .layout = 22, .bytes = BYTES},
                                {.model = 11, .layout = 23, .bytes = BYTES},
                                {.model = 11, .layout = 22, .bytes = BYTES - 4096}};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        CHECK(write_file(&others[i], NULL));
        TEST_CHECK_THAT(!reads(text) &&
                            strstr(text, i ? "made by another version" : "another model"),
                        "%s", text);
    }
    CHECK(write_file(&key, NULL));
    TEST_CHECK(reads(NULL)); /* in place of the others */
}

static void test_trust(void)
{
    char text[PANEL_TEXT_MAX];
    CHECK(write_file(&key, NULL));
    CHECK(chmod(places.paths[0], 0666) == 0);
    TEST_CHECK(!reads(text) && strstr(text, "others may write"));
    CHECK(chmod(places.paths[0], 0444) == 0 && reads(NULL));
    if (geteuid() == 0) {
        CHECK(chown(places.paths[0], 12345, 12345) == 0);
        TEST_CHECK(!reads(text) && strstr(text, "another user"));
        CHECK(chown(model, 12345, 12345) == 0);
        TEST_CHECK(reads(NULL)); /* the model's owner could supply any weights anyway */
        CHECK(chown(model, 0, 0) == 0);
    }
    CHECK(unlink(places.paths[0]) == 0 && mkdir(places.paths[0], 0700) == 0);
    TEST_CHECK(!reads(text) && strstr(text, "not a regular file"));
    TEST_CHECK(!write_file(&key, text) && text[0]);
    CHECK(rmdir(places.paths[0]) == 0 && mkfifo(places.paths[0], 0600) == 0);
    TEST_CHECK(!reads(text) && strstr(text, "not a regular file")); /* must not hang */
    CHECK(unlink(places.paths[0]) == 0);
}

static void test_writers(void)
{
    panel_writer one, two;
    char new_path[200], text[PANEL_TEXT_MAX];
    snprintf(new_path, sizeof new_path, "%s.new", places.paths[0]);
    CHECK(panel_writer_open(&one, &places, &key));
    TEST_CHECK(!panel_writer_open(&two, &places, &key) && !two.fault[0] && two.fd < 0);
    panel_writer_close(&two);
    TEST_CHECK(access(new_path, F_OK) == 0); /* the loser removed nothing */
    for (uint64_t i = 0; i < CHUNKS; i++) TEST_CHECK(panel_writer_put(&one, i, panels));
    TEST_CHECK(!reads(NULL)); /* no file until it is complete */
    TEST_CHECK(panel_writer_finish(&one));
    panel_writer_close(&one);
    TEST_CHECK(reads(NULL));
    /* Abandoned half-way; and left over from a crash. */
    CHECK(panel_writer_open(&one, &places, &key) && panel_writer_put(&one, 0, panels));
    panel_writer_close(&one);
    TEST_CHECK(access(new_path, F_OK) && reads(NULL));
    FILE *f = fopen(new_path, "w");
    CHECK(f && fputs("half of something", f) >= 0 && fclose(f) == 0);
    TEST_CHECK(write_file(&key, NULL) && reads(NULL) && access(new_path, F_OK));
    /* A symbolic link is not written through. */
    CHECK(symlink(model, new_path) == 0);
    TEST_CHECK(!write_file(&key, text) && text[0]);
    struct stat st;
    TEST_CHECK(stat(model, &st) == 0 && st.st_size == 0);
    CHECK(unlink(new_path) == 0);
    TEST_CHECK(link(model, new_path) == 0 && !write_file(&key, text));
    CHECK(unlink(new_path) == 0);
}

/* A mapping outlives the file's replacement and removal. */
static void test_replaced_while_mapped(void)
{
    panel_map m;
    CHECK(write_file(&key, NULL) && panel_map_open(&m, &places, &key) == 0 && m.panels);
    const panel_key other = {.model = 12, .layout = 22, .bytes = BYTES - 4096};
    CHECK(write_file(&other, NULL));
    for (uint64_t i = 0; i < CHUNKS; i++) TEST_CHECK(panel_map_check(&m, i));
    CHECK(unlink(places.paths[0]) == 0);
    TEST_CHECK(memcmp(m.panels, panels, BYTES) == 0);
    panel_map_close(&m);
}

static const panel_key small_key = {.model = 11, .layout = 22, .bytes = 8 * 4096};
enum { RACERS = 3, RACES = 400 };

static int race(void)
{
    for (int i = 0; i < RACES; i++) write_file(&small_key, NULL);
    return 0;
}

/* Concurrent writers never touch a file that has its final name: mappings stay valid. */
static void test_race(void)
{
    pid_t pids[RACERS];
    int status, n_mapped = 0;
    CHECK(write_file(&small_key, NULL));
    for (int i = 0; i < RACERS; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) _exit(race());
    }
    for (int running = RACERS; running > 0; n_mapped++) {
        panel_map m;
        CHECK(panel_map_open(&m, &places, &small_key) == 0);
        TEST_CHECK_THAT(m.panels && !m.fault[0], "%s", m.fault);
        if (waitpid(-1, &status, WNOHANG) > 0) running--;
        sched_yield();
        TEST_CHECK(m.panels && memcmp(m.panels, panels, small_key.bytes) == 0);
        panel_map_close(&m);
    }
    TEST_CHECK(n_mapped > RACERS);
}

static void in_child(int (*fn)(void), const char *what)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) _exit(fn());
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        TEST_SKIP(what);
    else
        TEST_CHECK_THAT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: %x", what,
                        (unsigned)status);
}

/* Exceeding the limit on file sizes would kill the process: it must not happen. */
static int limited(void)
{
    char text[PANEL_TEXT_MAX];
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){BYTES, BYTES});
    return write_file(&key, text) || !strstr(text, "larger than this process may write");
}

/* In a file system of its own: first too little room to begin, then it fills up half-way. */
static int full(void)
{
    char data[32], filler[100];
    snprintf(data, sizeof data, "size=%d", 4 * BYTES);
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", folder, "tmpfs", 0, data))
        return 77;
    FILE *f = fopen(model, "w"); /* the folder is new */
    if (!f || fclose(f)) return 1;
    panel_writer w;
    if (!panel_writer_open(&w, &places, &key) || !panel_writer_put(&w, 0, panels)) return 2;
    snprintf(filler, sizeof filler, "%s/filler", folder);
    int fd = open(filler, O_WRONLY | O_CREAT, 0600);
    while (write(fd, panels, 65536) > 0) {}
    if (panel_writer_put(&w, 1, panels) || panel_writer_put(&w, 2, panels)) return 3;
    if (panel_writer_finish(&w) || !strstr(w.fault, strerror(ENOSPC))) return 4;
    panel_writer_close(&w);
    if (panel_writer_open(&w, &places, &key) || !strstr(w.fault, "too little room")) return 5;
    return unlink(filler) || rmdir(folder) == 0; /* the only other file is the model */
}

static void test_no_room(void)
{
    unlink(places.paths[0]);
    in_child(limited, "a limit on the size of files");
    in_child(full, "a full disk: mounting one is not allowed here");
    TEST_CHECK(!reads(NULL));
}

static void test_places(void)
{
    panel_places p;
    char beside[100];
    TEST_CHECK(panel_places_open(&p, model, "off", PANEL_BYTES_MIN) == 0 && p.n == 0);
    TEST_CHECK(panel_places_open(&p, model, NULL, PANEL_BYTES_MIN - 1) == 0 && p.n == 0);
    setenv("XDG_CACHE_HOME", "/c", 1);
    setenv("HOME", "/h", 1);
    TEST_CHECK(panel_places_open(&p, model, NULL, PANEL_BYTES_MIN) == 0 && p.n == 2);
    snprintf(beside, sizeof beside, "%s.panels", model);
    TEST_CHECK(!strcmp(p.paths[0], beside) && !strncmp(p.paths[1], "/c/cerium/m.gguf-", 17));
    panel_places_close(&p);
    setenv("XDG_CACHE_HOME", "not absolute", 1);
    TEST_CHECK(panel_places_open(&p, model, NULL, PANEL_BYTES_MIN) == 0 && p.n == 2);
    TEST_CHECK(!strncmp(p.paths[1], "/h/.cache/cerium/m.gguf-", 24));
    panel_places_close(&p);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    TEST_CHECK(panel_places_open(&p, model, NULL, PANEL_BYTES_MIN) == 0 && p.n == 1);
    panel_places_close(&p);
    for (long n = 0; n < 2; n++) {
        memory_fail_at(n);
        setenv("HOME", "/h", 1);
        TEST_CHECK(panel_places_open(&p, model, NULL, PANEL_BYTES_MIN) == CERIUM_ERR_MEMORY);
        memory_fail_at(-1);
    }
}

int main(void)
{
    make_folder();
    long live = memory_live();
    TEST_RUN(test_round_trip);
    TEST_RUN(test_flips);
    TEST_RUN(test_truncation);
    TEST_RUN(test_lost_blocks);
    TEST_RUN(test_other_keys);
    TEST_RUN(test_trust);
    TEST_RUN(test_writers);
    TEST_RUN(test_replaced_while_mapped);
    TEST_RUN(test_race);
    TEST_RUN(test_no_room);
    TEST_RUN(test_places);
    TEST_CHECK(memory_live() == live);
    remove_folder();
    return unit_report("panel_file");
}
