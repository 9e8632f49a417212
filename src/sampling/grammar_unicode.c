/* grammar_unicode.c - Unicode's properties (\p) and cases of characters.
 *
 * The data is PCRE2's: an expression is matched against every character that has properties. A
 * plane without properties is represented by one of its characters. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>

#include "sampling/grammar_codes.h"

enum {
    NAME_BYTES_MAX = 64,
    PATTERN_BYTES_MAX = 2048,
    FOLDED_RANGES_MAX = 64,
    WORK_OF_A_LOOK = 200000, /* compiling steps charged for one scan of all characters */
};

/* Characters to scan; in the last range the first represents all up to `to`. */
static const struct {
    uint32_t from, to;
    bool is_one;
} planes[] = {
    {0, 0xd7ff, false},           {0xe000, 0x323ff, false},       {0x32400, 0xdffff, true},
    {0xe0000, 0xe01ff, false},    {0xe0200, 0xeffff, true},       {0xf0000, 0xffffd, true},
    {0xffffe, 0xfffff, true},     {0x100000, 0x10fffd, true},     {0x10fffe, 0x10ffff, true},
};

/* The long names of general categories (UAX 44); PCRE2 has the short names. */
static const struct {
    const char *name, *is;
} categories[] = {
    {"letter", "L"}, {"casedletter", "L&"}, {"lc", "L&"}, {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"}, {"titlecaseletter", "Lt"}, {"modifierletter", "Lm"},
    {"otherletter", "Lo"}, {"mark", "M"}, {"combiningmark", "M"}, {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"}, {"enclosingmark", "Me"}, {"number", "N"}, {"decimalnumber", "Nd"},
    {"digit", "Nd"}, {"letternumber", "Nl"}, {"othernumber", "No"}, {"punctuation", "P"},
    {"punct", "P"}, {"connectorpunctuation", "Pc"}, {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"}, {"closepunctuation", "Pe"}, {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"}, {"otherpunctuation", "Po"}, {"symbol", "S"}, {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"}, {"modifiersymbol", "Sk"}, {"othersymbol", "So"}, {"separator", "Z"},
    {"spaceseparator", "Zs"}, {"lineseparator", "Zl"}, {"paragraphseparator", "Zp"},
    {"other", "C"}, {"control", "Cc"}, {"cntrl", "Cc"}, {"format", "Cf"}, {"surrogate", "Cs"},
    {"privateuse", "Co"}, {"unassigned", "Cn"}, {"assigned", "^Cn"},
};

/* ---- a scan of all characters ---- */

/* Those from a place in planes on, with the beginning of each piece of text. */
static int unicode_put_all(bytes *text, uint32_t starts[ARRAY_LEN(planes) + 1])
{
    RETURN_IF(bytes_reserve(text, text->max));
    for (size_t i = 0; i < ARRAY_LEN(planes); i++) {
        starts[i] = (uint32_t)text->len;
        uint32_t to = planes[i].is_one ? planes[i].from : planes[i].to;
        for (uint32_t code = planes[i].from; code <= to; code++)
            text->len += code_write(code, (uint8_t *)text->ptr + text->len);
        CHECK(text->len <= text->max);
    }
    starts[ARRAY_LEN(planes)] = (uint32_t)text->len;
    return CERIUM_OK;
}

/* The characters [from, to) of the text, which match. */
static void add_match(code_set *set, view text, const uint32_t *starts, size_t from, size_t to)
{
    for (size_t i = 0; i < ARRAY_LEN(planes); i++) {
        size_t lo = from > starts[i] ? from : starts[i];
        size_t hi = to < starts[i + 1] ? to : starts[i + 1];
        uint32_t first, last;
        if (lo >= hi) continue;
        code_read((view){text.ptr + lo, text.len - lo}, &first);
        do hi--;
        while (((uint8_t)text.ptr[hi] & 0xc0) == 0x80);
        code_read((view){text.ptr + hi, text.len - hi}, &last);
        code_add(set, first, planes[i].is_one ? planes[i].to : last);
    }
}

static int find_all(code_set *set, const pcre2_code *code, pcre2_match_data *data)
{
    bytes text = {.max = 1 << 20};
    uint32_t starts[ARRAY_LEN(planes) + 1];
    int status = unicode_put_all(&text, starts);
    for (size_t at = 0; !status && at < text.len;) {
        if (pcre2_match(code, (PCRE2_SPTR)text.ptr, text.len, at, PCRE2_NO_UTF_CHECK, data,
                        NULL) < 1)
            break;
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(data);
        add_match(set, (view){text.ptr, text.len}, starts, found[0], found[1]);
        at = found[1] > at ? found[1] : at + 1;
    }
    bytes_free(&text);
    return status;
}

/* The characters that match an expression. False: it is not a valid expression. */
static bool unicode_add_pattern(grammar_builder *b, code_set *set, const char *pattern,
                                uint32_t options)
{
    int why;
    PCRE2_SIZE at;
    if (!builder_work(b, WORK_OF_A_LOOK)) return true;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | options, &why, &at, NULL);
    if (!code) return false;
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* without it: slower */
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    if (!data || find_all(set, code, data)) builder_lack(b);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    return true;
}

/* ---- properties ---- */

/* "General_Category=Letter" -> "letter"; *is_script: a script was named so. False: too long. */
static bool short_name(view name, char out[NAME_BYTES_MAX], bool *is_script)
{
    static const char *const before[] = {"gc=", "generalcategory=", "sc=", "script=", "scx=",
                                         "scriptextensions="};
    size_t n = 0;
    if (name.len >= NAME_BYTES_MAX) return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (c == '_' || c == ' ' || c == '-') continue;
        if (!isalnum((uint8_t)c) && c != '&' && c != '=' && c != '^') return false;
        out[n++] = (char)tolower((uint8_t)c);
    }
    out[n] = '\0';
    *is_script = false;
    for (size_t i = 0; i < ARRAY_LEN(before); i++) {
        size_t len = strlen(before[i]);
        if (strncmp(out, before[i], len)) continue;
        memmove(out, out + len, n - len + 1);
        *is_script = i >= 2;
        break;
    }
    return out[0];
}

bool code_add_property(grammar_builder *b, code_set *set, view name, bool is_not)
{
    char is[NAME_BYTES_MAX], pattern[NAME_BYTES_MAX + 16];
    bool is_script;
    code_set found = {.n = 0};
    if (!short_name(name, is, &is_script)) return false;
    if (!strcmp(is, "any")) {
        code_add(&found, 0, CODE_MAX);
    } else if (!strcmp(is, "ascii")) {
        code_add(&found, 0, 0x7f);
    } else {
        const char *known = is;
        for (size_t i = 0; i < ARRAY_LEN(categories) && !is_script; i++)
            if (!strcmp(categories[i].name, is)) known = categories[i].is;
        snprintf(pattern, sizeof pattern, "\\p{%s}+", known);
        bool is_known = unicode_add_pattern(b, &found, pattern, 0);
        if (!is_known && !strncmp(is, "is", 2)) /* named as in Java and XML */
            return code_add_property(b, set, view_of(is + 2), is_not);
        if (!is_known) return false;
    }
    if (is_not) code_invert(&found);
    code_add_set(set, &found);
    return true;
}

/* ---- cases ---- */

void code_fold_all(grammar_builder *b, code_set *set)
{
    char pattern[PATTERN_BYTES_MAX] = "[";
    size_t n = 1;
    uint32_t n_more = 0;
    code_fold(set);
    code_sort(set);
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t lo = set->range[i][0] < 0x80 ? 0x80 : set->range[i][0], hi = set->range[i][1];
        if (hi < lo || lo >= 0x1e944) continue;
        if (++n_more > FOLDED_RANGES_MAX) return; /* a class of letters of both cases */
        n += (size_t)snprintf(pattern + n, sizeof pattern - n, "\\x{%x}-\\x{%x}", lo, hi);
    }
    if (!n_more) return;
    snprintf(pattern + n, sizeof pattern - n, "]+");
    code_set found = {.n = 0};
    if (!unicode_add_pattern(b, &found, pattern, PCRE2_CASELESS)) return;
    for (uint32_t i = 0; i < found.n; i++)
        code_add(set, found.range[i][0] < 0x80 ? 0x80 : found.range[i][0], found.range[i][1]);
}
