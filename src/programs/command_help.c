/* command_help.c - prints the table of a command: --help, and mdoc(7) for the man page. */
#include "programs/command_line.h"

#include <limits.h>

enum { COLUMNS = 80, HELP_COLUMN = 26, FORM_MAX = 96, HELP_BYTES_MAX = 1 << 16 };

/* ---- text for terminals ---- */

/* Wrap words after `indent` blanks; the first line has `used` columns already. */
static void wrap(FILE *to, const char *text, size_t len, size_t indent, size_t used)
{
    const char *end = text + len;
    bool first = true;
    while (text < end) {
        size_t n = 0;
        while (text + n < end && text[n] != ' ' && text[n] != '\n') n++;
        if (n && !first && used + 1 + n > COLUMNS) {
            fprintf(to, "\n%*s", (int)indent, "");
            used = indent;
            first = true;
        }
        if (n) {
            used += (size_t)fprintf(to, "%s%.*s", first ? "" : " ", (int)n, text);
            first = false;
        }
        text += n;
        if (text < end) text++;
    }
    fputc('\n', to);
}

/* Paragraphs; lines that begin with a blank are not wrapped. */
static void print_paragraphs(FILE *to, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        if (*text == ' ')
            fprintf(to, "%.*s\n", (int)len, text);
        else
            wrap(to, text, len, 0, 0);
        fputc('\n', to);
        text += len + (end ? 2 : 0);
    }
}

/* Each line of the list, after a word that only the first line has. */
static void print_lines(FILE *to, const char *word, const char *name, const char *lines)
{
    for (int i = 0; *lines; i++) {
        size_t len = strcspn(lines, "\n");
        fprintf(to, "%*s", i ? (int)strlen(word) : 0, "");
        if (!i) fputs(word, to);
        fprintf(to, "%s%s%.*s\n", name, *name ? " " : "", (int)len, lines);
        lines += len + (lines[len] != 0);
    }
}

/* "NAME", or the words of it as "a|b|c". */
static const char *value_of(const option_spec *o, char out[FORM_MAX])
{
    size_t n = 0;
    if (o->value || o->kind != OPTION_WORD) return o->value;
    for (const char *at = o->words; *at && n + 1 < FORM_MAX; at++)
        if (*at != ' ') out[n++] = *at == ',' ? '|' : *at;
    out[n] = 0;
    return out;
}

/* Does another option of this name replace it? */
static bool is_replaced(const option_spec *const *all, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (!strcmp(all[i]->name, all[at]->name)) return true;
    return false;
}

static void print_option(FILE *to, const command_table *c, const option_spec *o)
{
    char letter[8] = "    ", words[FORM_MAX];
    const char *value = value_of(o, words), *help = command_help_of(c, o);
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    size_t used = (size_t)fprintf(to, "  %s--%s%s%s", letter, o->name, value ? " " : "",
                                  value ? value : "");
    if (used + 2 > HELP_COLUMN) used = (size_t)(fputc('\n', to), 0);
    fprintf(to, "%*s", (int)(HELP_COLUMN - used), "");
    wrap(to, help, strlen(help), HELP_COLUMN, HELP_COLUMN);
}

/* Options with a letter come first: people type those. */
void command_print_help(const command_table *c, FILE *to)
{
    const option_spec *all[COMMAND_OPTIONS_MAX];
    char name[32];
    snprintf(name, sizeof name, "cerium %s", c->name);
    /* It is written in one piece, so a full disk is known by its own error. */
    static char whole[HELP_BYTES_MAX];
    setvbuf(to, whole, _IOFBF, sizeof whole);
    print_lines(to, "usage: ", name, c->usage);
    fputc('\n', to);
    print_paragraphs(to, c->about);
    size_t n = command_options(c, all);
    for (int lettered = 1; lettered >= 0; lettered--)
        for (size_t i = 0; i < n; i++)
            if (!is_replaced(all, i) && (all[i]->letter != 0) == lettered)
                print_option(to, c, all[i]);
    if (n) fputc('\n', to);
    if (c->notes) print_paragraphs(to, c->notes);
    print_lines(to, "example: ", "", c->examples);
}

/* ---- mdoc ---- */

static void mdoc_bytes(FILE *to, const char *text, size_t len, bool starts_line)
{
    for (size_t i = 0; i < len; i++) {
        bool starts = i ? text[i - 1] == '\n' : starts_line;
        if (starts && (text[i] == '.' || text[i] == '\'')) fputs("\\&", to);
        if (text[i] == '\\')
            fputs("\\e", to);
        else
            fputc(text[i], to);
    }
}

/* Lines of at most 80 bytes, and a new one for each sentence, as mdoc requires. */
static void mdoc_sentences(FILE *to, const char *text, size_t len)
{
    size_t used = 0;
    for (size_t i = 0, n; i < len; i += n + 1) {
        for (n = 0; i + n < len && text[i + n] != ' ';) n++;
        bool ends = i && text[i - 2] == '.' && text[i] >= 'A' && text[i] <= 'Z';
        if (used && (ends || used + 1 + n > 76)) used = (size_t)(fputc('\n', to), 0);
        if (used) fputc(' ', to);
        mdoc_bytes(to, text + i, n, !used);
        used += n + 1;
    }
    fputc('\n', to);
}

static void mdoc_paragraphs(FILE *to, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        fputs(*text == ' ' ? ".Bd -literal\n" : ".Pp\n", to);
        if (*text == ' ')
            mdoc_bytes(to, text, len, true);
        else
            mdoc_sentences(to, text, len);
        if (*text == ' ') fputs("\n.Ed\n", to);
        text += len + (end ? 2 : 0);
    }
}

static void mdoc_usage(FILE *to, const char *name, const char *lines)
{
    fputs(".Bd -literal -compact\n", to);
    while (*lines) {
        size_t len = strcspn(lines, "\n");
        fprintf(to, "%s ", name);
        mdoc_bytes(to, lines, len, false);
        fputc('\n', to);
        lines += len + (lines[len] != 0);
    }
    fputs(".Ed\n", to);
}

static void mdoc_examples(FILE *to, const char *lines)
{
    fputs(".Pp\nFor example:\n", to);
    while (*lines) {
        size_t len = strcspn(lines, "\n");
        fputs(".Dl $ ", to);
        mdoc_bytes(to, lines, len, false);
        fputc('\n', to);
        lines += len + (lines[len] != 0);
    }
}

static void mdoc_option(FILE *to, const option_spec *o, const char *help)
{
    char words[FORM_MAX];
    const char *value = value_of(o, words);
    fputs(".It", to);
    if (o->letter) fprintf(to, " Fl %c ,", o->letter);
    fprintf(to, " Fl -%s", o->name);
    if (value) fprintf(to, " Ar %s", value);
    fputc('\n', to);
    mdoc_sentences(to, help, strlen(help));
}

/* Is it described among the shared options? */
static bool is_described(const command_table *c, const option_spec *const *all, size_t at)
{
    return all[at]->groups && command_help_of(c, all[at]) == all[at]->help &&
           !is_replaced(all, at);
}

static void mdoc_shared_names(FILE *to, const command_table *c, const option_spec *const *all,
                              size_t n)
{
    size_t n_shared = 0;
    for (size_t i = 0; i < n; i++) n_shared += is_described(c, all, i);
    if (n_shared) fputs(".Pp\nShared options:\n", to);
    for (size_t i = 0; i < n; i++)
        if (is_described(c, all, i))
            fprintf(to, ".Fl -%s%s\n", all[i]->name, --n_shared ? " ," : " .");
}

void command_print_mdoc(const command_table *c, FILE *to)
{
    const option_spec *all[COMMAND_OPTIONS_MAX];
    char name[32];
    snprintf(name, sizeof name, "cerium %s", c->name);
    fprintf(to, ".Ss %s\n", name);
    mdoc_usage(to, name, c->usage);
    mdoc_paragraphs(to, c->about);
    size_t n = command_options(c, all), n_shown = 0;
    for (size_t i = 0; i < n; i++) {
        if (is_described(c, all, i) || is_replaced(all, i)) continue;
        if (!n_shown++) fputs(".Bl -tag -width Ds\n", to);
        mdoc_option(to, all[i], command_help_of(c, all[i]));
    }
    if (n_shown) fputs(".El\n", to);
    mdoc_shared_names(to, c, all, n);
    if (c->notes) mdoc_paragraphs(to, c->notes);
    mdoc_examples(to, c->examples);
}

void command_print_shared_mdoc(FILE *to)
{
    fputs(".Bl -tag -width Ds\n", to);
    const command_table all_groups = {.groups = UINT_MAX};
    const option_spec *all[COMMAND_OPTIONS_MAX];
    size_t n = command_options(&all_groups, all);
    for (size_t i = 0; i < n; i++) mdoc_option(to, all[i], all[i]->help);
    fputs(".El\n", to);
}
