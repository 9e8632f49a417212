/* repair_words.c - the words of a refusal in each language. */
#include "guard/repair_parts.h"

enum { MESSAGE_BYTES = 160 };

void repair_put(writing *w, view text)
{
    if (text.len > sizeof w->text - w->n) {
        w->fits = false;
        return;
    }
    if (text.len) memcpy(w->text + w->n, text.ptr, text.len);
    w->n += text.len;
}

void repair_put_text(writing *w, const char *text) { repair_put(w, view_of(text)); }

view repair_part(view text, size_t from, size_t to)
{
    return from < to ? (view){text.ptr + from, to - from} : (view){NULL, 0};
}

bool repair_is_script(guard_language l)
{
    return l == GUARD_JAVASCRIPT || l == GUARD_TYPESCRIPT || l == GUARD_TSX;
}

/* ---- the words of a refusal ---- */

/* The fault, without signs that have a meaning in some text. */
static void repair_put_reason(writing *w, const guard_finding *f)
{
    char text[MESSAGE_BYTES];
    if (f->cwe) snprintf(text, sizeof text, "CWE-%u: %s", f->cwe, f->message);
    else snprintf(text, sizeof text, "%s", f->message);
    for (const char *c = text; *c; c++)
        if (!strchr("\"'`\\{}$#%<>*!", *c)) repair_put(w, (view){c, 1});
}

static void repair_put_quoted(writing *w, const repair *r, char quote)
{
    if (r->f->quote == quote) quote = quote == '"' ? '\'' : '"';
    repair_put(w, (view){&quote, 1});
    repair_put_reason(w, r->f);
    repair_put(w, (view){&quote, 1});
}

/* C's abort() is declared in a header that the file may lack. */
static const char *refusal_in_c(const repair *r)
{
    return r->f->has_environment ? "abort()" : "__builtin_trap()";
}

/* ends: with the terminator of a statement, if the language has one. */
bool repair_put_statement(writing *w, const repair *r, bool ends)
{
    const char *before, *after = ends ? ");" : ")";
    char quote = '"';
    switch (r->f->language) {
    case GUARD_PYTHON: before = "raise NotImplementedError(", after = ")"; break;
    case GUARD_RUBY: before = "raise NotImplementedError, ", after = ""; break;
    case GUARD_JAVASCRIPT:
    case GUARD_TYPESCRIPT:
    case GUARD_TSX: before = "throw new Error("; break;
    case GUARD_JAVA: /* javac requires the code after it to be reachable */
        before = ends && !r->leaves ? "if (true) throw new UnsupportedOperationException("
                                    : "throw new UnsupportedOperationException(";
        break;
    case GUARD_GO: before = "panic(", after = ")"; break;
    case GUARD_PHP: before = "throw new \\RuntimeException(", quote = '\''; break;
    case GUARD_SHELL: before = "{ echo ", after = " >&2; exit 1; }", quote = '\''; break;
    case GUARD_C:
    case GUARD_CPP:
        if (r->outside) {
            repair_put_text(w, "#error \"");
            repair_put_reason(w, r->f);
            repair_put_text(w, "\"");
            return true;
        }
        repair_put_text(w, refusal_in_c(r));
        repair_put_text(w, ends ? "; /* " : " /* ");
        repair_put_reason(w, r->f);
        repair_put_text(w, " */");
        return true;
    default: return false;
    }
    repair_put_text(w, before);
    repair_put_quoted(w, r, quote);
    repair_put_text(w, after);
    return true;
}

/* A function that refuses fits as any value, and as a function called with the following text. */
bool repair_put_expression(writing *w, const repair *r, bool called)
{
    guard_language l = r->f->language;
    bool c = l == GUARD_C || l == GUARD_CPP;
    if (l == GUARD_JAVA && !called) {
        repair_put_text(w, "java.util.Objects.requireNonNullElseGet(null, () -> { "
                    "throw new UnsupportedOperationException(");
        repair_put_quoted(w, r, '"');
        repair_put_text(w, "); })");
        return true;
    }
    if (l == GUARD_TYPESCRIPT || l == GUARD_TSX) repair_put_text(w, "((): any => { ");
    else if (repair_is_script(l)) repair_put_text(w, "(() => { ");
    else if (l == GUARD_PHP) repair_put_text(w, "(function () { ");
    else if (l == GUARD_RUBY) repair_put_text(w, "raise(NotImplementedError, ");
    else if (!c || called) return false;
    if (c) {
        repair_put_text(w, "(");
        repair_put_text(w, refusal_in_c(r));
        repair_put_text(w, !r->pointer ? ", 0)" : l == GUARD_C ? ", (void *)0)" : ", nullptr)");
    } else if (l == GUARD_RUBY) {
        repair_put_quoted(w, r, '"');
        repair_put_text(w, ")");
    } else {
        (void)repair_put_statement(w, r, true);
        repair_put_text(w, called ? " })" : " })()");
    }
    return !called || l != GUARD_RUBY;
}
