/* pull.c - `cerium pull`: a model by its short name or address, for the user. */
#include "programs/programs.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "programs/download.h"
#include "programs/options.h"
#include "programs/pull.h"
#include "programs/terminal.h"

enum { LIST_BYTES_MAX = 1 << 20, TEXT_BYTES = 4096, SPLITS_MAX = 999, NAMES_MAX = 200 };

typedef struct {
    options o;
    bool list;
    const char *to, *sha256;
    uint32_t stall;
    char name[TEXT_BYTES], url[TEXT_BYTES], listed_sha256[65];
    const server_pull_hooks *hooks; /* NULL: for a person, on standard error */
} pull_args;

static bool is_sha256(const char *text)
{
    size_t n = 0;
    while (isxdigit((unsigned char)text[n])) n++;
    return n == 64 && !text[n];
}

static bool take_checksum(void *program, const char *value)
{
    pull_args *p = program;
    p->sha256 = value;
    return is_sha256(value) || option_wants("64 hexadecimal digits");
}

static const option_spec own[] = {
    {"list", NULL, "print the short names", TAKES_FLAG(pull_args, list)},
    {"to", "FILE", "write the model here, not in the folder of models",
     TAKES_TEXT(pull_args, to)},
    {"checksum", "HEX", "SHA-256 that the file must have", TAKES_CALL(take_checksum)},
    {"stall", "N", "a try has failed after N seconds without a byte (default 30)",
     TAKES_U32(pull_args, stall, 1, 3600)},
};
const command_table pull_command = {
    .name = "pull",
    .usage = "[OPTIONS] NAME|URL",
    .about = "Download a model; -m NAME then finds it. A download that was cut off is resumed, by "
             "this call or the next. The file appears when it is whole and its SHA-256 is right, "
             "where that is known.",
    .own = own,
    .n_own = ARRAY_LEN(own),
    .notes = "The folder is CERIUM_MODELS, else cerium/models in the user's cache. HF_TOKEN is "
             "sent to huggingface.co, CERIUM_PULL_TOKEN to any other host; https_proxy, "
             "http_proxy and no_proxy are used.",
    .examples = "cerium pull qwen2.5-coder-0.5b && cerium run -m qwen2.5-coder-0.5b -p 'def f('",
};

/* ---- names ---- */

/* A line of models.list; sizes are 0 if it has none. */
typedef struct {
    char name[TEXT_BYTES], url[TEXT_BYTES], sha256[65];
    uint64_t size_bytes, memory_bytes;
} listed_model;

/* Read the next one; false at the end. */
static bool next_name(view *rest, listed_model *m)
{
    while (rest->len) {
        char line[TEXT_BYTES], sizes[2][24] = {"", ""};
        const char *end = memchr(rest->ptr, '\n', rest->len);
        size_t len = end ? (size_t)(end - rest->ptr) : rest->len;
        snprintf(line, sizeof line, "%.*s", len < sizeof line ? (int)len : 0, rest->ptr);
        *rest = (view){rest->ptr + len + (end != NULL), rest->len - len - (end != NULL)};
        m->size_bytes = m->memory_bytes = 0;
        if (line[0] == '#' || sscanf(line, "%4000s %4000s %64s %23s %23s", m->name, m->url,
                                     m->sha256, sizes[0], sizes[1]) < 3)
            continue;
        (void)parse_u64(view_of(sizes[0]), &m->size_bytes);
        (void)parse_u64(view_of(sizes[1]), &m->memory_bytes);
        return true;
    }
    return false;
}

static int read_names(bytes *out, cerium_error *err)
{
    const char *path = shipped_file("models.list");
    *out = (bytes){.max = LIST_BYTES_MAX};
    if (!path) return error_set(err, CERIUM_ERR_IO, "models.list is not there: name an address");
    return read_file(path, out, err);
}

static int find_name(pull_args *p, const char *wanted, cerium_error *err)
{
    bytes all;
    listed_model m;
    RETURN_IF(read_names(&all, err));
    view rest = {all.ptr, all.len};
    while (!p->url[0] && next_name(&rest, &m)) {
        if (strcmp(m.name, wanted) != 0) continue;
        snprintf(p->url, sizeof p->url, "%s", m.url);
        snprintf(p->name, sizeof p->name, "%.4000s.gguf", m.name);
        if (is_sha256(m.sha256)) memcpy(p->listed_sha256, m.sha256, sizeof m.sha256);
    }
    bytes_free(&all);
    if (p->url[0]) return CERIUM_OK;
    const char *names[NAMES_MAX];
    const char *near = nearest_name(wanted, names, model_names(&all, names, NAMES_MAX));
    error_set(err, CERIUM_ERR_ARGUMENT,
              "'%s' is neither a short name (cerium pull --list) nor an http address%s%s%s", wanted,
              near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    bytes_free(&all);
    return CERIUM_ERR_ARGUMENT;
}

static int print_names(cerium_error *err)
{
    bytes all;
    char size[32];
    listed_model m;
    RETURN_IF(read_names(&all, err));
    view rest = {all.ptr, all.len};
    while (next_name(&rest, &m))
        printf("%-24s %9s  %s\n", m.name,
               m.size_bytes ? human_bytes(size, (double)m.size_bytes) : "", m.url);
    bytes_free(&all);
    return CERIUM_OK;
}

/* The file's name at the end of an address, without a query. */
static int name_of_url(pull_args *p, const char *url, cerium_error *err)
{
    size_t end = strcspn(url, "?#"), begin = end;
    while (begin > 0 && url[begin - 1] != '/') begin--;
    if (strlen(url) >= sizeof p->url || end - begin < 6 || url[begin] == '.' ||
        strncmp(url + end - 5, ".gguf", 5) != 0 || memchr(url + begin, '%', end - begin))
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "%s: an address ends in the name of a .gguf file, or --to says one", url);
    snprintf(p->name, sizeof p->name, "%.*s", (int)(end - begin), url + begin);
    return CERIUM_OK;
}

/* ---- the command ---- */

static void show(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    char a[32], b[32];
    if (total)
        progress_show("%s of %s, %llu %%", human_bytes(a, (double)done),
                human_bytes(b, (double)total), (unsigned long long)(done / (total / 100 + 1)));
    else
        progress_show("%s", human_bytes(a, (double)done));
}

/* Hugging Face's token is sent nowhere else. */
static const char *token_for(const char *url)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    size_t len = strcspn(host, "/:?#");
    bool hf = !strncasecmp(url, "https:", 6) && len == 14 &&
              !strncasecmp(host, "huggingface.co", 14);
    const char *token = getenv(hf ? "HF_TOKEN" : "CERIUM_PULL_TOKEN");
    return token && *token && !strpbrk(token, "\r\n") ? token : NULL;
}

/* The source address of a file is stored in an extended attribute, as curl --xattr and wget do;
 * without these, in a hidden file beside it. */
static const char origin[] = "user.xdg.origin.url";

static bool address_path(const char *path, char out[TEXT_BYTES + 16])
{
    const char *slash = strrchr(path, '/');
    int n_folder = slash ? (int)(slash + 1 - path) : 0;
    return snprintf(out, TEXT_BYTES + 16, "%.*s.%s.address", n_folder, path, path + n_folder) <
           TEXT_BYTES + 16;
}

/* Without the address the file only has an unknown origin: not an error. */
static void note_address(const char *path, const char *url)
{
    char name[TEXT_BYTES + 16];
    if (!setxattr(path, origin, url, strlen(url), 0) || !address_path(path, name)) return;
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600); /* it may contain a
                                                                          * secret */
    if (fd < 0) return;
    if (file_write_at(fd, url, strlen(url), 0)) unlink(name);
    close(fd);
}

/* "" if unknown. */
static void read_address(const char *path, char out[TEXT_BYTES])
{
    char name[TEXT_BYTES + 16];
    ssize_t n = getxattr(path, origin, out, TEXT_BYTES - 1);
    int fd = n < 0 && address_path(path, name) ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) n = (ssize_t)file_read_at(fd, out, TEXT_BYTES - 1, 0);
    if (fd >= 0) close(fd);
    out[n > 0 ? n : 0] = 0;
}

/* Does a file of that name exist: the same one, or one from elsewhere? */
static int check_there(const pull_args *p, const char *path, const char *url, cerium_error *err)
{
    char known[TEXT_BYTES];
    read_address(path, known);
    if (*known && strcmp(known, url) != 0)
        return error_set(err, CERIUM_ERR_IO, "%s is there already, from another address (%.150s): "
                         "remove it, or give --to FILE", path, known);
    const char *sha256 = p->sha256 ? p->sha256 : p->listed_sha256[0] ? p->listed_sha256 : NULL;
    if (sha256) RETURN_IF(download_check(path, sha256, err));
    if (!p->hooks) fprintf(stderr, "%s is there already\n", path);
    return CERIUM_OK;
}

static int pull_one(pull_args *p, const char *url, const char *name, cerium_error *err)
{
    char path[TEXT_BYTES], size[32];
    struct stat st;
    if (p->to)
        snprintf(path, sizeof path, "%s", p->to);
    else if (!models_path(path, sizeof path, name))
        return error_set(err, CERIUM_ERR_ARGUMENT, "no folder for models: set CERIUM_MODELS");
    const char *sha256 = p->sha256 ? p->sha256 : p->listed_sha256[0] ? p->listed_sha256 : NULL;
    download d = {.url = url, .path = path, .sha256 = sha256, .token = token_for(url),
                  .stall_seconds = p->stall, .progress = progress_is_shown() ? show : NULL};
    if (p->hooks) {
        d.progress = p->hooks->progress;
        d.canceled = p->hooks->canceled;
        d.user = p->hooks->user;
    }
    if (!access(path, F_OK)) return check_there(p, path, url, err);
    int status = download_file(&d, err);
    if (d.progress && !p->hooks) progress_clear();
    if (!status) note_address(path, url);
    if (!status && !p->hooks && !stat(path, &st))
        fprintf(stderr, "%s: %s\n", path, human_bytes(size, (double)st.st_size));
    return status;
}

/* All parts of a split set, when the first one is named. */
static int pull_all(pull_args *p, cerium_error *err)
{
    unsigned n = 0;
    char *in_url = strstr(p->url, "-00001-of-"), *in_name = strstr(p->name, "-00001-of-");
    if (!in_url || !in_name || p->to || sscanf(in_url, "-00001-of-%5u", &n) != 1 || n < 2 ||
        n > SPLITS_MAX)
        return pull_one(p, p->url, p->name, err);
    for (unsigned i = 1; i <= n; i++) {
        char digits[8];
        snprintf(digits, sizeof digits, "%05u", i);
        memcpy(in_url + 1, digits, 5);
        memcpy(in_name + 1, digits, 5);
        RETURN_IF(pull_one(p, p->url, p->name, err));
    }
    return CERIUM_OK;
}

static int run(pull_args *p, const char *what, cerium_error *err)
{
    if (p->list) return print_names(err);
    if (strncasecmp(what, "http://", 7) != 0 && strncasecmp(what, "https://", 8) != 0) {
        RETURN_IF(find_name(p, what, err));
    } else {
        if (!p->to) RETURN_IF(name_of_url(p, what, err));
        snprintf(p->url, sizeof p->url, "%s", what);
    }
    return pull_all(p, err);
}

/* ---- for the server ---- */

uint32_t pull_offers(server_offer *out, uint32_t n_max)
{
    bytes all;
    uint32_t n = 0;
    listed_model m;
    if (read_names(&all, NULL)) {
        bytes_free(&all);
        return 0;
    }
    view rest = {all.ptr, all.len};
    while (n < n_max && next_name(&rest, &m)) {
        char path[TEXT_BYTES], file[SERVER_ID_BYTES + 8];
        const size_t len = strlen(m.name);
        if (len >= SERVER_ID_BYTES || !m.size_bytes || !m.memory_bytes) continue;
        server_offer *o = &out[n++];
        *o = (server_offer){.size_bytes = m.size_bytes,
                            .memory_bytes = m.memory_bytes,
                            .chats = len < 4 || strcmp(m.name + len - 4, "-fim") != 0};
        memcpy(o->name, m.name, len + 1);
        snprintf(file, sizeof file, "%s.gguf", o->name);
        o->is_here = models_path(path, sizeof path, file) && !access(path, R_OK);
    }
    bytes_free(&all);
    return n;
}

int pull_listed(const char *name, const server_pull_hooks *hooks, char path[SERVER_PULL_PATH_MAX],
                cerium_error *err)
{
    pull_args p = {.stall = 30, .hooks = hooks};
    RETURN_IF(find_name(&p, name, err));
    if (!models_path(path, SERVER_PULL_PATH_MAX, p.name))
        return error_set(err, CERIUM_ERR_ARGUMENT, "no folder for models: set CERIUM_MODELS");
    return pull_all(&p, err);
}

/* ---- removing ---- */

/* A plain file directly in the folder of models, not a link. */
static int check_own(const char *path, cerium_error *err)
{
    char file[TEXT_BYTES], real[PATH_MAX], real_own[PATH_MAX];
    struct stat st;
    const char *slash = strrchr(path, '/');
    if (!models_path(file, sizeof file, slash ? slash + 1 : path) || !realpath(path, real) ||
        !realpath(file, real_own) || strcmp(real, real_own) != 0 || lstat(file, &st) ||
        !S_ISREG(st.st_mode))
        return error_set(err, CERIUM_ERR_ARGUMENT, "only files right in the folder of models, as "
                         "`cerium pull` makes them, are removed");
    const size_t len = strlen(real);
    if (len < 6 || strcmp(real + len - 5, ".gguf") != 0)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%.200s is no .gguf file", path);
    if (access(file, W_OK))
        return error_set(err, CERIUM_ERR_ARGUMENT, "%.200s: %s", path, strerror(errno));
    return CERIUM_OK;
}

static int remove_one(const char *path, cerium_error *err)
{
    char beside[TEXT_BYTES + 16];
    if (unlink(path) && errno != ENOENT)
        return error_set(err, CERIUM_ERR_IO, "%.200s: %s", path, strerror(errno));
    if (snprintf(beside, sizeof beside, "%s.panels", path) < TEXT_BYTES) unlink(beside);
    if (address_path(path, beside)) unlink(beside);
    return CERIUM_OK;
}

int pull_remove(const char *path, bool really, cerium_error *err)
{
    char name[TEXT_BYTES];
    unsigned n = 0;
    RETURN_IF(check_own(path, err));
    if (!really) return CERIUM_OK;
    snprintf(name, sizeof name, "%s", path);
    char *part = strstr(name, "-00001-of-");
    if (!part || sscanf(part, "-00001-of-%5u", &n) != 1 || n > SPLITS_MAX)
        return remove_one(path, err);
    for (unsigned i = 1; i <= n; i++) {
        char digits[8];
        snprintf(digits, sizeof digits, "%05u", i);
        memcpy(part + 1, digits, 5);
        RETURN_IF(remove_one(name, err));
    }
    return CERIUM_OK;
}

int program_pull(int argc, char **argv)
{
    static pull_args p = {.stall = 30};
    cerium_error err;
    RETURN_IF(command_parse(&pull_command, &p, argc, argv));
    if (argc - optind != (p.list ? 0 : 1)) return usage_error("pull", "name one model or address");
    return run(&p, argv[optind], &err) ? failed(&err) : 0;
}
