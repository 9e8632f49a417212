/* exists_near.c - the existing names nearest to a missing one, and the message for it. */
#include <ctype.h>

#include "exists/exists_names.h"
#include "exists/known_packages.h"

enum { EDIT_MAX = 63 };

typedef struct {
    view wrong;
    view best[EXISTS_NEAR_MAX];
    int score[EXISTS_NEAR_MAX];
    uint32_t n;
} search;

const char *exists_kind_name(uint8_t kind)
{
    static const char *const names_[] = {"import", "symbol", "attribute", "keyword"};
    CHECK(kind < ARRAY_LEN(names_));
    return names_[kind];
}

static char low(char c) { return (char)tolower((unsigned char)c); }

/* The number of differing letters, at most `limit` + 1; a swap of two counts one. */
static int edits(view a, view b, int limit)
{
    uint8_t rows[3][EDIT_MAX + 1];
    if (a.len > EDIT_MAX || b.len > EDIT_MAX) return limit + 1;
    if ((a.len > b.len ? a.len - b.len : b.len - a.len) > (size_t)limit) return limit + 1;
    for (size_t k = 0; k <= b.len; k++) rows[0][k] = (uint8_t)k;
    for (size_t i = 1; i <= a.len; i++) {
        uint8_t *now = rows[i % 3], *was = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = (uint8_t)i;
        for (size_t k = 1; k <= b.len; k++) {
            bool same = low(a.ptr[i - 1]) == low(b.ptr[k - 1]);
            uint8_t least = (uint8_t)(was[k - 1] + !same);
            if (was[k] + 1 < least) least = (uint8_t)(was[k] + 1);
            if (now[k - 1] + 1 < least) least = (uint8_t)(now[k - 1] + 1);
            bool swap = i > 1 && k > 1 && low(a.ptr[i - 1]) == low(b.ptr[k - 2]) &&
                        low(a.ptr[i - 2]) == low(b.ptr[k - 1]);
            if (swap && before[k - 2] + 1 < least) least = (uint8_t)(before[k - 2] + 1);
            now[k] = least;
        }
    }
    return rows[a.len % 3][b.len];
}

/* The next part of a name: snake_case, camelCase, digits. */
static view next_part(view *rest)
{
    *rest = view_trim_start(*rest, "_-./$");
    size_t n = rest->len ? 1 : 0;
    while (n < rest->len && !strchr("_-./$", rest->ptr[n]) &&
           !(isupper((unsigned char)rest->ptr[n]) && !isupper((unsigned char)rest->ptr[n - 1])))
        n++;
    view part = {rest->ptr, n};
    *rest = (view){rest->ptr + n, rest->len - n};
    return part;
}

/* The number of letters in parts that both names have. */
static int shared(view a, view b)
{
    int n = 0;
    while (a.len) {
        view part = next_part(&a), rest = b;
        while (part.len > 2 && rest.len) {
            view other = next_part(&rest);
            size_t len = part.len < other.len ? part.len : other.len, k = 0;
            while (k < len && low(part.ptr[k]) == low(other.ptr[k])) k++;
            if (k >= 3 && k + 2 >= part.len && k + 3 >= other.len) {
                n += (int)k;
                break;
            }
        }
    }
    return n;
}

/* Smaller is nearer; 100: not near. */
static int distance(view wrong, view name)
{
    int limit = wrong.len < 4 ? 1 : wrong.len < 8 ? 2 : 3;
    int n = edits(wrong, name, limit);
    if (n <= limit) return n * 2;
    int same = shared(wrong, name), of = (int)(wrong.len > name.len ? wrong.len : name.len);
    if (same * 2 < of) return 100;
    return 8 + (of - same);
}

static bool look(void *user, view name)
{
    search *s = user;
    bool hidden = name.len && name.ptr[0] == '_' && (!s->wrong.len || s->wrong.ptr[0] != '_');
    if (hidden || !name.len || name.ptr[0] == '(') return true;
    int score = distance(s->wrong, name);
    if (score >= 100) return true;
    for (uint32_t i = 0; i < s->n; i++)
        if (view_equal(s->best[i], name)) return true;
    uint32_t at = s->n < EXISTS_NEAR_MAX ? s->n : EXISTS_NEAR_MAX;
    while (at > 0 && s->score[at - 1] > score) at--;
    if (at == EXISTS_NEAR_MAX) return true;
    uint32_t last = s->n < EXISTS_NEAR_MAX ? s->n++ : EXISTS_NEAR_MAX - 1;
    for (uint32_t i = last; i > at; i--) {
        s->best[i] = s->best[i - 1];
        s->score[i] = s->score[i - 1];
    }
    s->best[at] = name;
    s->score[at] = score;
    return true;
}

/* Modules of the root: the siblings of the missing one. */
typedef struct {
    bool (*each)(void *user, view name);
    void *user;
    char letter;
    view above; /* the path above it, or "" */
} siblings;

static bool look_module(void *user, view path)
{
    siblings *m = user;
    if (path.len < 2 || path.ptr[0] != m->letter) return true;
    path = (view){path.ptr + 1, path.len - 1};
    if (m->above.len) {
        if (!view_starts(path, m->above) || path.len < m->above.len + 2) return true;
        path = (view){path.ptr + m->above.len + 1, path.len - m->above.len - 1};
    }
    const char stop = m->letter == 'p' || m->letter == 'v' ? '.' : '/';
    bool below = memchr(path.ptr, stop, path.len) != NULL;
    bool is_there = path.len && (!below || m->letter == 'c');
    return is_there ? m->each(m->user, path) : true;
}

/* The nearest existing names in the scope of a missing one, the best first. */
static uint32_t nearest(const names_index *x, const exists_finding *f, view out[EXISTS_NEAR_MAX])
{
    search s = {.wrong = {f->name + f->word, strcspn(f->name + f->word, ")")}};
    siblings m = {look, &s, f->letter, {f->name, f->word ? f->word - 1u : 0}};
    if (f->kind == EXISTS_IMPORT) index_each(x, 0, look_module, &m);
    if (f->scope != NAMES_NONE) index_each(x, f->scope, look, &s);
    if (f->kind == EXISTS_IMPORT && f->scope == NAMES_NONE) known_each(f->letter, look, &s);
    memcpy(out, s.best, s.n * sizeof *out);
    return s.n;
}

void exists_each(const names_index *x, const exists_finding *f,
                 bool (*each)(void *user, view name), void *user)
{
    siblings m = {each, user, f->letter, {f->name, f->word ? f->word - 1u : 0}};
    bool has_modules = f->kind == EXISTS_IMPORT;
    bool only_modules = has_modules && f->letter == 'p';
    if (f->scope != NAMES_NONE && !only_modules) index_each(x, f->scope, each, user);
    if (f->letter == 'p' && f->scope != NAMES_NONE &&
        (f->kind == EXISTS_SYMBOL || f->kind == EXISTS_ATTRIBUTE) &&
        index_flags(x, f->scope) & SCOPE_PACKAGE) {
        m.above = index_label(x, f->scope);
        has_modules = true;
    }
    if (has_modules) index_each(x, 0, look_module, &m);
}

static void put(char *out, const char *text, view more)
{
    size_t n = strlen(out);
    if (!more.len) more.ptr = "";
    snprintf(out + n, EXISTS_SAID_BYTES - n, "%s%.*s", text, (int)more.len, more.ptr);
}

/* Other places of the name in the same package. */
static bool find_elsewhere(const names_index *x, const exists_finding *f, view *path)
{
    view word = view_of(f->name + f->word), below = {f->name, f->word ? f->word - 1u : 0};
    bool named = f->kind == EXISTS_SYMBOL || f->kind == EXISTS_ATTRIBUTE;
    if (!named || !below.len) return false;
    const char *stop = memchr(below.ptr, f->letter == 'p' ? '.' : '/', below.len);
    if (stop && below.ptr[0] != '@') below.len = (size_t)(stop - below.ptr);
    return index_elsewhere(x, f->letter, below, word, path);
}

/* Were the installed packages read? */
static bool was_read(const names_index *x, char letter)
{
    const char mark[] = {letter, '!'};
    index_name found;
    return index_find(x, 0, (view){mark, sizeof mark}, &found) == INDEX_THERE;
}

/* Classes of Java as people write them. */
static void use_dots(char *text)
{
    for (; *text; text++)
        if (*text == '$') *text = '.';
}

void exists_describe(const names_index *x, const exists_finding *f, char what[EXISTS_SAID_BYTES],
                     char instead[EXISTS_SAID_BYTES])
{
    view near[EXISTS_NEAR_MAX], place, name = view_of(f->name), word = view_of(f->name + f->word);
    view above = {f->name, f->word ? f->word - 1u : 0};
    bool package = f->kind == EXISTS_IMPORT && f->scope == NAMES_NONE;
    what[0] = instead[0] = 0;
    if (package && f->declared) {
        put(what, "", name);
        put(what, " is declared, but is not installed", (view){NULL, 0});
        put(instead, "install it", (view){NULL, 0});
        return;
    }
    uint32_t n = nearest(x, f, near);
    if (package && known_has(f->letter, name)) {
        put(what, "", name);
        put(what, f->letter == 'c' ? " is a known header, but is not installed"
                                   : " is a known package, but is not installed",
            (view){NULL, 0});
        put(instead, "install it, or what is there", (view){NULL, 0});
        return;
    }
    bool go = package && f->letter == 'g';
    if (go && memchr(name.ptr, '.', strcspn(name.ptr, "/"))) {
        put(what, "", name);
        put(what, " is in no module that go.mod requires", (view){NULL, 0});
        put(instead, n ? "go get it; or " : "go get it, or what is required", (view){NULL, 0});
    } else if (package && !was_read(x, f->letter)) {
        put(what, "no known package is called ", name);
    } else if (package) {
        put(what, f->letter == 'c' ? "there is no header " : "there is no package ", name);
        put(what, " here", (view){NULL, 0});
    } else if (f->kind == EXISTS_KEYWORD) {
        word.len = strcspn(word.ptr, ")");
        put(what, "", above);
        put(what, "() has no keyword ", word);
    } else {
        put(what, "", above);
        put(what, f->kind == EXISTS_IMPORT ? " has no module " : " has no ", word);
    }
    if (find_elsewhere(x, f, &place)) {
        put(instead, "it is in ", place);
        if (n) put(instead, "; or ", (view){NULL, 0});
    }
    if (n && !instead[0]) put(instead, "did you mean ", (view){NULL, 0});
    for (uint32_t i = 0; i < n; i++) put(instead, i ? ", " : "", near[i]);
    if (!instead[0]) put(instead, "look up what is there", (view){NULL, 0});
    if (f->letter == 'v') {
        use_dots(what);
        use_dots(instead);
    }
}
