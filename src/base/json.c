/* json.c - rewrites numbers and names that jansson cannot read before it parses the text. */
#include "base/json.h"

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"

_Static_assert(sizeof(size_t) == 8, "JSON_READ_PYTHON is a bit above jansson's");

static view json_without_mark(view text)
{
    bool has = text.len >= 3 && !memcmp(text.ptr, "\xEF\xBB\xBF", 3);
    return has ? (view){text.ptr + 3, text.len - 3} : text;
}

/* The length of the number at `at`, and whether it is written as an integer. */
static size_t number_len(view text, size_t at, bool *is_integer)
{
    size_t n = 0;
    *is_integer = true;
    for (; at + n < text.len; n++) {
        char c = text.ptr[at + n];
        bool is_real = c == '.' || c == 'e' || c == 'E' || c == '+' || (c == '-' && n > 0);
        if (is_real) *is_integer = false;
        if (!is_real && c != '-' && (c < '0' || c > '9')) break;
    }
    return n;
}

/* The number itself, or its replacement if it does not fit. */
static int put_number(bytes *out, view number, bool is_integer)
{
    char *copy = memory_copy(number.ptr, number.len), *end, made[40];
    if (!copy) return CERIUM_ERR_MEMORY;
    errno = 0;
    bool fits = is_integer && (strtoll(copy, &end, 10), errno != ERANGE);
    double value = fits ? 0 : strtod(copy, &end);
    bool is_number = fits || end == copy + number.len;
    memory_free(copy);
    /* If it is not a number, jansson will reject it. */
    if (fits || !is_number || (!is_integer && isfinite(value)))
        return bytes_append(out, number.ptr, number.len);
    if (!isfinite(value)) value = value < 0 ? -DBL_MAX : DBL_MAX;
    snprintf(made, sizeof made, "%.17g", value);
    int status = bytes_append(out, made, strlen(made));
    return status || strpbrk(made, ".e") ? status : bytes_append(out, ".0", 2);
}

/* The length of NaN, Infinity or -Infinity at this position; 0: none of them. */
static size_t python_word(view rest, view *instead)
{
    static const struct {
        view word, instead;
    } words[] = {{VIEW("NaN"), VIEW("null")},
                 {VIEW("Infinity"), VIEW("1.7976931348623157e308")},
                 {VIEW("-Infinity"), VIEW("-1.7976931348623157e308")}};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (!view_starts(rest, words[i].word)) continue;
        *instead = words[i].instead;
        return words[i].word.len;
    }
    return 0;
}

/* A string with its quotes, which ends with the text if it has no end. */
static size_t string_len(view rest)
{
    size_t n = 1;
    while (n < rest.len && rest.ptr[n] != '"') n += rest.ptr[n] == '\\' ? 2 : 1;
    return n < rest.len ? n + 1 : rest.len;
}

/* The name of a member, with U+FFFD in place of each NUL. */
static int put_name(bytes *out, view name)
{
    static const view nul = VIEW("\\u0000");
    int status = CERIUM_OK;
    for (size_t i = 0, n; i < name.len && !status; i += n) {
        view rest = {name.ptr + i, name.len - i};
        bool is_nul = view_starts(rest, nul);
        n = is_nul ? nul.len : *rest.ptr == '\\' && rest.len > 1 ? 2 : 1;
        status = is_nul ? bytes_append(out, "\\ufffd", nul.len) : bytes_append(out, rest.ptr, n);
    }
    return status;
}

/* A string is a name if a colon comes after it. */
static int put_string(bytes *out, view text, size_t at, size_t len)
{
    size_t after = at + len;
    while (after < text.len && memchr(" \t\r\n", text.ptr[after], 4)) after++;
    bool is_name = after < text.len && text.ptr[after] == ':';
    return is_name ? put_name(out, (view){text.ptr + at, len})
                   : bytes_append(out, text.ptr + at, len);
}

static int rewrite(bytes *out, view text, bool python)
{
    int status = CERIUM_OK;
    bool is_integer;
    for (size_t i = 0, n; i < text.len && !status; i += n) {
        char c = text.ptr[i];
        view word, rest = {text.ptr + i, text.len - i};
        n = python ? python_word(rest, &word) : 0;
        if (n) {
            status = bytes_append(out, word.ptr, word.len);
        } else if (c == '"') {
            n = string_len(rest);
            status = put_string(out, text, i, n);
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            n = number_len(text, i, &is_integer);
            status = put_number(out, (view){rest.ptr, n}, is_integer);
        } else {
            n = 1;
            status = bytes_append(out, rest.ptr, n);
        }
    }
    return status;
}

/* jansson's own error for no memory. */
static void lack_memory(json_error_t *why)
{
    *why = (json_error_t){.line = -1, .column = -1};
    why->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
}

/* jansson sets no error, and leaves the code unchanged, if it has no memory to begin. */
static json_t *load(const char *text, size_t len, size_t flags, json_error_t *why)
{
    lack_memory(why);
    return json_loadb(text, len, flags, why);
}

json_t *json_read(view text, size_t flags, json_error_t *error)
{
    json_error_t own;
    json_error_t *why = error ? error : &own;
    bool python = flags & JSON_READ_PYTHON;
    size_t plain = flags & ~JSON_READ_PYTHON;
    text = json_without_mark(text);
    json_t *root = load(text.ptr ? text.ptr : "", text.len, plain, why);
    enum json_error_code code = root ? json_error_unknown : json_error_code(why);
    bool again = code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
                 (python && code == json_error_invalid_syntax);
    if (root || !again) return root;
    /* At most 24 bytes in place of at least 3. */
    bytes copy = {.max = 8 * text.len + 64};
    int status = bytes_reserve(&copy, text.len);
    if (!status) status = rewrite(&copy, text, python);
    if (!status) root = load(copy.ptr, copy.len, plain, why);
    if (status) lack_memory(why);
    bytes_free(&copy);
    return root;
}

void json_real_text(char out[JSON_NUMBER_BYTES], double value)
{
    int precision = 15;
    if (value == 18446744073709551616.0) {
        snprintf(out, JSON_NUMBER_BYTES, "%llu", ULLONG_MAX);
        return;
    }
    if (fabs(value) >= 9223372036854775808.0 && fabs(value) < 1e21) {
        snprintf(out, JSON_NUMBER_BYTES, "%.0f", value);
        return;
    }
    do snprintf(out, JSON_NUMBER_BYTES, "%.*g", precision, value);
    while (precision++ < 17 && strtod(out, NULL) != value);
    bool is_whole = !strpbrk(out, ".e"); /* a real stays one */
    if (is_whole) memcpy(out + strlen(out), ".0", 3);
}

void json_number_text(char out[JSON_NUMBER_BYTES], const json_t *number)
{
    if (json_is_integer(number))
        snprintf(out, JSON_NUMBER_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(number));
    else
        json_real_text(out, json_real_value(number));
}
