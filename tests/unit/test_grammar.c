/* test_grammar.c - grammars of all syntaxes: texts that match, errors with their line, and
 * the matcher against the slow definition. */
#include "../grammar/recognize.h"
#include "sampling/grammar_codes.h"
#include "sampling/matcher.h"
#include "unit.h"

enum { TEXTS_MAX = 12 };

/* Texts in the grammar, then texts that are not. */
typedef struct {
    cerium_grammar_syntax syntax;
    const char *grammar;
    const char *in[TEXTS_MAX], *out[TEXTS_MAX];
} grammar_case;

#define SCHEMA CERIUM_GRAMMAR_JSON_SCHEMA
#define REGEX  CERIUM_GRAMMAR_REGEX
#define LARK   CERIUM_GRAMMAR_LARK
#define GBNF   CERIUM_GRAMMAR_GBNF

static const char patch[] =
    "start: begin_patch hunk+ end_patch\nbegin_patch: \"*** Begin Patch\" LF\n"
    "end_patch: \"*** End Patch\" LF?\n\nhunk: add_hunk | delete_hunk | update_hunk\n"
    "add_hunk: \"*** Add File: \" filename LF add_line+\n"
    "delete_hunk: \"*** Delete File: \" filename LF\n"
    "update_hunk: \"*** Update File: \" filename LF change_move? change?\n\n"
    "filename: /(.+)/\nadd_line: \"+\" /(.*)/ LF -> line\n\n"
    "change_move: \"*** Move to: \" filename LF\n"
    "change: (change_context | change_line)+ eof_line?\n"
    "change_context: (\"@@\" | \"@@ \" /(.+)/) LF\n"
    "change_line: (\"+\" | \"-\" | \" \") /(.*)/ LF\n"
    "eof_line: \"*** End of File\" LF\n\n%import common.LF\n";

static const grammar_case cases[] = {
    {REGEX, "a*b", {"b", "aaab"}, {"", "a", "ba", "ab "}},
    {REGEX, "[a-c]{2,3}|x", {"ab", "abc", "x"}, {"a", "abca", "xx"}},
    {REGEX, "^(?:é[à-ü]?|[^a-z\\d])$", {"é", "éà", "A", "€", "\n"}, {"a", "5", "éé1"}},
    {REGEX, "(?i)ab[c-d](?-i:e)", {"ABCe", "abde"}, {"abcE"}},
    {REGEX, ".", {"a", "\xf0\x9f\x98\x80"}, {"\n", "ab", "\xff"}},
    {REGEX, "\\x41\\u0042\\u{43}\\t\\.", {"ABC\t."}, {"ABC\tx"}},
    {REGEX, "", {""}, {"a"}},
    {REGEX, "(a|b)*?c??", {"", "abc", "c"}, {"cc"}},
    {REGEX, "a{2", {"a{2"}, {"aa"}},
    {REGEX, "[]a-]+", {"]", "a", "-]"}, {"b"}},
    {SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"type\":"
     "\"integer\"}},\"required\":[\"a\"],\"additionalProperties\":false}",
     {"{\"a\":\"x\"}", "{\"a\":\"x\",\"b\":1}", "{\"a\": \"x\", \"b\": -12}",
      "{\n  \"a\":\"é\\n\"\n}"},
     {"{\"b\":1}", "{\"b\":1,\"a\":\"x\"}", "{\"a\":\"x\",}", "{}", "{\"a\":\"x\",\"c\":1}",
      "{\"a\":\"\n\"}"}},
    {SCHEMA,
     "{\"type\":\"object\"}",
     {"{}", "{\"a\":[1,2,{\"b\":null}]}"},
     {"[]", "{a:1}", "{\"a\"}"}},
    {SCHEMA,
     "true",
     {"1", "-0.5e+3", "[[],{}]", "\"\\ud83d\\ude00\""},
     {"01", "1.", "\"\\ud83d\"", "nul"}},
    {SCHEMA,
     "{\"type\":\"integer\",\"minimum\":-5,\"exclusiveMaximum\":120}",
     {"-5", "0", "99", "119"},
     {"-6", "120", "1000", "1.0", "-0", "007"}},
    {SCHEMA,
     "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":10}",
     {"14", "21", "700"},
     {"7", "15", "0"}},
    {SCHEMA,
     "{\"type\":\"number\",\"multipleOf\":0.25}",
     {"1", "1.5", "0.75", "-2.25", "0"},
     {"-2.250", "0.1", "1.24", "1e2"}},
    {SCHEMA,
     "{\"not\":{\"type\":[\"integer\",\"string\",\"object\"]}}",
     {"1.5", "-0.25", "null", "true", "[1]"},
     {"1", "1.0", "\"a\"", "{}", "1e2"}},
    {SCHEMA,
     "{\"type\":[\"integer\",\"string\",\"boolean\"],"
     "\"not\":{\"enum\":[3,true,\"a\\n\"]}}",
     {"2", "-3", "30", "\"a\"", "\"a\\n \"", "false"},
     {"3", "true", "\"a\\n\"", "\"a\\u000a\"", "null"}},
    {SCHEMA,
     "{\"type\":\"number\",\"not\":{\"anyOf\":[{\"const\":1},{\"const\":-2.5},{\"minimum\":9}]}}",
     {"1.5", "-2.25", "2.5", "8.99", "-1"},
     {"1", "1.0", "1.000", "-2.5", "-2.50", "9", "9.0", "1e0", "100e-2"}},
    {SCHEMA,
     "{\"type\":\"string\",\"maxLength\":4,\"not\":{\"pattern\":\"^a|b$\"}}",
     {"\"\"", "\"ca\"", "\"cbc\""},
     {"\"a\"", "\"cb\"", "\"abc\"", "\"ccccc\""}},
    {SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"a\",\"b\"]},"
     "\"v\":{\"type\":\"integer\"}},"
     "\"additionalProperties\":false,\"if\":{\"properties\":{\"k\":{\"const\":\"a\"}},"
     "\"required\":[\"k\"]},"
     "\"then\":{\"required\":[\"v\"]},\"else\":{\"properties\":{\"v\":{\"maximum\":5}}}}",
     {"{\"k\":\"a\",\"v\":9}", "{\"k\":\"b\"}", "{\"k\":\"b\",\"v\":5}", "{}", "{\"v\":1}"},
     {"{\"k\":\"a\"}", "{\"k\":\"b\",\"v\":9}", "{\"v\":6}", "{\"k\":\"c\"}"}},
    {SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{\"type\":\"null\"},\"c\":{}},"
     "\"additionalProperties\":false,\"dependentRequired\":{\"a\":[\"b\"]},"
     "\"dependentSchemas\":{\"c\":{\"properties\":{\"a\":{\"const\":1}}}}}",
     {"{}", "{\"b\":null}", "{\"a\":2,\"b\":null}", "{\"a\":1,\"b\":null,\"c\":0}", "{\"c\":0}"},
     {"{\"a\":2}", "{\"a\":2,\"b\":null,\"c\":0}", "{\"a\":1,\"c\":0}"}},
    {SCHEMA,
     "{\"oneOf\":[{\"type\":\"integer\",\"minimum\":0},{\"type\":\"integer\",\"maximum\":9},"
     "{\"type\":\"string\"}]}",
     {"-1", "10", "\"a\""},
     {"0", "5", "9", "null", "1.5"}},
    {SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^[a-z/]+$\",\"minLength\":3,\"maxLength\":5}",
     {"\"abc\"", "\"a/b/c\"", "\"a//b\""},
     {"\"ab\"", "\"abcdef\"", "\"Abc\"", "\"ab\\n\""}},
    {SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"[é\\n]\",\"minLength\":2}",
     {"\"é1\"", "\"\\n\\n\"", "\"𝄞é\""},
     {"\"é\"", "\"\\n\"", "\"ab\"", "\"\""}},
    {SCHEMA,
     "{\"type\":\"number\",\"minimum\":0.5,\"exclusiveMaximum\":2.25}",
     {"0.5", "0.50", "1", "2.2499", "2"},
     {"0.49", "2.25", "2.250", "3", "-1", "0"}},
    {SCHEMA,
     "{\"type\":\"number\",\"maximum\":-1.5}",
     {"-1.5", "-1.50", "-2", "-10.3"},
     {"-1.4", "0", "1"}},
    {SCHEMA,
     "{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
     "\"c\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n\"}}},\"required\":[\"v\","
     "\"c\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/n\"}",
     {"{\"v\":1,\"c\":[]}",
      "{\"v\":1,\"c\":[{\"v\":2,\"c\":[]},{\"v\":3,\"c\":[{\"v\":2,\"c\":[]}]}]}"},
     {"{\"v\":1}", "{\"v\":1,\"c\":[1]}"}},
    {SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^a+$|b\"}",
     {"\"aa\"", "\"xb\\n\"", "\"b\\\"\""},
     {"\"ac\"", "\"\""}},
    {SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^[A-Z]\",\"maxLength\":3}",
     {"\"A\"", "\"Aéé\""},
     {"\"a\"", "\"ABCD\""}},
    {SCHEMA,
     "{\"type\":\"string\",\"minLength\":1,\"maxLength\":3}",
     {"\"éüñ\"", "\"\\n\\u00e9x\"", "\"\\ud83d\\ude00\""},
     {"\"\"", "\"abcd\""}},
    {SCHEMA,
     "{\"enum\":[\"a\",1,null,{\"x\":[1,2]}]}",
     {"\"a\"", "1", "null", "{\"x\": [1, 2]}"},
     {"2", "\"b\""}},
    {SCHEMA,
     "{\"type\":\"string\",\"enum\":[\"a\",1,\"bcd\"],\"maxLength\":2}",
     {"\"a\""},
     {"1", "\"bcd\""}},
    {SCHEMA,
     "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"minLength\":2}",
     {"\"ab\"", "null"},
     {"\"a\"", "1"}},
    {SCHEMA,
     "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":1}},\"required\":"
     "[\"k\"],\"additionalProperties\":false},{\"type\":\"object\",\"properties\":{\"k\":"
     "{\"const\":2}},\"required\":[\"k\"],\"additionalProperties\":false}]}",
     {"{\"k\":1}", "{\"k\":2}"},
     {"{\"k\":3}", "{}"}},
    {SCHEMA,
     "{\"allOf\":[{\"properties\":{\"a\":{\"minimum\":3}}},{\"type\":\"object\",\"properties\":"
     "{\"a\":{\"type\":\"integer\",\"maximum\":5}},\"required\":[\"a\"],"
     "\"additionalProperties\":false}]}",
     {"{\"a\":4}"},
     {"{\"a\":2}", "{\"a\":6}", "{}"}},
    {SCHEMA,
     "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"boolean\"}],"
     "\"items\":{\"type\":\"null\"},\"minItems\":1,\"maxItems\":4}",
     {"[1]", "[1,true]", "[1, false, null, null]"},
     {"[]", "[true]", "[1,true,2]", "[1,true,null,null,null]"}},
    {SCHEMA,
     "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2}",
     {"[1,2]", "[1,2,3]"},
     {"[]", "[1]"}},
    {SCHEMA,
     "{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"integer\"}},\"properties\":"
     "{\"xa\":{\"maximum\":5}},\"additionalProperties\":{\"type\":\"null\"}}",
     {"{}", "{\"xa\":3}", "{\"xb\":9,\"c\":null}"},
     {"{\"xa\":9}", "{\"xb\":null}", "{\"c\":1}"}},
    {SCHEMA,
     "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"},\"minProperties\":1,"
     "\"maxProperties\":2}",
     {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
     {"{}", "{\"a\":1,\"b\":2,\"c\":3}"}},
    {SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"null\"}}",
     {"{\"a\":1}", "{\"b\":null}", "{\"ab\":null}"},
     {"{\"a\":1,\"a\":null}", "{\"\\u0061\":null}", "{\"b\":1}"}},
    {SCHEMA,
     "{\"format\":\"date\",\"type\":\"string\"}",
     {"\"2024-02-29\"", "\"1999-12-31\""},
     {"\"2023-02-29\"", "\"1900-02-29\"", "\"2020-13-01\""}},
    {SCHEMA,
     "{\"format\":\"ipv6\",\"type\":\"string\"}",
     {"\"::\"", "\"::1\"", "\"1::\"", "\"fe80::1:2\"", "\"1:2:3:4:5:6:7:8\"", "\"::ffff:1.2.3.4\""},
     {"\"1:2:3\"", "\":::\"", "\"1::2::3\"", "\"12345::\"", "\"1:2:3:4:5:6:7:8:9\""}},
    {SCHEMA,
     "{\"format\":\"uuid\",\"type\":\"string\"}",
     {"\"123e4567-e89b-12d3-a456-426614174000\""},
     {"\"123e4567\""}},
    {LARK,
     "start: expr\nexpr: term | expr \"+\" term\nterm: NUM | term \"*\" NUM\nNUM: /[0-9]+/",
     {"1", "1+2*3", "1*2*3+4"},
     {"+1", "1+", "1**2"}},
    {LARK,
     "start: a\na: b \"x\" | \"q\"\nb: a \"y\" | b \"z\" | c\nc: a \"w\"",
     {"q", "qyx", "qyzx", "qwx", "qwzxyx"},
     {"qwyx", "qx", "qy"}},
    {LARK, "start: start start | \"a\"", {"a", "aaaaaaaaaaaaaaaaaaaa"}, {"", "b"}},
    {LARK, "start: e e \"b\"\ne: \"a\"?", {"b", "ab", "aab"}, {"aaab", ""}},
    {LARK, "start: \"a\" start \"b\" |", {"", "ab", "aaabbb"}, {"aab", "abb"}},
    {LARK,
     "start: a b?\na: \"x\"\nb: a \"y\"\n%ignore \" \"\n",
     {"x", " x  x y", "xxy "},
     {"xy", "x x"}},
    {LARK,
     "?start.2: WORD (\",\" WORD)~1..2 -> list\n  | \"none\"i // or nothing\n"
     "%import common (WORD)\n",
     {"a,b", "ab,c,d", "NoNe"},
     {"a", "a,b,c,d"}},
    {LARK, "start: \"v\" %json {\"type\":\"integer\"} \"a\"..\"c\"", {"v12b"}, {"v12", "v1.5b"}},
    {LARK, "start: \"a\" <|call|> <\"[X]\">", {"a\xff<|call|>\xff\xff[X]\xff"}, {"a<|call|>[X]"}},
    {LARK,
     patch,
     {"*** Begin Patch\n*** Add File: a\n+x\n+\n*** End Patch\n",
      "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@ f\n x\n-y\n+z\n*** End of File\n*** "
      "End Patch"},
     {"*** Begin Patch\n*** End Patch", "*** Begin Patch\n*** Add File: \n+x\n*** End Patch"}},
    {LARK, "# c\nstart: \"a\" # d\n", {"a"}, {"b"}},
    {LARK, "start: /\\p{Lu}\\P{L}/", {"\303\2111"}, {"\303\2511", "AA"}},
    {LARK,
     "start: _sep{x, \",\"}\n_sep{i, s}: i (s i)*\nx: \"a\"|\"b\"\n",
     {"a", "a,b", "b,b,a"},
     {"a,", "", "ab"}},
    {LARK,
     "start: l{\"a\"} p{N,x}\nl{x}: x | x \";\" l{x}\np{a,b}: \"(\" a\n  | b \")\" // c\n"
     "N: /[0-9]/\nx: \"x\"\n%ignore \" \"",
     {"a(1", "a;a x)", "a;a;a( 2"},
     {"a;", "(1", "a(x)"}},
    {GBNF,
     "root ::= (expr \"=\" ws num \"\\n\")+\nexpr ::= num ([-+*/] num)*\n"
     "num ::= [0-9]{1,3} ws\nws ::= [ \\t]* # blanks\n",
     {"1+2=3\n", "12 = 4 \n3=3\n"},
     {"1+2=\n", "1234=1\n", ""}},
    {GBNF,
     "root ::= [^a-c\\]] . | \"\\x41\\u00e9\"\n   | other-rule\nother-rule ::= \"z\"?",
     {"de", "Aé", "z", ""},
     {"a", "ab", "zz z"}},
};

/* Schemas whose grammar is wider than they are: the note, and texts that fit or do not. */
static const struct {
    const char *schema, *note, *in, *out;
} left_out[] = {
    {"{\"properties\":{\"a\":{\"not\":{\"format\":\"date\"}},\"b\":{\"type\":\"null\"}}}",
     "/properties/a/not: of 'format' is not supported", "{\"a\":1,\"b\":null}", "{\"b\":1}"},
    {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"integer\"}}",
     "/uniqueItems: needs items that an enum lists, without prefixItems or contains", "[1,1]",
     "[null]"},
    {"{\"properties\":{\"a\":{\"$ref\":\"http://x\",\"type\":\"integer\"}}}",
     "/properties/a/$ref: leads to no schema; it must stay within this one", "{\"a\":1}",
     "{\"a\":\"\"}"},
    {"{\"oneOf\":[{\"items\":{}},{\"type\":\"array\"}]}", "/oneOf: of 'items' is not supported",
     "[1]", NULL},
    {"{\"not\":{\"enum\":[[1]]},\"type\":\"array\"}",
     "/not: of values that are objects or arrays is not supported", "[1]", "1"},
    {"{\"type\":\"string\",\"pattern\":\"(a)\\\\1\",\"maxLength\":2}",
     "/pattern: an expression: backreferences are not regular, at byte 5, near '(a)\\1'", "\"xy\"",
     "\"xyz\""},
    {"{\"type\":\"string\",\"pattern\":\"(a|b)*a(a|b){40}\",\"maxLength\":2}",
     "/pattern: takes too long to compile; make it smaller", "\"xy\"", "\"xyz\""},
    {"{\"type\":\"object\",\"patternProperties\":{\"^(a)\\\\1\":{}},\"additionalProperties\":false,"
     "\"properties\":{\"q\":{\"type\":\"null\"}}}",
     "/patternProperties: a pattern: backreferences are not regular, at byte 6, near '^(a)\\1'",
     "{\"q\":null,\"aa\":1}", "{\"q\":1}"},
    {"{\"type\":\"integer\",\"minimum\":1e30,\"maximum\":9}",
     "/minimum: leaves numbers of more than 20 digits only", "9", "10"},
    {"{\"type\":\"integer\",\"multipleOf\":1e-30,\"maximum\":9}",
     "/multipleOf: has more digits than can be kept to", "9", "10"},
    {"{\"type\":\"string\",\"minLength\":1e9,\"format\":\"ipv4\"}",
     "/minLength: is more than can be counted", "\"1.2.3.4\"", "\"x\""},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"maxProperties\":1}",
     "/maxProperties: beside named properties is not supported", "{\"a\":null,\"b\":1}",
     "{\"a\":1}"},
    {"{\"enum\":[[1,1],2],\"uniqueItems\":true}",
     "/enum: of objects and arrays: the conditions beside it do not count", "[1,1]", "[1]"},
    {"{\"$dynamicRef\":\"#x\",\"type\":\"null\"}", "/$dynamicRef: is not supported", "null", "1"},
};

/* The same for invalid schemas, where they are tolerated. */
static const struct {
    const char *schema, *note, *in, *out;
} forgiven[] = {
    {"{\"type\":\"thing\",\"maximum\":3}", "/type: is not one of JSON's", "\"x\"", "4"},
    {"{\"properties\":{\"a\":null,\"b\":{\"type\":\"null\"}}}",
     "/: what should be a schema is not an object or boolean", "{\"a\":1}", "{\"b\":1}"},
    {"{\"type\":\"object\",\"required\":true,\"properties\":{\"b\":{\"required\":\"yes\",\"type\":"
     "\"object\"}}}",
     "/properties/b/required: must be a list of names", "{\"b\":{}}", "{\"b\":1}"},
    {"{\"type\":\"integer\",\"minimum\":\"3\",\"maximum\":9}", "/minimum: must be a number", "2",
     "10"},
    {"{\"type\":\"string\",\"maxLength\":-1,\"minLength\":1}",
     "/maxLength: must be a whole number, 0 or above", "\"a\"", "\"\""},
    {"{\"anyOf\":{},\"type\":\"null\"}", "/anyOf: must be a list of schemas", "null", "1"},
    {"{\"enum\":\"a\",\"type\":\"null\"}", "/enum: must be a list of values", "null", "1"},
    {"{\"pattern\":5,\"type\":\"string\"}", "/pattern: must be a string", "\"\"", "1"},
};

static const struct {
    cerium_grammar_syntax syntax;
    const char *grammar, *line;
    int status;
} refusals[] = {
    {SCHEMA, "{\"type\":\"thing\"}", "schema: /type: is not one of JSON's", -4},
    {SCHEMA, "{", "schema: : not JSON: string or '}' expected near end of file, line 1, column 1",
     -4},
    {SCHEMA, "false", "schema: no text at all fits it", -4},
    {SCHEMA, "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
     "schema: no text at all fits it", -4},
    {REGEX, "a)", "regex: : a ')' without '(', at byte 1, near 'a)'", -4},
    {REGEX, "(a|b)*a(a|b){30}", "regex: takes too long to compile; make it smaller", -5},
    {REGEX, "a**", "regex: : a repetition of a repetition, at byte 3, near 'a**'", -4},
    {LARK, "start: a\n", "lark: line 1: a name that nothing defines, at 'a'", -4},
    {LARK, "start: \"a\n", "lark: line 1: a text has no end, at ''", -4},
    {LARK, "start: x{y}\n", "lark: line 1: a template that nothing defines, at 'y}'", -4},
    {LARK, "start: q{\"x\", \"y\"}\nq{a}: a\n",
     "lark: line 1: a template with another count of arguments, at '\"x\", \"y\"}'", -4},
    {LARK, "start: q{\"x\"}\nq{a}: q{a a}\n",
     "lark: line 2: templates are used with too many arguments, at ''", -4},
    {LARK, "start: /a(?=b)/\n",
     "lark: line 1: a terminal may only have ^ and $, at its ends: the text around it is unknown, "
     "at byte 4, near 'a(?=b)'", -4},
    {REGEX, "\\p{Nonsense}", "regex: : Unicode has no such property, at byte 12, near '{Nonsense}'",
     -4},
    {LARK, "%import other.X\n", "lark: line 1: only %import common is supported, at 'other.X'", -4},
    {GBNF, "root ::= ( \"a\"", "gbnf: line 1: a bracket is not closed, at ''", -4},
    {GBNF, "rot ::= \"a\"", "gbnf: there is no start rule 'root'", -4},
};

static void check_case(const grammar_case *c)
{
    grammar *g = NULL;
    matcher *w = NULL;
    cerium_error err = {.status = 0};
    int status = grammar_compile(&g, c->syntax, view_of(c->grammar), &err);
    TEST_CHECK_THAT(status == 0, "%s: %s", c->grammar, err.message);
    if (status) return;
    TEST_CHECK(matcher_open(&w, g, 0, 0, 0, &err) == 0);
    for (int want = 0; want < 2; want++) {
        const char *const *texts = want ? c->in : c->out;
        for (int i = 0; i < TEXTS_MAX && texts[i]; i++) {
            bool slow = false;
            view text = view_of(texts[i]);
            matcher_begin(w, 0);
            bool is = matcher_accept(w, 0, 0, text) && matcher_is_complete(w, 0);
            recognize(g, text, &slow);
            TEST_CHECK_THAT(is == want, "%s: '%s'", c->grammar, texts[i]);
            TEST_CHECK_THAT(slow == want, "slow: %s: '%s'", c->grammar, texts[i]);
        }
    }
    matcher_close(&w);
    grammar_free(&g);
}

static void test_cases(void)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) check_case(&cases[i]);
}

static void test_refusals(void)
{
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        grammar *g = NULL;
        cerium_error err = {.status = 0};
        int status = grammar_compile(&g, refusals[i].syntax, view_of(refusals[i].grammar), &err);
        TEST_CHECK_THAT(status == refusals[i].status && !strcmp(err.message, refusals[i].line),
                        "%s: %d '%s'", refusals[i].grammar, status, err.message);
        grammar_free(&g);
    }
}

static bool takes(const grammar *g, const char *text)
{
    matcher *w = NULL;
    cerium_error err;
    CHECK(!matcher_open(&w, g, 0, 0, 0, &err));
    matcher_begin(w, 0);
    bool is = matcher_accept(w, 0, 0, view_of(text)) && matcher_is_complete(w, 0);
    matcher_close(&w);
    return is;
}

static void test_left_out(void)
{
    for (size_t i = 0; i < ARRAY_LEN(left_out) + ARRAY_LEN(forgiven); i++) {
        bool forgives = i >= ARRAY_LEN(left_out);
        size_t k = forgives ? i - ARRAY_LEN(left_out) : i;
        const char *schema = forgives ? forgiven[k].schema : left_out[k].schema;
        const char *note = forgives ? forgiven[k].note : left_out[k].note;
        const char *in = forgives ? forgiven[k].in : left_out[k].in;
        const char *out = forgives ? forgiven[k].out : left_out[k].out;
        grammar *g = NULL;
        cerium_error err = {.status = 0};
        if (forgives) {
            TEST_CHECK_THAT(grammar_compile(&g, SCHEMA, view_of(schema), &err), "%s", schema);
            grammar_free(&g);
        }
        int status = forgives ? grammar_compile_forgiving(&g, SCHEMA, view_of(schema), &err)
                              : grammar_compile(&g, SCHEMA, view_of(schema), &err);
        TEST_CHECK_THAT(!status, "%s: %s", schema, err.message);
        if (status) continue;
        TEST_CHECK_THAT(g->notes && !strcmp(g->notes, note), "%s: '%s'", schema,
                        g->notes ? g->notes : "");
        TEST_CHECK_THAT(takes(g, in), "%s: not %s", schema, in);
        TEST_CHECK_THAT(!out || !takes(g, out), "%s: %s", schema, out ? out : "");
        grammar_free(&g);
    }
}

/* Strings that count more characters in total than automata have states: some are dropped. */
static void test_large(void)
{
    bytes schema = {.max = 1 << 20};
    cerium_error err = {.status = 0};
    grammar *g = NULL;
    CHECK(!bytes_append(&schema, "{\"properties\":{", 15));
    for (int i = 0; i < 8; i++) {
        char one[64];
        snprintf(one, sizeof one, "%s\"p%d\":{\"type\":\"string\",\"maxLength\":65535}",
                 i ? "," : "", i);
        CHECK(!bytes_append(&schema, one, strlen(one)));
    }
    CHECK(!bytes_append(&schema, "}}", 2));
    TEST_CHECK(!grammar_compile(&g, SCHEMA, (view){schema.ptr, schema.len}, &err));
    if (g) TEST_CHECK(g->notes && strstr(g->notes, "/properties/p1/maxLength: the whole"));
    if (g) TEST_CHECK(takes(g, "{\"p0\":\"x\",\"p7\":\"y\"}") && !takes(g, "{\"p7\":1}"));
    grammar_free(&g);
    bytes_free(&schema);
}

/* Every code point, and invalid ones, against classes in both forms. */
static void test_characters(void)
{
    static const char *const classes[] = {"[^\\ud7ff-\\ue001\\u0080\\u07ff]",
                                          "[\\u007e-\\u{10000}]", "\\W"};
    for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
        grammar *g = NULL;
        matcher *w = NULL;
        cerium_error err = {.status = 0};
        TEST_CHECK_THAT(grammar_compile(&g, REGEX, view_of(classes[i]), &err) == 0, "%s",
                        err.message);
        if (!g) continue;
        TEST_CHECK(matcher_open(&w, g, 0, 0, 0, &err) == 0);
        for (uint32_t c = 0; c <= CODE_MAX; c++) {
            uint8_t text[4];
            size_t n = code_write(c, text);
            bool want = i == 0
                            ? c != 0xd7ff && (c < 0xd800 || c > 0xe001) && c != 0x80 && c != 0x7ff
                        : i == 1 ? c >= 0x7e && c <= 0x10000 && (c < 0xd800 || c > 0xdfff)
                                 : (c < 0xd800 || c > 0xdfff) &&
                                       !(c < 128 && (c == '_' || (c >= '0' && c <= '9') ||
                                                     ((c | 32) >= 'a' && (c | 32) <= 'z')));
            matcher_begin(w, 0);
            bool is =
                matcher_accept(w, 0, 0, (view){(const char *)text, n}) && matcher_is_complete(w, 0);
            TEST_CHECK_THAT(is == want, "%s: U+%04X", classes[i], c);
        }
        matcher_close(&w);
        grammar_free(&g);
    }
}

/* Any depth up to the bound; beyond it brackets are refused, and open ones can be closed. */
static void test_depth(void)
{
    grammar *g = NULL;
    matcher *w = NULL;
    cerium_error err;
    TEST_CHECK(grammar_compile(&g, SCHEMA, VIEW("true"), &err) == 0);
    TEST_CHECK(matcher_open(&w, g, 0, 0, 0, &err) == 0);
    matcher_begin(w, 0);
    uint32_t depth = 0;
    while (depth < 10000 && matcher_accept(w, 0, 0, VIEW("["))) depth++;
    TEST_CHECK_THAT(depth > 300 && depth < 10000, "%u", depth);
    TEST_CHECK(matcher_accept(w, 0, 0, VIEW("]")));
    for (uint32_t i = 1; i < depth; i++) TEST_CHECK(matcher_accept(w, 0, 0, VIEW(",1]")));
    TEST_CHECK(matcher_is_complete(w, 0));
    matcher_close(&w);
    grammar_free(&g);
}

/* A long text passes many places: old ones are forgotten, but not those in slots. */
static void test_forgetting(void)
{
    grammar *g = NULL;
    matcher *w = NULL;
    cerium_error err;
    TEST_CHECK(grammar_compile(&g, SCHEMA,
                               VIEW("{\"type\":\"array\",\"items\":{\"type\":\"string\","
                                    "\"maxLength\":20000}}"),
                               &err) == 0);
    TEST_CHECK(matcher_open(&w, g, 0, 0, 0, &err) == 0);
    matcher_begin(w, 0);
    TEST_CHECK(matcher_accept(w, 0, 1, VIEW("[\"begin\"")));
    TEST_CHECK(matcher_accept(w, 0, 0, VIEW("[\"")));
    for (int i = 0; i < 20000; i++) TEST_CHECK(matcher_accept(w, 0, 0, VIEW("x")));
    TEST_CHECK(!matcher_accept(w, 0, 0, VIEW("x")));
    TEST_CHECK(w->n_collected > 0);
    TEST_CHECK(matcher_accept(w, 0, 0, VIEW("\"]")) && matcher_is_complete(w, 0));
    TEST_CHECK(matcher_accept(w, 1, 1, VIEW(",\"y\"]")) && matcher_is_complete(w, 1));
    matcher_close(&w);
    grammar_free(&g);
}

/* Every allocation fails in turn: an error, and nothing left over. */
static void test_memory(void)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i += 5) {
        long live = memory_live();
        bool done = false;
        for (long n = 0; n < 100000 && !done; n += n < 40 ? 1 : 17) {
            grammar *g = NULL;
            matcher *w = NULL;
            cerium_error err = {.status = 0};
            memory_fail_at(n);
            int status = grammar_compile(&g, cases[i].syntax, view_of(cases[i].grammar), &err);
            if (!status) status = matcher_open(&w, g, 16, 4, 4, &err);
            memory_fail_at(-1);
            done = status == 0;
            TEST_CHECK(status == 0 || status == CERIUM_ERR_MEMORY);
            matcher_close(&w);
            grammar_free(&g);
        }
        TEST_CHECK(done && memory_live() == live);
    }
}

int main(void)
{
    TEST_RUN(test_cases);
    TEST_RUN(test_refusals);
    TEST_RUN(test_left_out);
    TEST_RUN(test_large);
    TEST_RUN(test_characters);
    TEST_RUN(test_depth);
    TEST_RUN(test_forgetting);
    TEST_RUN(test_memory);
    return unit_report("grammar");
}
