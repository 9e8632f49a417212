/* java_image.c - the classes of a JDK: the names in its lib/modules.
 *
 * The file is a "jimage": a header of seven words, tables of hashes and of places, then for each
 * resource attributes (a byte: kind and length; the value, most significant byte first), then the
 * strings that they name.  Its layout is that of OpenJDK's jdk.internal.jimage. */
#include "exists/java.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER_BYTES = 28, MAGIC = (int)0xcafedada,
    ATTRIBUTE_PARENT = 2, ATTRIBUTE_BASE = 3, ATTRIBUTE_EXTENSION = 4, ATTRIBUTES = 8,
};

typedef struct {
    uint32_t n;                 /* places in the table of offsets */
    view offsets, places, strings;
} image;

static uint32_t word_at(view text, size_t at)
{
    uint32_t word;
    memcpy(&word, text.ptr + at, sizeof word);
    return word;
}

static view take(view *rest, size_t n)
{
    view part = {rest->ptr, n <= rest->len ? n : 0};
    if (n > rest->len) rest->len = 0;
    else *rest = (view){rest->ptr + n, rest->len - n};
    return part;
}

static bool open_image(image *m, view file)
{
    if (file.len < HEADER_BYTES || word_at(file, 0) != (uint32_t)MAGIC) return false;
    m->n = word_at(file, 16);
    size_t places = word_at(file, 20), strings = word_at(file, 24), n = m->n;
    view rest = {file.ptr + HEADER_BYTES, file.len - HEADER_BYTES};
    (void)take(&rest, n * 4);
    m->offsets = take(&rest, n * 4);
    m->places = take(&rest, places);
    m->strings = take(&rest, strings);
    return n && m->offsets.len == n * 4 && m->places.len == places && places &&
           m->strings.len == strings && strings;
}

static view string_at(const image *m, uint64_t at)
{
    if (at >= m->strings.len) return (view){"", 0};
    const char *text = m->strings.ptr + at;
    return (view){text, strnlen(text, m->strings.len - at)};
}

/* A class of a package: Map$Entry unchanged. */
static void add_class(name_table *b, view package, view name)
{
    char label[NAMES_WORD_MAX];
    if (!package.len || package.len + 2 > sizeof label) return;
    label[0] = 'v';
    for (size_t i = 0; i < package.len; i++)
        label[i + 1] = package.ptr[i] == '/' ? '.' : package.ptr[i];
    view path = {label, package.len + 1};
    uint32_t module = names_module(b, path, SCOPE_PACKAGE, (view){label + 1, package.len});
    if (module != NAMES_NONE) names_add(b, module, name, NAME_VALUE, 0);
}

static void read_place(name_table *b, const image *m, size_t at)
{
    uint64_t values[ATTRIBUTES] = {0};
    while (at < m->places.len) {
        uint8_t head = (uint8_t)m->places.ptr[at++];
        uint32_t kind = head >> 3, n = (head & 7u) + 1;
        if (!kind || kind >= ATTRIBUTES || n > m->places.len - at) break;
        for (uint32_t i = 0; i < n; i++)
            values[kind] = values[kind] << 8 | (uint8_t)m->places.ptr[at++];
    }
    view name = string_at(m, values[ATTRIBUTE_BASE]);
    bool is_class = view_equal(string_at(m, values[ATTRIBUTE_EXTENSION]), VIEW("class"));
    if (is_class && name.len) add_class(b, string_at(m, values[ATTRIBUTE_PARENT]), name);
}

bool java_image_read(name_table *b, view file)
{
    image m;
    if (!open_image(&m, file)) return false;
    for (uint32_t i = 0; i < m.n && !b->status; i++)
        read_place(b, &m, word_at(m.offsets, (size_t)i * 4));
    return !b->status;
}

void java_classes(name_table *b, const char *program)
{
    char path[4096];
    struct stat at;
    int n = snprintf(path, sizeof path, "%s", program);
    /* HOME/bin/java; HOME/lib/modules has the classes. */
    for (int up = 0; up < 2 && n < (int)sizeof path; up++) {
        char *slash = strrchr(path, '/');
        if (slash) *slash = 0;
    }
    size_t len = strlen(path);
    if (n >= (int)sizeof path || len + sizeof "/lib/modules" > sizeof path) return;
    memcpy(path + len, "/lib/modules", sizeof "/lib/modules");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool fits = fd >= 0 && !fstat(fd, &at) && S_ISREG(at.st_mode) && at.st_size > HEADER_BYTES;
    void *map = fits ? mmap(NULL, (size_t)at.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (fd >= 0) close(fd);
    if (map == MAP_FAILED) return;
    b->pass = 0;
    if (java_image_read(b, (view){map, (size_t)at.st_size}))
        (void)names_module(b, VIEW("v!"), SCOPE_OPEN, VIEW("v!"));
    munmap(map, (size_t)at.st_size);
}
