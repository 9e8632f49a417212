/* call_marks.c - owns reading the form of calls. */
#include "reader/call_marks.h"

#include "base/json.h"

static const char *text_of(const json_t *in, const char *key, bool *good)
{
    const json_t *value = json_object_get(in, key);
    const char *text = json_string_value(value);
    if (!text) return "";
    if (json_string_length(value) > CALL_MARK_BYTES_MAX) *good = false;
    return text;
}

/* It has something that ends the text before: more than white space and ids. */
static bool is_mark(const char *text)
{
    const size_t n = strlen(text);
    return n && text[n - 1] != CALL_MARK_ANY && text[strspn(text, " \t\r\n")];
}

static bool is_whole(const call_marks *m)
{
    if (!m->json) return *m->open && *m->key && *m->key_end && *m->value_end && *m->end;
    return is_mark(m->open) && is_mark(m->name_end) && (!*m->end || is_mark(m->end)) &&
           (!*m->section || is_mark(m->section)) && (!*m->section_end || is_mark(m->section_end));
}

bool call_marks_read(call_marks *out, const char *form)
{
    json_error_t error;
    bool good = true;
    *out = (call_marks){0};
    if (!form || form[0] != '{') return false;
    out->owner = json_read(view_of(form), 0, &error);
    out->section = text_of(out->owner, "section", &good);
    out->open = text_of(out->owner, "open", &good);
    out->name_end = text_of(out->owner, "name_end", &good);
    out->key = text_of(out->owner, "key", &good);
    out->key_end = text_of(out->owner, "key_end", &good);
    out->json_key_end = text_of(out->owner, "json_key_end", &good);
    out->value_end = text_of(out->owner, "value_end", &good);
    out->between = text_of(out->owner, "between", &good);
    out->end = text_of(out->owner, "end", &good);
    out->section_end = text_of(out->owner, "section_end", &good);
    out->opens_thought = json_is_true(json_object_get(out->owner, "opens_thought"));
    out->json = json_is_true(json_object_get(out->owner, "json"));
    if (good && is_whole(out)) return true;
    call_marks_free(out);
    return false;
}

void call_marks_free(call_marks *marks)
{
    json_decref(marks->owner);
    *marks = (call_marks){0};
}
