/* ignore.c - patterns of gitignore(5), and the list of files in a git index. */
#include "programs/ignore.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { TEXT_BYTES_MAX = 64 << 20, INDEX_BYTES_MAX = 256 << 20 };

/* ---- patterns ---- */

/* "[a-z]" at pattern[*at]: moves after it.  A bracket without its closing one stands for itself. */
static bool in_brackets(view pattern, size_t *at, unsigned char c)
{
    size_t i = *at + 1;
    bool inverted = i < pattern.len && (pattern.ptr[i] == '!' || pattern.ptr[i] == '^');
    bool found = false, first = true;
    for (i += inverted; i < pattern.len && (first || pattern.ptr[i] != ']'); first = false) {
        if (pattern.ptr[i] == '\\' && i + 1 < pattern.len) i++;
        unsigned char low = (unsigned char)pattern.ptr[i++], high = low;
        if (i + 1 < pattern.len && pattern.ptr[i] == '-' && pattern.ptr[i + 1] != ']') {
            high = (unsigned char)pattern.ptr[i + 1];
            i += 2;
        }
        found |= c >= low && c <= high;
    }
    if (i >= pattern.len) {
        *at += 1;
        return c == '[';
    }
    *at = i + 1;
    return found != inverted;
}

/* Match one name.  The last star is lengthened on a mismatch: at most |pattern| * |name| steps. */
static bool name_matches(view pattern, view name)
{
    size_t p = 0, n = 0, star = SIZE_MAX, taken = 0;
    while (n < name.len) {
        size_t next = p;
        bool fits = false;
        if (p < pattern.len && pattern.ptr[p] == '*') {
            star = ++p;
            taken = n;
            continue;
        }
        if (p < pattern.len && pattern.ptr[p] == '[') {
            fits = in_brackets(pattern, &next, (unsigned char)name.ptr[n]);
        } else if (p < pattern.len) {
            bool escaped = pattern.ptr[p] == '\\' && p + 1 < pattern.len;
            char c = pattern.ptr[p + escaped];
            fits = (c == '?' && !escaped) || c == name.ptr[n];
            next = p + escaped + 1;
        }
        if (fits) {
            p = next;
            n++;
        } else if (star != SIZE_MAX) {
            p = star;
            n = ++taken;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.ptr[p] == '*') p++;
    return p == pattern.len;
}

/* Up to the next slash; *rest is the part after it. */
static view first_name(view path, view *rest)
{
    const char *slash = memchr(path.ptr, '/', path.len);
    size_t len = slash ? (size_t)(slash - path.ptr) : path.len;
    *rest = slash ? (view){slash + 1, path.len - len - 1} : (view){path.ptr + path.len, 0};
    return (view){path.ptr, len};
}

bool ignore_glob(view pattern, view path)
{
    view after = {NULL, 0}, tried = path, rest, left; /* after the last "**", and where it ends */
    while (path.len) {
        view part = first_name(pattern, &rest), name = first_name(path, &left);
        if (pattern.len && view_equal(part, VIEW("**"))) {
            if (!rest.len) return true;
            after = pattern = rest;
            tried = path;
        } else if (pattern.len && name_matches(part, name) && (!left.len || rest.len)) {
            pattern = rest;
            path = left;
        } else if (after.ptr) {
            (void)first_name(tried, &left);
            path = tried = left;
            pattern = after;
        } else {
            return false;
        }
    }
    return !pattern.len;
}

/* ---- files of patterns ---- */

static int read_whole(const char *path, size_t max, bytes *out)
{
    struct stat at;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), status = CERIUM_OK;
    *out = (bytes){.max = max};
    if (fd < 0) return CERIUM_OK;
    if (!fstat(fd, &at) && S_ISREG(at.st_mode) && at.st_size > 0 && (uint64_t)at.st_size <= max) {
        status = bytes_reserve(out, (size_t)at.st_size);
        if (!status) out->len = file_read_at(fd, out->ptr, (size_t)at.st_size, 0);
    }
    close(fd);
    return status;
}

static int add_rule(ignore_rules *r, view line, size_t base, size_t n_base)
{
    ignore_rule rule = {.base = base, .n_base = n_base};
    if (line.len && line.ptr[line.len - 1] == '\r') line.len--;
    while (line.len && line.ptr[line.len - 1] == ' ' &&
           (line.len < 2 || line.ptr[line.len - 2] != '\\'))
        line.len--;
    if (!line.len || *line.ptr == '#') return CERIUM_OK;
    rule.negated = *line.ptr == '!';
    if (rule.negated) line.ptr++, line.len--;
    rule.folders_only = line.len && line.ptr[line.len - 1] == '/';
    if (rule.folders_only) line.len--;
    rule.anchored = line.len && memchr(line.ptr, '/', line.len) != NULL;
    if (line.len && *line.ptr == '/') line.ptr++, line.len--;
    if (!line.len) return CERIUM_OK;
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 64;
        ignore_rule *more = memory_alloc(cap * sizeof *more);
        if (!more) return CERIUM_ERR_MEMORY;
        if (r->n) memcpy(more, r->rules, r->n * sizeof *more);
        memory_free(r->rules);
        r->rules = more;
        r->cap = cap;
    }
    rule.text = r->text.len;
    rule.len = line.len;
    RETURN_IF(bytes_append(&r->text, line.ptr, line.len));
    r->rules[r->n++] = rule;
    return CERIUM_OK;
}

int ignore_read(ignore_rules *r, const char *path, const char *base)
{
    bytes file;
    r->text.max = TEXT_BYTES_MAX;
    const size_t at = r->text.len, n_base = strlen(base);
    int status = read_whole(path, TEXT_BYTES_MAX / 2, &file);
    if (!status && n_base && file.len) status = bytes_append(&r->text, base, n_base);
    view rest = {file.ptr, file.len};
    while (!status && rest.len) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        view line = {rest.ptr, end ? (size_t)(end - rest.ptr) : rest.len};
        size_t used = line.len + (end != NULL);
        rest = (view){rest.ptr + used, rest.len - used};
        status = add_rule(r, line, at, n_base);
    }
    bytes_free(&file);
    return status;
}

void ignore_cut(ignore_rules *r, size_t n)
{
    CHECK(n <= r->n);
    if (n == r->n) return;
    r->text.len = r->rules[n].n_base ? r->rules[n].base : r->rules[n].text;
    r->n = n;
}

static bool rule_matches(const ignore_rules *r, const ignore_rule *rule, view path)
{
    const char *text = r->text.ptr;
    if (!view_starts(path, (view){text + rule->base, rule->n_base})) return false;
    path = (view){path.ptr + rule->n_base, path.len - rule->n_base};
    view pattern = {text + rule->text, rule->len};
    if (rule->anchored) return ignore_glob(pattern, path);
    const char *slash = memrchr(path.ptr, '/', path.len);
    size_t before = slash ? (size_t)(slash + 1 - path.ptr) : 0;
    return ignore_glob(pattern, (view){path.ptr + before, path.len - before});
}

bool ignore_matches(const ignore_rules *r, const char *path, bool is_folder)
{
    for (size_t i = r->n; i-- > 0;) { /* the last match decides */
        const ignore_rule *rule = &r->rules[i];
        if (rule->folders_only && !is_folder) continue;
        if (rule_matches(r, rule, view_of(path))) return !rule->negated;
    }
    return false;
}

void ignore_free(ignore_rules *r)
{
    bytes_free(&r->text);
    memory_free(r->rules);
    *r = (ignore_rules){0};
}

/* ---- the index ---- */

enum { ENTRY_BYTES = 62, HEADER_BYTES = 12, FLAG_EXTENDED = 0x4000 };

static uint32_t read_u32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static int add_name(tracked_files *t, const char *name, size_t len)
{
    if (t->n == t->cap) return CERIUM_ERR_CAPACITY; /* more entries than the head declares */
    t->names[t->n++] = t->text.len;
    RETURN_IF(bytes_append(&t->text, name, len));
    return bytes_append(&t->text, "", 1);
}

/* The name of an entry of version 4: drop this many bytes of the previous name, then append
 * these. */
static int add_shortened(tracked_files *t, view *rest)
{
    char name[4096];
    const char *last = t->n ? t->text.ptr + t->names[t->n - 1] : "";
    size_t drop = 0, kept = strlen(last), i = 0;
    for (bool more = true; more; i++) { /* git's own variable-length numbers */
        if (i == rest->len || i > 4) return CERIUM_ERR_FORMAT;
        more = rest->ptr[i] & 0x80;
        drop = (drop + (i > 0)) << (i ? 7 : 0) | ((unsigned char)rest->ptr[i] & 0x7f);
    }
    const char *end = memchr(rest->ptr + i, 0, rest->len - i);
    if (!end || drop > kept) return CERIUM_ERR_FORMAT;
    kept -= drop;
    size_t more = (size_t)(end - rest->ptr) - i;
    if (kept + more >= sizeof name) return CERIUM_ERR_FORMAT;
    memcpy(name, last, kept);
    memcpy(name + kept, rest->ptr + i, more);
    *rest = (view){end + 1, rest->len - (size_t)(end + 1 - rest->ptr)};
    return add_name(t, name, kept + more);
}

static int add_entry(tracked_files *t, view *rest, uint32_t version)
{
    if (rest->len <= ENTRY_BYTES) return CERIUM_ERR_FORMAT;
    bool extended = version >= 3 && read_u32(rest->ptr + ENTRY_BYTES - 4) & FLAG_EXTENDED;
    size_t head = ENTRY_BYTES + (extended ? 2 : 0);
    if (version == 4) {
        if (rest->len <= head) return CERIUM_ERR_FORMAT;
        *rest = (view){rest->ptr + head, rest->len - head};
        return add_shortened(t, rest);
    }
    const char *end = rest->len > head ? memchr(rest->ptr + head, 0, rest->len - head) : NULL;
    if (!end) return CERIUM_ERR_FORMAT;
    size_t len = (size_t)(end - rest->ptr) - head, all = (head + len + 8) & ~(size_t)7;
    RETURN_IF(add_name(t, rest->ptr + head, len));
    if (all > rest->len) all = rest->len;
    *rest = (view){rest->ptr + all, rest->len - all};
    return CERIUM_OK;
}

int tracked_read(tracked_files *t, const char *path)
{
    bytes file;
    *t = (tracked_files){.text.max = INDEX_BYTES_MAX};
    int status = read_whole(path, INDEX_BYTES_MAX, &file);
    uint32_t version = file.len > HEADER_BYTES ? read_u32(file.ptr + 4) : 0;
    if (!status && version >= 2 && version <= 4 && !memcmp(file.ptr, "DIRC", 4)) {
        view rest = {file.ptr + HEADER_BYTES, file.len - HEADER_BYTES};
        t->cap = read_u32(file.ptr + 8);
        if (t->cap > file.len / (version == 4 ? 2 : ENTRY_BYTES)) t->cap = 0;
        t->names = memory_alloc((t->cap + 1) * sizeof *t->names);
        status = t->names ? CERIUM_OK : CERIUM_ERR_MEMORY;
        while (!status && t->n < t->cap) status = add_entry(t, &rest, version);
    }
    bytes_free(&file);
    if (status) tracked_free(t);
    return status == CERIUM_ERR_MEMORY ? status : CERIUM_OK;
}

bool tracked_has(const tracked_files *t, const char *path, bool is_folder)
{
    const size_t len = strlen(path);
    size_t low = 0, high = t->n;
    while (low < high) { /* the first that is not less than path, or than path and a slash */
        size_t middle = low + (high - low) / 2;
        const char *name = t->text.ptr + t->names[middle];
        int order = strncmp(name, path, len);
        if (!order) order = is_folder ? (unsigned char)name[len] - '/' : name[len] != 0;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    if (low == t->n) return false;
    const char *name = t->text.ptr + t->names[low];
    return !strncmp(name, path, len) && name[len] == (is_folder ? '/' : 0);
}

void tracked_free(tracked_files *t)
{
    bytes_free(&t->text);
    memory_free(t->names);
    *t = (tracked_files){0};
}
