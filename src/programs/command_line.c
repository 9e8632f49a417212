/* command_line.c - reads argv and keys of configuration files by the table of a command. */
#include "programs/command_line.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>

#include "programs/output.h"
#include "programs/terminal.h"

int usage_error(const char *program, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "cerium %s: %s; see cerium %s --help\n", program, text, program);
    return EXIT_USAGE;
}

/* ---- values ---- */

static char wanted[240]; /* the last text of option_wants(); "" for none */

bool option_wants(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(wanted, sizeof wanted, format, args);
    va_end(args);
    return false;
}

const char *option_wanted(void) { return wanted; }

bool option_word(const char *value, const char *words, uint32_t *at)
{
    const size_t len = strlen(value);
    uint32_t i = 0;
    for (const char *word = words; *word; i++) {
        size_t n = strcspn(word, ",");
        if (n == len && !memcmp(word, value, n)) {
            *at = i;
            return true;
        }
        word += n;
        word += strspn(word, ", ");
    }
    return option_wants("one of %s", words);
}

const char *option_types(void)
{
    static char names[200]; /* of the types that can be written */
    size_t n = 0;
    for (uint32_t type = 0; type < BLOCK_TYPE_END && n < sizeof names; type++)
        if (block_name(type) && block_is_written((block_type)type))
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? " " : "",
                                  block_name(type));
    return names;
}

const char *option_near_type(const char *value)
{
    block_type type;
    view name = view_of(value);
    while (name.len && name.ptr[name.len - 1] != '_') name.len--;
    if (!name.len) return NULL;
    name.len--;
    return block_type_of_name(name, &type) && block_is_written(type) ? block_name(type) : NULL;
}

bool option_type(const char *value, block_type *out)
{
    const char *near = option_near_type(value);
    if (!block_type_of_name(view_of(value), out))
        return near ? option_wants("one type, such as %s, not a mixture", near)
                    : option_wants("one of %s", option_types());
    return block_is_written(*out) ||
           option_wants("one of %s; %s is read, not written", option_types(), block_name(*out));
}

bool option_text(const char *value, const char **out)
{
    if (!*value) return option_wants("a text that is not empty");
    *out = value;
    return true;
}

bool option_u32(const char *value, uint32_t low, uint32_t high, uint32_t *out)
{
    uint64_t n;
    if (!parse_u64(view_of(value), &n) || n < low || n > high)
        return option_wants("a whole number, %u to %u", low, high);
    *out = (uint32_t)n;
    return true;
}

static bool option_u64(const char *value, uint64_t *out)
{
    return parse_u64(view_of(value), out) ||
           option_wants("a whole number, 0 to %llu", (unsigned long long)UINT64_MAX);
}

static bool option_bytes(const char *value, uint64_t *out)
{
    static const char units[] = "KMGT";
    view number = view_of(value);
    const char *unit = number.len ? strchr(units, number.ptr[number.len - 1]) : NULL;
    uint64_t n, shift = unit ? 10 * (uint64_t)(unit - units + 1) : 0;
    if (unit) number.len--;
    if (!parse_u64(number, &n) || n == 0 || n > UINT64_MAX >> shift)
        return option_wants("bytes from 1 on, as in 4096, 512K, 300M, 20G or 1T");
    *out = n << shift;
    return true;
}

bool option_f64(const char *value, double low, double high, double *out)
{
    double x;
    if (!parse_f64(view_of(value), &x) || !(x >= low && x <= high))
        return option_wants("a number, %g to %g", low, high);
    *out = x;
    return true;
}

static bool option_f32(const char *value, double low, double high, float *out)
{
    double x = 0;
    if (!option_f64(value, low, high, &x)) return false;
    *out = (float)x;
    return true;
}

/* The offset was taken by OPTION_MEMBER, which checks the type. */
static bool set_member(const option_spec *o, void *program, const char *value)
{
    void *at = (char *)program + o->offset;
    switch (o->kind) {
    case OPTION_FLAG: *(bool *)at = true; return true;
    case OPTION_TEXT: return option_text(value, at);
    case OPTION_ANY: *(const char **)at = value; return true;
    case OPTION_U32: return option_u32(value, (uint32_t)o->low, (uint32_t)o->high, at);
    case OPTION_U64: return option_u64(value, at);
    case OPTION_F32: return option_f32(value, o->low, o->high, at);
    case OPTION_F64: return option_f64(value, o->low, o->high, at);
    case OPTION_BYTES: return option_bytes(value, at);
    case OPTION_WORD: return option_word(value, o->words, at);
    case OPTION_TYPE: return option_type(value, at);
    case OPTION_CALL: return o->call(program, value);
    case OPTION_SHARED: break;
    }
    return false;
}

static bool take(const option_spec *o, void *program, const char *value)
{
    wanted[0] = 0;
    if (o->given) *(bool *)((char *)program + o->given) = true;
    return set_member(o, program, value);
}

/* ---- the command line ---- */

static bool takes_value(const option_spec *o)
{
    return o->kind != OPTION_FLAG && (o->kind != OPTION_CALL || o->value);
}

/* The error for an option that getopt_long() does not know. */
static int unknown_option(const command_table *c, const char *program, const char *typed)
{
    const char *equals = strchr(typed, '=');
    char name[64];
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - typed) : (int)strlen(typed), typed);
    bool is_long = !strncmp(name, "--", 2);
    if (equals && is_long && (command_option(c, name + 2) || !strcmp(name, "--help")))
        return usage_error(program, "%s takes no value", name);
    const char *near = is_long ? command_near_option(c, name + 2) : NULL;
    if (near) return usage_error(program, "option %s is unknown; did you mean --%s?", name, near);
    return usage_error(program, "option %s is unknown", typed);
}

static int bad_value(const char *program, const char *value, const char *dashes, const char *name)
{
    if (!value) value = "";
    if (!*wanted && !*value) option_wants("a text that is not empty");
    if (!*wanted) return usage_error(program, "'%s' is not a value for %s%s", value, dashes, name);
    return usage_error(program, "'%s' is not a value for %s%s: it takes %s", value, dashes, name,
                       wanted);
}

enum { VAL_LONG = 1000 }; /* also the index of the option: above every letter */

static void fill_getopt(const option_spec *const *all, size_t n, struct option *longs,
                        char *letters)
{
    *letters++ = ':';
    *letters++ = 'h';
    for (size_t i = 0; i < n; i++) {
        longs[i] = (struct option){all[i]->name, takes_value(all[i]), NULL, VAL_LONG + (int)i};
        if (!all[i]->letter) continue;
        *letters++ = all[i]->letter;
        if (takes_value(all[i])) *letters++ = ':';
    }
    *letters = 0;
    longs[n] = (struct option){"help", no_argument, NULL, 'h'};
}

static size_t lettered(const option_spec *const *all, size_t n, int letter)
{
    size_t i = 0;
    while (i < n && all[i]->letter != letter) i++;
    CHECK(i < n);
    return i;
}

static bool is_given(const option_spec *const *all, size_t n, const bool *given, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (given[i] && !strcmp(all[i]->name, name)) return true;
    return false;
}

/* An option without effect is refused. */
static int check_needs(const char *program, const option_spec *const *all, size_t n,
                       const bool *given)
{
    for (size_t i = 0; i < n; i++)
        if (given[i] && all[i]->needs && !is_given(all, n, given, all[i]->needs))
            return usage_error(program, "--%s needs --%s", all[i]->name, all[i]->needs);
    return 0;
}

int command_parse(const command_table *c, void *program, int argc, char **argv)
{
    const option_spec *all[COMMAND_OPTIONS_MAX];
    struct option longs[COMMAND_OPTIONS_MAX + 2] = {{0}};
    char letters[2 * COMMAND_OPTIONS_MAX];
    bool given[COMMAND_OPTIONS_MAX] = {false};
    size_t n = command_options(c, all);
    fill_getopt(all, n, longs, letters);
    optind = 1;
    opterr = 0;
    for (int val; (val = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        if (val == 'h') {
            command_print_help(c, stdout);
            exit(output_finish(0, EXIT_FAILED));
        }
        if (val == ':') return usage_error(argv[0], "%s needs a value", argv[optind - 1]);
        if (val == '?') {
            /* For a letter among others getopt_long() has not moved past the word: -x of -xyz.  'h'
             * is --help with a value. */
            char letter[] = {'-', (char)optopt, 0};
            bool is_letter = optopt > ' ' && optopt < 127 && optopt != 'h';
            return unknown_option(c, argv[0], is_letter ? letter : argv[optind - 1]);
        }
        bool is_long = val >= VAL_LONG;
        const size_t i = is_long ? (size_t)(val - VAL_LONG) : lettered(all, n, val);
        given[i] = true;
        if (take(all[i], program, optarg)) continue;
        return is_long ? bad_value(argv[0], optarg, "--", all[i]->name)
                       : bad_value(argv[0], optarg, "-", (char[]){(char)val, 0});
    }
    return check_needs(argv[0], all, n, given);
}

option_result command_set(const command_table *c, void *program, const char *name,
                          const char *value)
{
    const option_spec *o = command_option(c, name);
    if (!o) return OPTION_UNKNOWN;
    if (!takes_value(o)) {
        if (!strcmp(value, "no")) return OPTION_SET;
        if (strcmp(value, "yes") != 0) return OPTION_BAD;
    }
    return take(o, program, value) ? OPTION_SET : OPTION_BAD;
}
