/* completion.c - scripts for shells.
 *
 * The possible values of an option come from its table: the words of a list, files, folders; other
 * values are not completed. */
#include "programs/completion.h"

#include "base/memory.h"

enum { WORDS_BYTES = 512, TEXT_BYTES = 160 };

typedef enum { VALUE_NONE, VALUE_OTHER, VALUE_FILE, VALUE_FOLDER, VALUE_WORDS } value_kind;

/* "a, b" or "a|b" as "a b". */
static void words_of(const char *list, char out[WORDS_BYTES])
{
    size_t n = 0;
    for (const char *at = list; *at && n + 1 < WORDS_BYTES; at++)
        if (*at != ',') out[n++] = *at == '|' ? ' ' : *at;
    out[n] = 0;
}

static value_kind value_of(const option_spec *o, char words[WORDS_BYTES])
{
    const char *value = o->value ? o->value : "";
    words[0] = 0;
    if (o->kind == OPTION_WORD)
        words_of(o->words, words);
    else if (o->kind == OPTION_TYPE)
        words_of(option_types(), words);
    else if (strchr(value, '|') && !strpbrk(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        words_of(value, words);
    if (words[0]) return VALUE_WORDS;
    if (strstr(value, "FILE") || strstr(value, "MODEL")) return VALUE_FILE;
    if (strstr(value, "DIR")) return VALUE_FOLDER;
    return *value ? VALUE_OTHER : VALUE_NONE;
}

/* The first sentence of a help text, without characters special to shells. */
static const char *sentence_of(const char *help, char out[TEXT_BYTES])
{
    size_t n = 0;
    for (const char *at = help; *at && n + 1 < TEXT_BYTES; at++) {
        if ((*at == '.' || *at == ';' || *at == ':') && (at[1] == ' ' || !at[1])) break;
        if (*at == '(' && n && at[-1] == ' ') break;
        if (!strchr("'\"`\\[]$", *at)) out[n++] = *at;
    }
    while (n && strchr(" ,", out[n - 1])) n--;
    out[n] = 0;
    return out;
}

/* Options of a command, each name once. */
static size_t options_of(const command_table *c, const option_spec *out[COMMAND_OPTIONS_MAX])
{
    const option_spec *all[COMMAND_OPTIONS_MAX];
    size_t n_all = command_options(c, all), n = 0;
    for (size_t i = 0; i < n_all; i++) {
        bool is_new = true;
        for (size_t k = 0; k < n && is_new; k++) is_new = strcmp(out[k]->name, all[i]->name) != 0;
        if (is_new) out[n++] = all[i];
    }
    return n;
}

static bool is_part(const completion_command *c) { return strchr(c->name, ' ') != NULL; }

static void print_names(const completion_command *commands, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_part(&commands[i])) printf("%s ", commands[i].name);
}

/* Cases of a shell: two words that are one command, and the options of each. */
static void print_parts(const completion_command *commands, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_part(&commands[i])) printf("    '%s') command='%s' ;;\n", commands[i].name,
                                          commands[i].name);
}

static void print_options(const completion_command *commands, size_t n,
                          void (*print)(const option_spec *const *all, size_t n))
{
    const option_spec *all[COMMAND_OPTIONS_MAX];
    for (size_t i = 0; i < n; i++) {
        printf("    '%s')\n", commands[i].name);
        print(all, options_of(commands[i].table, all));
    }
}

/* ---- bash ---- */

static void bash_options(const option_spec *const *all, size_t n)
{
    char words[WORDS_BYTES];
    fputs("        options='--help", stdout);
    for (size_t i = 0; i < n; i++) {
        printf(" --%s", all[i]->name);
        if (all[i]->letter) printf(" -%c", all[i]->letter);
    }
    fputs("'\n        case $before in\n", stdout);
    for (size_t i = 0; i < n; i++) {
        value_kind kind = value_of(all[i], words);
        if (kind == VALUE_NONE) continue;
        fputs("        ", stdout);
        if (all[i]->letter) printf("-%c | ", all[i]->letter);
        printf("--%s) ", all[i]->name);
        if (kind == VALUE_WORDS)
            printf("kind=words words='%s' ;;\n", words);
        else
            printf("kind=%s ;;\n", kind == VALUE_FILE     ? "files"
                                   : kind == VALUE_FOLDER ? "folders" : "other");
    }
    fputs("        esac ;;\n", stdout);
}

static void print_bash(const completion_command *commands, size_t n)
{
    fputs("# cerium(1) for bash, made by `cerium --completion bash`.\n"
          "_cerium() {\n"
          "    local word=$2 before=$3 command=${COMP_WORDS[1]} kind= words= options=\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -le 1 ] || { [ \"$command\" = help ] && "
          "[ \"$COMP_CWORD\" = 2 ]; }; then\n"
          "        COMPREPLY=($(compgen -W '", stdout);
    print_names(commands, n);
    fputs("help --help --version' -- \"$word\"))\n        return\n    fi\n"
          "    case \"$command ${COMP_WORDS[2]}\" in\n", stdout);
    print_parts(commands, n);
    fputs("    esac\n    case $command in\n", stdout);
    print_options(commands, n, bash_options);
    fputs("    esac\n"
          "    case $kind in\n"
          "    words) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
          "    folders) compopt -o filenames; COMPREPLY=($(compgen -d -- \"$word\")) ;;\n"
          "    other) ;;\n"
          "    *)\n"
          "        if [ -z \"$kind\" ] && [ \"${word#-}\" != \"$word\" ]; then\n"
          "            COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
          "        else\n"
          "            compopt -o filenames\n"
          "            COMPREPLY=($(compgen -f -- \"$word\"))\n"
          "        fi ;;\n"
          "    esac\n"
          "}\n"
          "complete -F _cerium cerium\n", stdout);
}

/* ---- zsh ---- */

static void zsh_options(const option_spec *const *all, size_t n)
{
    char words[WORDS_BYTES], help[TEXT_BYTES];
    fputs("        _arguments -s -S '--help[explain the command]'", stdout);
    for (size_t i = 0; i < n; i++)
        for (int lettered = 0; lettered <= (all[i]->letter != 0); lettered++) {
            value_kind kind = value_of(all[i], words);
            fputs(" \\\n            '*", stdout);
            if (lettered) printf("-%c", all[i]->letter);
            else printf("--%s", all[i]->name);
            printf("[%s]", sentence_of(all[i]->help, help));
            if (kind == VALUE_WORDS) printf(":value:(%s)", words);
            else if (kind == VALUE_FILE) fputs(":file:_files", stdout);
            else if (kind == VALUE_FOLDER) fputs(":folder:_files -/", stdout);
            else if (kind == VALUE_OTHER) fputs(":value: ", stdout);
            putchar('\'');
        }
    fputs(" \\\n            '*:file:_files' ;;\n", stdout);
}

static void print_zsh(const completion_command *commands, size_t n)
{
    char what[TEXT_BYTES];
    fputs("#compdef cerium\n# cerium(1) for zsh, made by `cerium --completion zsh`.\n"
          "_cerium() {\n"
          "    local command=$words[2]\n"
          "    local -a commands=(\n", stdout);
    for (size_t i = 0; i < n; i++)
        if (!is_part(&commands[i]))
            printf("        '%s:%s'\n", commands[i].name, sentence_of(commands[i].what, what));
    fputs("    )\n"
          "    if (( CURRENT == 2 )) || [[ $command = help ]]; then\n"
          "        _describe 'command' commands\n"
          "        return\n"
          "    fi\n"
          "    case \"$command $words[3]\" in\n", stdout);
    print_parts(commands, n);
    fputs("    esac\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $command in\n", stdout);
    print_options(commands, n, zsh_options);
    fputs("    esac\n"
          "}\n"
          "if [ \"$funcstack[1]\" = _cerium ]; then _cerium \"$@\"; "
          "else compdef _cerium cerium; fi\n", stdout);
}

/* ---- fish ---- */

/* The words after a complete command: of "wafer plan", both words. */
static void fish_when(const char *name)
{
    const char *blank = strchr(name, ' ');
    printf("complete -c cerium -n '__fish_seen_subcommand_from %.*s",
           (int)(blank ? blank - name : (ptrdiff_t)strlen(name)), name);
    if (blank) printf("; and __fish_seen_subcommand_from %s", blank + 1);
    fputs("' ", stdout);
}

static void fish_options(const char *name, const option_spec *const *all, size_t n)
{
    char words[WORDS_BYTES], help[TEXT_BYTES];
    for (size_t i = 0; i < n; i++) {
        value_kind kind = value_of(all[i], words);
        fish_when(name);
        printf("-l %s ", all[i]->name);
        if (all[i]->letter) printf("-s %c ", all[i]->letter);
        if (kind == VALUE_WORDS) printf("-x -a '%s' ", words);
        else if (kind == VALUE_FILE) fputs("-r -F ", stdout);
        else if (kind == VALUE_FOLDER) fputs("-x -a '(__fish_complete_directories)' ", stdout);
        else if (kind == VALUE_OTHER) fputs("-x ", stdout);
        printf("-d '%s'\n", sentence_of(all[i]->help, help));
    }
}

static void print_fish(const completion_command *commands, size_t n)
{
    const option_spec *all[COMMAND_OPTIONS_MAX];
    char what[TEXT_BYTES];
    fputs("# cerium(1) for fish, made by `cerium --completion fish`.\n"
          "complete -c cerium -n __fish_use_subcommand -f -l help -d 'list the commands'\n"
          "complete -c cerium -n __fish_use_subcommand -f -l version -d 'print the version'\n",
          stdout);
    for (size_t i = 0; i < n; i++)
        if (!is_part(&commands[i]))
            printf("complete -c cerium -n __fish_use_subcommand -f -a %s -d '%s'\n",
                   commands[i].name, sentence_of(commands[i].what, what));
    for (size_t i = 0; i < n; i++) {
        size_t n_options = options_of(commands[i].table, all);
        fish_options(commands[i].name, all, n_options);
    }
}

bool completion_print(const char *shell, const completion_command *commands, size_t n)
{
    if (!strcmp(shell, "bash")) print_bash(commands, n);
    else if (!strcmp(shell, "zsh")) print_zsh(commands, n);
    else if (!strcmp(shell, "fish")) print_fish(commands, n);
    else return false;
    return true;
}
