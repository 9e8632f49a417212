/* secret.c - does a literal look like a secret?
 *
 * Entropy alone is a bad detector; here it is the last test of a value that already is in the place
 * of a secret. */
#include "guard/judge.h"

#include <ctype.h>
#include <math.h>

enum { SECRET_MIN = 4, SECRET_MAX = 512 };

static double entropy(view text)
{
    uint32_t count[256] = {0};
    double bits = 0;
    for (size_t i = 0; i < text.len; i++) count[(uint8_t)text.ptr[i]]++;
    for (int c = 0; c < 256; c++)
        if (count[c]) {
            double p = (double)count[c] / (double)text.len;
            bits -= p * log2(p);
        }
    return bits;
}

static bool contains(view text, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= text.len; i++) {
        size_t k = 0;
        while (k < n && tolower((unsigned char)text.ptr[i + k]) == word[k]) k++;
        if (k == n) return true;
    }
    return false;
}

/* Placeholders that people write for a secret. */
static bool is_placeholder(view text)
{
    static const char *const words[] = {
        "example", "placeholder", "changeme", "change_me", "change-me", "your_", "your-", "yourapi",
        "<your", "insert", "replace", "dummy", "redacted", "xxxx", "****", "....", "1234567890",
        "abcdef", "not-a", "notreal", "${", "{{", "%(", "#{", "<%", "todo", "fixme", "sample",
        "undefined", "process.env", "environ", "getenv", "0000000", "encrypted", "lorem",
        "withheld", "abc123", "123456", "qwerty", "eby8vdm02xno" /* Azure's emulator's */,
    };
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (contains(text, words[i])) return true;
    if (strchr("<[{$%", text.ptr[0]) && strchr(">]}%", text.ptr[text.len - 1])) return true;
    /* The same sign repeated, of up to four bytes. */
    size_t sign = 1;
    while (sign < 4 && sign < text.len && ((unsigned char)text.ptr[sign] & 0xC0) == 0x80) sign++;
    bool same = true;
    for (size_t i = sign; i < text.len; i++) same &= text.ptr[i] == text.ptr[i - sign];
    return same;
}

typedef struct {
    uint32_t lower, upper, digit, other, space;
} counts;

static counts count(view text)
{
    counts c = {0};
    for (size_t i = 0; i < text.len; i++) {
        unsigned char b = (unsigned char)text.ptr[i];
        if (islower(b)) c.lower++;
        else if (isupper(b)) c.upper++;
        else if (isdigit(b)) c.digit++;
        else if (isspace(b)) c.space++;
        else c.other++;
    }
    return c;
}

/* X-Csrf-Token: words with dashes, as headers have them. */
static bool is_header(view text)
{
    bool dash = false;
    for (size_t i = 0; i < text.len; i++) {
        bool begins = !i || text.ptr[i - 1] == '-';
        if (begins ? !isupper((unsigned char)text.ptr[i])
                   : text.ptr[i] != '-' && !isalpha((unsigned char)text.ptr[i]))
            return false;
        dash |= text.ptr[i] == '-';
    }
    return dash;
}

/* Identifiers of things: 00299570-246d-11d0-a768-00aa006e0529. */
static bool is_uuid(view text)
{
    if (text.len != 36) return false;
    for (size_t i = 0; i < text.len; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text.ptr[i] != '-' : !isxdigit((unsigned char)text.ptr[i])) return false;
    }
    return true;
}

static uint32_t underscores(view text)
{
    uint32_t n = 0;
    for (size_t i = 0; i < text.len; i++) n += text.ptr[i] == '_';
    return n;
}

/* Paths, addresses, names of things, formats: values beside credentials' names in code. */
static bool is_label(view text, counts c)
{
    if (c.space || is_header(text)) return true;
    if (contains(text, "://") && !contains(text, "@")) return true;
    if (strchr("/.#", text.ptr[0])) return true;
    /* A hash of a password is not a secret, nor is a key of Windows' registry. */
    if (view_starts(text, VIEW("$2")) && text.len >= 59) return true;
    if (view_starts(text, VIEW("HKEY_"))) return true;
    if (memchr(text.ptr, '(', text.len) || memchr(text.ptr, '<', text.len)) return true;
    if (memchr(text.ptr, '[', text.len) && memchr(text.ptr, ']', text.len)) return true;
    /* NAME_OF_A_VARIABLE */
    if (!c.lower && c.upper && memchr(text.ptr, '_', text.len) && c.other == underscores(text))
        return true;
    /* words joined by dots, dashes or underscores */
    return !c.digit && !c.upper && c.other &&
           memchr(".-:", text.ptr[0], 3) == NULL &&
           (memchr(text.ptr, '_', text.len) || memchr(text.ptr, '.', text.len) ||
            memchr(text.ptr, '-', text.len) || memchr(text.ptr, ':', text.len) ||
            memchr(text.ptr, '/', text.len));
}

/* Are the letters of part among the last or first ones of whole?  BYPASS: 'bypass',
 * REMOVE_CREDENTIALS: 'removeCredentials', CONF_PASSWD: 'CONF_PASSWD_edit'. */
static bool repeats(view name, view text)
{
    char a[64], b[64];
    size_t n = 0, m = 0;
    for (size_t i = 0; i < name.len && n < sizeof a - 1; i++)
        if (isalnum((unsigned char)name.ptr[i])) a[n++] = (char)tolower((unsigned char)name.ptr[i]);
    for (size_t i = 0; i < text.len && m < sizeof b - 1; i++)
        if (isalnum((unsigned char)text.ptr[i])) b[m++] = (char)tolower((unsigned char)text.ptr[i]);
    a[n] = b[m] = 0;
    return m >= 4 && n >= 4 && (strstr(a, b) || strstr(b, a));
}

bool secret_value(view text)
{
    if (text.len < 8 || text.len > SECRET_MAX || is_placeholder(text)) return false;
    return entropy(text) >= 2.5;
}

bool secret_credential(view name, view text)
{
    bool password = contains(name, "pass") || contains(name, "pwd");
    if (text.len < SECRET_MIN || text.len > SECRET_MAX || is_placeholder(text)) return false;
    counts c = count(text);
    if (is_label(text, c) || repeats(name, text) || (password && is_uuid(text))) return false;
    if (view_equal(text, VIEW("guest"))) return false; /* an account that is for everybody */
    if (contains(name, "public") || contains(name, "path") || contains(name, "url") ||
        contains(name, "encrypted") || contains(name, "hashed"))
        return false;
    /* "password": "password" names a field */
    if (contains(text, "password") || contains(text, "passwd")) return c.digit || c.other;
    if (password) return c.digit || c.other || text.len >= 5;
    if (text.len < 8) return false;
    bool key = contains(name, "key") && !contains(name, "api") && !contains(name, "secret") &&
               !contains(name, "access") && !contains(name, "private") && !contains(name, "auth");
    if (key && (text.len < 16 || c.digit < 3)) return false;
    if (!c.digit && !c.other) return text.len >= 20 && c.lower && c.upper && entropy(text) > 3.5;
    return entropy(text) >= 3.0;
}

bool secret_is_live(view text)
{
    if (text.len < 12 || !secret_value(text)) return false;
    counts c = count(text);
    uint32_t kinds = (c.lower > 0) + (c.upper > 0) + (c.digit > 0) + (c.other > 0);
    bool symbol = false; /* a dash that does not join words */
    for (size_t i = 0; i < text.len; i++) symbol |= strchr("!#%^&*+=?@~|", text.ptr[i]) != NULL;
    bool is_mixed = c.digit ? kinds >= 2 : c.lower && c.upper && symbol;
    return is_mixed && !c.space && entropy(text) > (kinds == 4 ? 2.7 : 3.0);
}
