/* test_snippets.c - the parts of a workspace that are found for a place, by cases that a person can
 * judge, and by rules that hold for any text. */
#include "snippets/snippet_index.h"

#include "../random.h"
#include "snippets/words.h"
#include "unit.h"

/* ---- words and lines ---- */

static void test_words(void)
{
    const view text = VIEW("int x2 = 0x1f + foo_bar(12, \xC3\xA9t\xC3\xA9);");
    static const char *const want[] = {"int", "x2", "foo_bar", "\xC3\xA9t\xC3\xA9"};
    size_t at = 0, n = 0;
    for (view word; word_next(text, &at, &word); n++)
        TEST_CHECK(n < ARRAY_LEN(want) && view_equal(word, view_of(want[n])));
    TEST_CHECK(n == ARRAY_LEN(want));
    TEST_CHECK(at == text.len);
}

static void test_definitions(void)
{
    static const struct {
        const char *line, *name;
        bool defines;
    } cases[] = {
        {"def total(prices):", "total", true},
        {"    def total(self):", "total", true},
        {"class Basket:", "Basket", true},
        {"x = total(prices)", "total", false},
        {"x = total(prices)", "x", true},
        {"    return total(prices)", "total", false},
        {"static int total(const int *prices)", "total", true},
        {"char *name_of(void)", "name_of", true},
        {"total(prices);", "total", false},
        {"} basket;", "basket", true},
        {"func (b *Basket) Total() int {", "Total", false},
        {"export function total(a) {", "total", true},
        {"if (total(x) == 1) {", "total", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *at = strstr(cases[i].line, cases[i].name);
        const view line = view_of(cases[i].line);
        TEST_CHECK_THAT(word_is_defined_at(line, (size_t)(at - line.ptr), strlen(cases[i].name)) ==
                            cases[i].defines, "%s", line.ptr);
    }
}

static void test_imports(void)
{
    static const char *const yes[] = {
        "import os", "from a.b import c", "#include \"a.h\"", "#include <a.h>", "use std::io;",
        "    \"net/http\"", "const a = require('./a')", "} from './a'", "import java.util.List;"};
    static const char *const no[] = {"", "   ", "x = 1", "# import os", "imported = 2",
                                     "return \"a\"", "\"", "#define FROM 1"};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        TEST_CHECK_THAT(line_imports(view_of(yes[i])), "%s", yes[i]);
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        TEST_CHECK_THAT(!line_imports(view_of(no[i])), "%s", no[i]);
}

static bool has_term(view word, uint32_t hash)
{
    word_term out[TERMS_OF_WORD_MAX];
    const uint32_t n = terms_of_word(word, out);
    for (uint32_t i = 0; i < n; i++)
        if (out[i].hash == hash) return true;
    return false;
}

static void test_terms(void)
{
    word_term part[TERMS_OF_WORD_MAX];
    /* Parts of words are the same in every spelling. */
    TEST_CHECK(terms_of_word(VIEW("total"), part) == 2 && !part[0].is_part && part[1].is_part);
    word_term snake[TERMS_OF_WORD_MAX], camel[TERMS_OF_WORD_MAX];
    const uint32_t n = terms_of_word(VIEW("total_price"), snake);
    TEST_CHECK(n == 4 && terms_of_word(VIEW("TotalPrice"), camel) == 4);
    TEST_CHECK(snake[2].hash == camel[2].hash && snake[3].hash == camel[3].hash);
    TEST_CHECK(snake[0].hash != camel[0].hash);
    TEST_CHECK(has_term(VIEW("total_price"), term_of_prefix(VIEW("tot"))));
    TEST_CHECK(!has_term(VIEW("tot"), term_of_prefix(VIEW("tot")))); /* it is a whole word */
    TEST_CHECK(terms_of_word(VIEW("a_b_c_d"), part) == 2); /* parts are too short */
    TEST_CHECK(terms_of_word(VIEW("HTTPServer"), part) == 2); /* one run of capitals and more */
}

/* ---- finding ---- */

static void put(snippet_index *x, const char *path, const char *text, bool is_open)
{
    snippet_file *f = NULL;
    TEST_CHECK(snippet_file_open(&f, view_of(path), view_of(text)) == 0);
    TEST_CHECK(snippet_index_put(x, f, is_open) == 0);
}

static const char basket[] =
    "class Basket:\n    \"\"\"What somebody wants to buy.\"\"\"\n\n"
    "    def __init__(self):\n        self.prices = []\n\n"
    "    def add_price(self, price):\n        self.prices.append(price)\n\n"
    "    def total_of_prices(self):\n        return sum(self.prices)\n\n\n"
    "def order_basket(basket, address, express=False):\n    return basket, address, express\n";
static const char weather[] =
    "def forecast(city):\n    wind = read_wind(city)\n    rain = read_rain(city)\n"
    "    return wind, rain\n\n\ndef read_wind(city):\n    return 3\n\n\n"
    "def read_rain(city):\n    return 4\n";

static bool says(const snippets *s, const char *word)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (memmem(s->files[i].text, s->files[i].text_len, word, strlen(word))) return true;
    return false;
}

static snippets find(const snippet_index *x, const char *path, const char *before,
                     const char *after, size_t bytes_max)
{
    snippets out = {.n = 0};
    const snippet_query q = {.path = view_of(path), .before = view_of(before),
                             .after = view_of(after), .bytes_max = bytes_max};
    TEST_CHECK(snippets_find(x, &q, &out) == 0);
    return out;
}

static void test_needles(void)
{
    static snippet_index x;
    put(&x, "shop/basket.py", basket, false);
    put(&x, "shop/weather.py", weather, false);
    /* A method of a class that the file imports, by its first three letters. */
    snippets s = find(&x, "shop/show.py",
                      "from shop.basket import Basket\n\n\ndef show(basket):\n"
                      "    print(basket.tot", "\n", 600);
    TEST_CHECK(s.n > 0 && says(&s, "def total_of_prices(self):"));
    TEST_CHECK(!strcmp(s.files[s.n - 1].path, "shop/basket.py"));
    snippets_close(&s);
    /* The parameters of a called function. */
    s = find(&x, "shop/pay.py", "from basket import order_basket\n\ndone = order_basket(", "\n",
             600);
    TEST_CHECK(says(&s, "address, express=False"));
    bool defines = false;
    for (uint32_t i = 0; i < s.n; i++)
        defines |= s.lines[i] == 0 && !strcmp(s.files[i].path, "shop/basket.py");
    TEST_CHECK(defines);
    snippets_close(&s);
    /* By nothing but the letters of the word at the caret. */
    s = find(&x, "zoo.py", "zzz.tot", "", 600);
    TEST_CHECK(s.n == 1 && says(&s, "total_of_prices") && s.lines[0] > 0);
    snippets_close(&s);
    /* The other file, if the place is about it. */
    s = find(&x, "shop/town.py", "city = 1\nwind = 2\nprint(rea", "\n", 600);
    TEST_CHECK(s.n && !strcmp(s.files[s.n - 1].path, "shop/weather.py") && says(&s, "read_wind"));
    snippets_close(&s);
    /* Nothing from the file itself, and nothing without shared words. */
    s = find(&x, "shop/basket.py", "self.prices.tot", "\n", 600);
    for (uint32_t i = 0; i < s.n; i++) TEST_CHECK(strcmp(s.files[i].path, "shop/basket.py") != 0);
    snippets_close(&s);
    s = find(&x, "a.py", "zzz = yyy\n", "", 600);
    TEST_CHECK(s.n == 0);
    snippets_close(&s);
    /* Nothing that is already visible at the place. */
    s = find(&x, "copy.py", weather, "", 600);
    TEST_CHECK(!says(&s, "read_wind"));
    snippets_close(&s);
    snippet_index_close(&x);
}

static void test_nearness(void)
{
    static snippet_index x;
    static const char text[] = "def parse_order(line):\n    return line.split_at(\"%s\")\n";
    char far[sizeof text + 8], near[sizeof text + 8];
    snprintf(far, sizeof far, text, "far");
    snprintf(near, sizeof near, text, "near");
    put(&x, "other/far.py", far, false);
    put(&x, "shop/near.py", near, false);
    snippets s = find(&x, "shop/use.py", "parse_order(line)\nline.spl", "", 300);
    TEST_CHECK(s.n && !strcmp(s.files[s.n - 1].path, "shop/near.py"));
    snippets_close(&s);
    put(&x, "other/far.py", far, true); /* a file that is being edited */
    s = find(&x, "shop/use.py", "parse_order(line)\nline.spl", "", 300);
    TEST_CHECK(x.n == 2);
    TEST_CHECK(s.n && !strcmp(s.files[s.n - 1].path, "other/far.py"));
    snippets_close(&s);
    snippet_index_drop(&x, VIEW("other/far.py"));
    snippet_index_drop(&x, VIEW("nowhere"));
    TEST_CHECK(x.n == 1);
    snippet_index_close(&x);
    TEST_CHECK(x.n == 0 && x.n_bytes == 0);
}

static void test_refused(void)
{
    static char large[SNIPPETS_FILE_BYTES_MAX + 1];
    snippet_file *f = NULL;
    memset(large, 'x', sizeof large);
    TEST_CHECK(snippet_file_open(&f, VIEW("a"), (view){large, sizeof large}) ==
               CERIUM_ERR_CAPACITY);
    TEST_CHECK(snippet_file_open(&f, VIEW("a"), (view){"a\0b", 3}) == CERIUM_ERR_CAPACITY);
    TEST_CHECK(snippet_file_open(&f, VIEW("a"), VIEW("")) == 0);
    snippet_file_close(&f);
    TEST_CHECK(snippet_file_open(&f, VIEW("a"), (view){large, sizeof large - 1}) == 0);
    snippet_file_close(&f);
}

/* ---- properties for any text ---- */

static size_t make_text(char *out, size_t max)
{
    static const char *const words[] = {"alpha", "beta_gamma", "deltaEpsilon", "(", ")", "=", "\n",
                                        "\n\n", "def ", "import ", "    ", "x", "1", "\xC3\xA9"};
    size_t n = 0;
    for (uint32_t i = random_below(400); i-- > 0;) {
        const view w = view_of(words[random_below(ARRAY_LEN(words))]);
        if (n + w.len > max) break;
        memcpy(out + n, w.ptr, w.len);
        n += w.len;
    }
    return n;
}

static bool is_lines_of(const snippet_index *x, const cerium_context_file *s)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (!strcmp(x->list[i]->path, s->path)) return true;
    return false;
}

static void test_any_text(void)
{
    static snippet_index x;
    static char text[8192];
    random_state = 31;
    const int n_rounds = UNIT_TIMES(3000, 300);
    for (int round = 0; round < n_rounds; round++) {
        char path[16];
        snippet_file *f = NULL;
        snprintf(path, sizeof path, "d%u/f%u.py", random_below(2), random_below(8));
        const size_t n = make_text(text, sizeof text);
        TEST_CHECK(snippet_file_open(&f, view_of(path), (view){text, n}) == 0);
        const snippet_unit *u = (const snippet_unit *)(const void *)f->units.ptr;
        for (uint32_t i = 0; i < f->n_units; i++) /* in order, of whole lines */
            TEST_CHECK(u[i].from < u[i].to && u[i].to <= n &&
                       (i == 0 || u[i - 1].to <= u[i].from) &&
                       (u[i].from == 0 || text[u[i].from - 1] == '\n'));
        TEST_CHECK(snippet_index_put(&x, f, random_below(2)) == 0);
        const size_t n_before = make_text(text, 2000), bytes_max = random_below(900);
        const size_t cut = random_below((uint32_t)n_before + 1);
        snippets s;
        const snippet_query q = {.path = VIEW("d0/f0.py"), .before = {text, cut},
                                 .after = {text + cut, n_before - cut}, .bytes_max = bytes_max,
                                 .only_alike = random_below(2)};
        TEST_CHECK(snippets_find(&x, &q, &s) == 0);
        size_t total = 0;
        for (uint32_t i = 0; i < s.n; i++) {
            total += s.files[i].text_len;
            TEST_CHECK(s.files[i].text_len && is_lines_of(&x, &s.files[i]));
            TEST_CHECK(strcmp(s.files[i].path, "d0/f0.py") != 0);
            TEST_CHECK(i == 0 || s.scores[i - 1] <= s.scores[i]);
            TEST_CHECK(s.files[i].text[s.files[i].text_len - 1] == '\n');
        }
        TEST_CHECK(s.n <= SNIPPETS_MAX && total <= bytes_max + SNIPPETS_MAX);
        snippets_close(&s);
    }
    snippet_index_close(&x);
}

static void test_without_memory(void)
{
    static snippet_index x;
    put(&x, "shop/basket.py", basket, false);
    for (long n = 0, done = 0; !done; n++) {
        const long live = memory_live();
        snippet_file *f = NULL;
        snippets s = {.n = 0};
        const snippet_query q = {.path = VIEW("b.py"), .before = VIEW("basket.tot"),
                                 .bytes_max = 600};
        memory_fail_at(n);
        int status = snippet_file_open(&f, VIEW("weather.py"), VIEW(weather));
        int found = status ? 0 : snippets_find(&x, &q, &s);
        memory_fail_at(-1);
        TEST_CHECK((!status || status == CERIUM_ERR_MEMORY) &&
                   (!found || found == CERIUM_ERR_MEMORY));
        done = !status && !found;
        snippets_close(&s);
        snippet_file_close(&f);
        TEST_CHECK(memory_live() == live);
    }
    snippet_index_close(&x);
}

int main(void)
{
    TEST_RUN(test_words);
    TEST_RUN(test_definitions);
    TEST_RUN(test_imports);
    TEST_RUN(test_terms);
    TEST_RUN(test_needles);
    TEST_RUN(test_nearness);
    TEST_RUN(test_refused);
    TEST_RUN(test_any_text);
    TEST_RUN(test_without_memory);
    return unit_report("snippets");
}
