/* verdict.c - the last words of an answer that the watchdog ends.
 *
 * Agents repeat a request whose answer did not end well, a dozen times without success: the guard
 * decides the same each time.  So the answer ends well, and says what was withheld, why, and how to
 * write it safely: for the reader, and for the model, which sees it at the next turn.  An open call
 * is dropped. */
#include "protocol/tool_guide.h"
#include "protocol/writer.h"

/* The text names only the newest finding: the others were fixed. */
int verdict_note(writer_choice *c, const protocol_finding *f)
{
    char head[512];
    static const char safe[] = "\nSafe form: ";
    const char *why = f->message ? f->message : f->weakness;
    char number[24] = "";
    if (f->cwe) snprintf(number, sizeof number, "CWE-%u, ", f->cwe);
    int n = snprintf(head, sizeof head,
                     "[watchdog] Line %u%s%s was withheld: %.300s (%s%.60s).", f->line,
                     f->language ? " of " : "", f->language ? f->language : "", why, number,
                     f->rule ? f->rule : f->weakness);
    c->verdict.max = PROTOCOL_ANSWER_BYTES_MAX;
    c->verdict.len = 0;
    if ((size_t)n >= sizeof head) n = sizeof head - 1;
    RETURN_IF(bytes_append(&c->verdict, head, (size_t)n));
    if (!f->idiom || !*f->idiom) return CERIUM_OK;
    RETURN_IF(bytes_append(&c->verdict, safe, sizeof safe - 1));
    return bytes_append(&c->verdict, f->idiom, strlen(f->idiom));
}

/* A program reads text in a given format, and completions are code. */
bool verdict_is_sent(const protocol_writer *w, const writer_choice *c, protocol_end end)
{
    const protocol_request *r = w->r;
    return end == PROTOCOL_END_GUARDED && r->talks && !r->compacts && !r->guard_ends &&
           !protocol_has_format(r) && c->verdict.len;
}

/* Does a text end within a fence?  A line that begins with ``` opens one, and the next closes
 * it. */
bool writer_in_fence(view text)
{
    bool in = false, at_start = true;
    for (size_t i = 0; i < text.len; i++) {
        if (at_start && view_starts((view){text.ptr + i, text.len - i}, VIEW("```"))) in = !in;
        at_start = text.ptr[i] == '\n' || (at_start && text.ptr[i] == ' ');
    }
    return in;
}

static int add(bytes *to, view text) { return bytes_append(to, text.ptr, text.len); }

/* After the text so far, and outside its fence. */
int verdict_words(const writer_choice *c, bytes *out)
{
    const bool is_text = c->piece == PIECE_TEXT;
    const view before = {c->text.ptr ? c->text.ptr : "", is_text ? c->text.len : 0};
    const view name = {c->call_name.ptr, c->call_name.len};
    if (before.len && before.ptr[before.len - 1] != '\n') RETURN_IF(add(out, VIEW("\n")));
    if (writer_in_fence(before)) RETURN_IF(add(out, VIEW("```\n")));
    if (before.len) RETURN_IF(add(out, VIEW("\n")));
    RETURN_IF(add(out, (view){c->verdict.ptr, c->verdict.len}));
    if (c->piece == PIECE_CALL) {
        RETURN_IF(add(out, VIEW("\nThe call of ")));
        RETURN_IF(add(out, name));
        RETURN_IF(add(out, VIEW(" that had it was not made.")));
    }
    return add(out, VIEW("\nWrite it in the safe form and go on; "
                         "the same line is withheld again."));
}

view protocol_writer_verdict(const protocol_writer *w, uint32_t choice)
{
    CHECK(choice < w->n_choices);
    const writer_choice *c = &w->choices[choice];
    if (!c->sent_verdict) return (view){NULL, 0};
    return (view){c->verdict.ptr, c->verdict.len};
}
