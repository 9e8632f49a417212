/* jinja_format.c - owns text with placeholders: Python's % and format(), and dates. */
#include <time.h>

#include "template/jinja_value.h"

enum { SPEC_BYTES = 16, FIELD_BYTES_MAX = 256 };

/* %[flags][width][.precision]c of one value. */
static void put_field(jinja_run *r, jinja_sink *sink, const char *spec, char c, jinja_value v,
                      uint32_t line)
{
    char format[SPEC_BYTES + 8], out[FIELD_BYTES_MAX];
    if (c == 's' || c == 'r') {
        if (*spec) jinja_fail(r, line, "%%%s%c is not supported", spec, c);
        else if (c == 'r') jinja_sink_repr(r, sink, v);
        else jinja_sink_value(r, sink, v);
        return;
    }
    if (!jinja_is_number(v)) {
        jinja_fail(r, line, "%%%c wants a number, not %s", c, jinja_kind_name(v));
    } else if (strchr("dixX", c)) {
        snprintf(format, sizeof format, "%%%sll%c", spec, c);
        long long whole = v.kind == KIND_INT    ? v.integer
                          : v.kind == KIND_BOOL ? v.truth
                          : v.real > -9e18 && v.real < 9e18 ? (long long)v.real : 0;
        snprintf(out, sizeof out, format, whole);
        jinja_sink_put(r, sink, view_of(out), JINJA_TEMPLATE);
    } else {
        snprintf(format, sizeof format, "%%%s%c", spec, c);
        snprintf(out, sizeof out, format, jinja_as_real(v));
        jinja_sink_put(r, sink, view_of(out), JINJA_TEMPLATE);
    }
}

/* Flags, width and precision that printf has as well: how many bytes; *bad: they are others. */
static size_t read_spec(view text, char spec[SPEC_BYTES], bool *bad)
{
    size_t n = 0, digits = 0;
    while (n < text.len && (strchr("0- +.", text.ptr[n]) ||
                            (text.ptr[n] >= '0' && text.ptr[n] <= '9')) && text.ptr[n]) {
        digits = text.ptr[n] >= '0' && text.ptr[n] <= '9' ? digits + 1 : 0;
        *bad = *bad || n + 1 >= SPEC_BYTES || digits > 2;
        if (!*bad) spec[n] = text.ptr[n];
        n++;
    }
    spec[*bad ? 0 : n] = 0;
    return n;
}

jinja_value jinja_percent(jinja_run *r, jinja_value s, const jinja_value *list, size_t n,
                          uint32_t line)
{
    jinja_sink sink = {0};
    size_t from = 0, used = 0;
    for (size_t i = 0; i < s.len && jinja_step(r, 1);) {
        const char *next = memchr(s.text + i, '%', s.len - i);
        if (!next) break;
        i = (size_t)(next - s.text);
        char spec[SPEC_BYTES];
        bool bad = false;
        jinja_sink_value(r, &sink, jinja_part(s, from, i - from));
        i++;
        i += read_spec((view){s.text + i, s.len - i}, spec, &bad);
        char c = i < s.len ? s.text[i++] : 0;
        from = i;
        if (c == '%') jinja_sink_put(r, &sink, VIEW("%"), JINJA_TEMPLATE);
        else if (bad || !c || !strchr("srdixXfeEgG", c)) jinja_fail(r, line, "unknown format");
        else if (used == n) jinja_fail(r, line, "too few values for a format");
        else put_field(r, &sink, spec, c, list[used++], line);
    }
    if (!r->status && used < n) jinja_fail(r, line, "too many values for a format");
    jinja_sink_value(r, &sink, jinja_part(s, from, s.len - from));
    return jinja_sink_take(r, &sink);
}

/* {}, {0}, {name}: without the optional part after a colon or a dot. */
jinja_value jinja_braces(jinja_run *r, jinja_value s, const jinja_args *args)
{
    jinja_sink sink = {0};
    size_t from = 0, used = 0;
    for (size_t i = 0; i < s.len && jinja_step(r, 1); i++) {
        char c = s.text[i];
        if (c != '{' && c != '}') continue;
        jinja_sink_value(r, &sink, jinja_part(s, from, i - from));
        if (i + 1 < s.len && s.text[i + 1] == c) {
            from = ++i;
            continue;
        }
        const char *close = c == '{' ? memchr(s.text + i, '}', s.len - i) : NULL;
        view name = {s.text + i + 1, close ? (size_t)(close - s.text) - i - 1 : 0};
        uint64_t index = 0;
        jinja_value v = {0};
        bool found = close != NULL;
        if (found && !name.len) index = used++;
        if (found && (!name.len || parse_u64(name, &index))) {
            found = index < args->n;
            if (found) v = args->list[index];
        } else if (found) {
            found = false;
            for (size_t k = 0; k < args->n_named; k++)
                if (view_equal(jinja_view(args->named[k].key), name)) {
                    v = args->named[k].value;
                    found = true;
                }
        }
        if (!found) jinja_fail(r, args->line, "format: a field that there is not a value for");
        jinja_sink_value(r, &sink, v);
        if (close) i = (size_t)(close - s.text);
        from = i + 1;
    }
    jinja_sink_value(r, &sink, jinja_part(s, from, s.len - from));
    return jinja_sink_take(r, &sink);
}

/* ---- dates ---- */

/* Days since 1970 as a date of the Gregorian calendar (H. Hinnant, civil_from_days). */
static void civil_of(int64_t days, struct tm *out)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    int64_t month = mp < 10 ? mp + 3 : mp - 9, year = yoe + era * 400 + (month <= 2);
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    out->tm_mday = (int)(doy - (153 * mp + 2) / 5 + 1);
    out->tm_mon = (int)month - 1;
    out->tm_year = (int)(year - 1900);
    out->tm_wday = (int)(((days + 4) % 7 + 7) % 7);
    out->tm_yday = before[month - 1] + out->tm_mday - 1 + (leap && month > 2);
}

jinja_value jinja_strftime(jinja_run *r, jinja_value format)
{
    enum { FORMAT_BYTES = 128, DATE_BYTES = 512, DAY = 86400 };
    char text[FORMAT_BYTES];
    char *out = jinja_room(r, DATE_BYTES);
    struct tm when = {0};
    if (format.len >= FORMAT_BYTES || !jinja_is(format, KIND_STRING))
        jinja_fail(r, 0, "strftime_now wants a short format");
    if (!out || r->status) return jinja_literal("");
    memcpy(text, format.text, format.len);
    text[format.len] = 0;
    int64_t seconds = r->time % DAY, days = r->time / DAY;
    if (seconds < 0) seconds += DAY, days--;
    civil_of(days, &when);
    when.tm_hour = (int)(seconds / 3600);
    when.tm_min = (int)(seconds / 60 % 60);
    when.tm_sec = (int)(seconds % 60);
    return jinja_text((view){out, strftime(out, DATE_BYTES, text, &when)}, JINJA_TEMPLATE);
}
