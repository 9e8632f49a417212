/* fuzz_exists.c - all inputs that define known names, and code that uses them: sources of
 * Python, of scripts and declarations, of Go, a go.mod, a JDK's classes, a listing of an
 * interpreter, a file of an index, and lines of code.
 *
 * Input: a byte that chooses, a byte for the length of pieces, then the text. */
#include <sys/mman.h>
#include <unistd.h>

#include "exists/code_file.h"
#include "exists/exists_names.h"
#include "exists/go.h"
#include "exists/index.h"
#include "exists/java.h"
#include "exists/listing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PYTHON, STUB, SCRIPT, TYPES, LISTING, FILE_OF_INDEX, CODE_PYTHON, CODE_SCRIPT,
       GO, GO_MOD, JAVA_IMAGE, CODE_GO, CODE_C, CODE_JAVA, CHOICES };

static names_index *known;

static bool find(void *user, view specifier, char *out)
{
    (void)user;
    snprintf(out, NAMES_WORD_MAX, "j%.*s", (int)(specifier.len < 200 ? specifier.len : 200),
             specifier.ptr);
    return specifier.len != 0;
}

static void see_line(void *user, view directive, view module, view version)
{
    (void)version;
    CHECK(directive.len && module.len);
    names_add(user, 0, module, NAME_VALUE, 0);
}

static void read_names(name_table *b, uint8_t what, view text)
{
    uint32_t module = names_module(b, VIEW("pm"), SCOPE_PACKAGE, VIEW("m"));
    b->stub = what == STUB;
    if (what == PYTHON || what == STUB) python_read(b, module, VIEW("m"), true, text);
    if (what == SCRIPT || what == TYPES) script_read(b, module, text, what == TYPES, find, NULL);
    if (what == GO) go_read(b, module, VIEW("m"), text);
    if (what == GO_MOD) go_mod_each(text, see_line, b);
    if (what == JAVA_IMAGE) (void)java_image_read(b, text);
    if (what == LISTING) (void)listing_read(b, text, NULL);
    b->stub = false;
    static const char *const marks[] = {"g!", "gm", "c!", "v!", "p!", "dgm.org/x", "wgm.org/x"};
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        names_add(b, 0, view_of(marks[i]), NAME_VALUE, 0);
    names_resolve(b);
}

static names_index *seal(uint8_t what, view text)
{
    name_table b;
    names_index *x = NULL;
    cerium_error err;
    if (names_open(&b)) return NULL;
    read_names(&b, what, text);
    if (index_seal(&x, &b, 1, &err)) x = NULL;
    names_close(&b);
    return x;
}

static bool look(void *user, view name)
{
    index_name found;
    const names_index *x = user;
    CHECK(index_find(x, 0, name, &found) != INDEX_NOT || name.len <= NAMES_WORD_MAX);
    return true;
}

/* An accepted file answers any query. */
static void map_index(view text)
{
    char path[64];
    cerium_error err;
    names_index *x = NULL;
    int fd = memfd_create("index", MFD_CLOEXEC);
    if (fd < 0) return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, text.ptr, text.len) == (ssize_t)text.len && !index_map(&x, path, 0, &err))
        index_each(x, 0, look, x);
    index_close(&x);
    close(fd);
}

/* The same findings whether a line comes whole or in pieces, except late ones. */
static void read_code(guard_language language, view text, size_t step)
{
    exists_finding list[USES_FINDINGS_MAX];
    uses_state s;
    uses_begin(&s);
    for (size_t at = 0; at < text.len; at += step) {
        size_t n = text.len - at < step ? text.len - at : step;
        view line = {text.ptr + at, n};
        uint32_t found = uses_line(known, &s, language, line, at % 3 == 0, list);
        CHECK(found <= USES_FINDINGS_MAX);
        for (uint32_t i = 0; i < found; i++) {
            char what[EXISTS_SAID_BYTES], instead[EXISTS_SAID_BYTES];
            CHECK(list[i].late || (list[i].begin <= list[i].end && list[i].end <= n));
            exists_describe(known, &list[i], what, instead);
            CHECK(*what && *instead);
        }
    }
    (void)uses_end(known, &s, list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        uint8_t what;
        guard_language language;
    } lines[] = {{CODE_PYTHON, GUARD_PYTHON}, {CODE_SCRIPT, GUARD_TYPESCRIPT}, {CODE_GO, GUARD_GO},
                 {CODE_C, GUARD_CPP}, {CODE_JAVA, GUARD_JAVA}};
    static const char code[] =
        "__all__ = ['array']\nclass A(object):\n    def f(self, x, *, y=1): pass\n"
        "def array(a, *, dtype=None): pass\nfrom .b import c\n";
    if (!known) known = seal(PYTHON, VIEW(code));
    if (size < 2 || !known) return 0;
    view text = {(const char *)data + 2, size - 2};
    uint8_t what = data[0] % CHOICES;
    names_index *x = NULL;
    bool names_ = what < FILE_OF_INDEX || what == GO || what == GO_MOD || what == JAVA_IMAGE;
    if (names_) x = seal(what, text);
    if (x) index_each(x, 0, look, x);
    index_close(&x);
    if (what == FILE_OF_INDEX) map_index(text);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        if (lines[i].what == what) read_code(lines[i].language, text, data[1] + 1u);
    return 0;
}
