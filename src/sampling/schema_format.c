/* schema_format.c - string formats, each according to the grammar of its standard.
 *
 * None is narrower than its standard.  Wider are: hosts and mailboxes (their whole length is not
 * counted), a leap second beside a numeric offset (any minute may have it), and names beyond ASCII
 * (the rules of IDNA are not checked).  "regex" and unknown formats are annotations. */
#include "sampling/schema.h"

/* ---- RFC 3339 ---- */

#define YEAR_DATE                                                                                  \
    "(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|"            \
    "02-(0[1-9]|1\\d|2[0-8]))|(\\d\\d(0[48]|[2468][048]|[13579][26])|"                             \
    "([02468][048]|[13579][26])00)-02-29)"
#define HOUR     "([01]\\d|2[0-3])"
#define OFFSET   "[+-]" HOUR ":[0-5]\\d"
#define FRACTION "(\\.\\d+)?"
#define DAY_TIME                                                                                   \
    "(" HOUR ":[0-5]\\d:[0-5]\\d" FRACTION "([zZ]|" OFFSET ")|23:59:60" FRACTION "[zZ]|" HOUR      \
    ":[0-5]\\d:60" FRACTION OFFSET ")"
#define SPAN     "T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S)"
#define DAYS     "\\d+D"
#define MONTHS   "\\d+M(" DAYS ")?"
#define DURATION "P(\\d+W|((" DAYS "|" MONTHS "|\\d+Y(" MONTHS ")?)(" SPAN ")?)|" SPAN ")"

/* ---- addresses: RFC 2673 and 4291; two colons stand for one group or more ---- */

#define BYTE_10 "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4    BYTE_10 "(\\." BYTE_10 "){3}"
#define HEX4    "[0-9a-fA-F]{1,4}"
#define H(n)    "(" HEX4 ":){" n "}"
/* Up to n + 1 groups, the last two of which may be an IPv4 address. */
#define TAIL(n, n_before_ipv4) "(" H("0," n) HEX4 "|" H("0," n_before_ipv4) IPV4 ")?"
#define IPV6                                                                                       \
    "(" H("7") HEX4 "|" H("6") IPV4 "|::" TAIL("6", "5") "|" HEX4 "::" TAIL("5", "4") "|" HEX4     \
    "(:" HEX4 ")::" TAIL("4", "3") "|" HEX4 "(:" HEX4 "){2}::" TAIL("3", "2") "|" HEX4 "(:" HEX4   \
    "){3}::" TAIL("2", "1") "|" HEX4 "(:" HEX4 "){4}::" TAIL("1", "0") "|" HEX4 "(:" HEX4          \
    "){5}::(" HEX4 ")?|" HEX4 "(:" HEX4 "){6}::)"

/* ---- hosts: RFC 1123, 5890; mailboxes: RFC 5321, 6531 ---- */

#define BEYOND    "\\u{80}-\\u{10ffff}"
#define LABEL     "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define HOST      LABEL "(\\." LABEL ")*"
#define IDN_LABEL "[a-zA-Z0-9" BEYOND "]([a-zA-Z0-9" BEYOND "-]*[a-zA-Z0-9" BEYOND "])?"
#define IDN_HOST  IDN_LABEL "([.\\u{3002}\\u{ff0e}\\u{ff61}]" IDN_LABEL ")*"
/* A domain of mail: labels are not counted there. */
#define DOMAIN(more) "[a-zA-Z0-9" more "]([a-zA-Z0-9" more "-]*[a-zA-Z0-9" more "])?"
#define DOMAINS(more) DOMAIN(more) "(\\." DOMAIN(more) ")*"
#define ATOM(more)   "[A-Za-z0-9!#$%&'*+/=?^_`{|}~" more "-]+"
#define QUOTED(more) "\"([ !#-\\[\\]-~" more "]|\\\\[ -~])*\""
#define LITERAL      "\\[(" IPV4 "|IPv6:" IPV6 "|[A-Za-z0-9-]*[A-Za-z0-9]:[!-Z^-~]+)\\]"
#define MAILBOX(more)                                                                              \
    "(" ATOM(more) "(\\." ATOM(more) ")*|" QUOTED(more) ")@(" DOMAINS(more) "|" LITERAL ")"

/* ---- RFC 3986 and 3987 ---- */

#define UCS                                                                                        \
    "\\u{a0}-\\u{d7ff}\\u{f900}-\\u{fdcf}\\u{fdf0}-\\u{ffef}\\u{10000}-\\u{1fffd}"                 \
    "\\u{20000}-\\u{2fffd}\\u{30000}-\\u{3fffd}\\u{40000}-\\u{4fffd}\\u{50000}-\\u{5fffd}"         \
    "\\u{60000}-\\u{6fffd}\\u{70000}-\\u{7fffd}\\u{80000}-\\u{8fffd}\\u{90000}-\\u{9fffd}"         \
    "\\u{a0000}-\\u{afffd}\\u{b0000}-\\u{bfffd}\\u{c0000}-\\u{cfffd}\\u{d0000}-\\u{dfffd}"         \
    "\\u{e1000}-\\u{efffd}"
#define PRIVATE  "\\u{e000}-\\u{f8ff}\\u{f0000}-\\u{ffffd}\\u{100000}-\\u{10fffd}"
#define PERCENT  "%[0-9a-fA-F]{2}"
#define NAMED    "A-Za-z0-9._~!$&'()*+,;="
#define CHAR(more, extra) "([" NAMED more extra "-]|" PERCENT ")"
#define SEGMENT(more)     CHAR(more, ":@")
#define ABEMPTY(more)     "(/" SEGMENT(more) "*)*"
#define AUTHORITY(more)                                                                            \
    "(" CHAR(more, ":") "*@)?(\\[(" IPV6 "|v[0-9a-fA-F]+\\.[" NAMED ":-]+)\\]|" CHAR(more, "")     \
    "*)(:\\d*)?"
#define AFTER(more, private)                                                                       \
    "(\\?" CHAR(more private, ":@/?") "*)?(#" CHAR(more, ":@/?") "*)?"
#define PATHS(more) "//" AUTHORITY(more) ABEMPTY(more) "|/(" SEGMENT(more) "+" ABEMPTY(more) ")?"
#define SCHEME "[A-Za-z][A-Za-z0-9+.-]*:"
#define URI(more, private)                                                                         \
    SCHEME "(" PATHS(more) "|" SEGMENT(more) "+" ABEMPTY(more) ")?" AFTER(more, private)
#define REFERENCE(more, private)                                                                   \
    "(" SCHEME "(" PATHS(more) "|" SEGMENT(more) "+" ABEMPTY(more) ")?|(" PATHS(more) "|"          \
    CHAR(more, "@") "+" ABEMPTY(more) ")?)" AFTER(more, private)

/* ---- RFC 6570 and 6901 ---- */

#define VARIABLE                                                                                   \
    "([A-Za-z0-9_]|" PERCENT ")(\\.?([A-Za-z0-9_]|" PERCENT "))*(:[1-9]\\d{0,3}|\\*)?"
#define TEMPLATE                                                                                   \
    "([!#$&'(-;=?-\\[\\]_a-z~" UCS PRIVATE "]|" PERCENT "|\\{[+#./;?&=,!@|]?" VARIABLE "(,"        \
    VARIABLE ")*\\})*"
#define POINTER "(/([^/~]|~[01])*)*"

static const struct {
    const char *name, *regex;
} formats[] = {
    {"date", YEAR_DATE},
    {"time", DAY_TIME},
    {"date-time", YEAR_DATE "[tT]" DAY_TIME},
    {"duration", DURATION},
    {"email", MAILBOX("")},
    {"idn-email", MAILBOX(BEYOND)},
    {"hostname", HOST},
    {"idn-hostname", IDN_HOST},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uuid", "[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"}, /* RFC 4122 */
    {"uri", URI("", "")},
    {"uri-reference", REFERENCE("", "")},
    {"iri", URI(UCS, PRIVATE)},
    {"iri-reference", REFERENCE(UCS, PRIVATE)},
    {"uri-template", TEMPLATE},
    {"json-pointer", POINTER},
    {"relative-json-pointer", "(0|[1-9]\\d*)([+-](0|[1-9]\\d*))?(#|" POINTER ")"},
};

const char *schema_format(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (!strcmp(formats[i].name, name)) return formats[i].regex;
    return NULL;
}
