/* test_format.c - formats of strings against their standards' grammars, in both directions: texts
 * that match, and texts that do not. */
#include "takes.h"

enum { TEXTS_MAX = 24 };

static const struct {
    const char *name, *in[TEXTS_MAX], *out[TEXTS_MAX];
} formats[] = {
    {"date",
     {"2024-02-29", "0000-02-29", "1999-12-31", "2000-02-29", "0001-01-01"},
     {"2023-02-29", "1900-02-29", "2024-13-01", "2024-1-1", "99-01-01", "2024-04-31",
      "2024-01-01T"}},
    {"time",
     {"08:30:06Z", "08:30:06.283185Z", "08:30:06.1234567890123Z", "08:30:06+00:20", "23:59:60Z",
      "01:29:60+01:30", "08:30:06z", "23:59:60.5Z"},
     {"22:59:60Z", "24:00:00Z", "08:30:06", "08:30:06 PST", "01:02:03+24:00", "01:01:01,1111",
      "8:3:6Z", "08:30:06-8:000"}},
    {"date-time",
     {"1963-06-19T08:30:06.283185Z", "1998-12-31t23:59:60z", "1998-12-31T15:59:60.123-08:00",
      "2024-01-01T00:00:00.000000000001+00:00"},
     {"1998-12-31T22:59:60Z", "1990-02-31T15:59:59.123-08:00", "2013-350T01:02:03",
      "1963-06-19 08:30:06Z"}},
    {"duration",
     {"P4DT12H30M5S", "P4Y", "PT0S", "P0D", "P1M", "PT1M", "PT36H", "P1DT12H", "P2W",
      "P123456789012D", "P1Y1M1D"},
     {"PT1D", "4DT12H30M5S", "P", "P1YT", "PT", "P2D1Y", "P1D2H", "P2S", "P1Y2W", "P1YD"}},
    {"email",
     {"joe.bloggs@example.com", "te~st@example.com", "~test@example.com",
      "\"joe bloggs\"@example.com", "\"joe..bloggs\"@example.com", "\"joe@bloggs\"@example.com",
      "joe.bloggs@[127.0.0.1]", "joe.bloggs@[IPv6:::1]", "te.s.t.x@example.com", "a@b",
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx@a.b.c.d.e.f.g.h.i.example",
      "user+tag@localhost", "\"a\\\"b\"@x.y", "o'brien@x.y"},
     {"2962", ".test@example.com", "test.@example.com", "te..st@example.com",
      "joe.bloggs@invalid=domain.com", "joe.bloggs@[127.0.0.300]", "a@-b", "a b@c", "@a", "a@"}},
    {"idn-email",
     {"\354\213\244\353\241\200@\354\213\244\353\241\200.\355\205\214\354\212\244\355\212\270",
      "joe@example.com",
      "\316\264\316\277\316\272\316\271\316\274\316\256@\317\200\316\261\317\201\316\254\316"
      "\264\316\265\316\271\316\263\316\274\316\261.\316\264\316\277\316\272\316\271\316\274"
      "\316\256"},
     {"2962", "\354\213\244\353\241\200", "a@"}},
    {"hostname",
     {"www.example.com", "xn--4gbwdl.xn--wgbh1c", "a", "1host", "a.b.c.d.e.f.g.h.i.j",
      "hostnam3", "h0st-nh0st-nh0st-nh0st-nh0st-nh0st-nh0st-nh0st-nh0st-nh0st-n",
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.com", "1.2.3"},
     {"-a-host-name-that-starts-with--", "not_a_valid_host_name",
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.com", "hostname-",
      "a..b", "", ".", " a", "a.com."}},
    {"ipv4",
     {"192.168.0.1", "0.0.0.0", "255.255.255.255"},
     {"127.0.0.0.1", "256.256.256.256", "127.0", "0x7f000001", "087.10.0.1", "1.2.3.4/24",
      "\357\274\221.2.3.4"}},
    {"ipv6",
     {"::1", "::", "::abcd:ef12:0:1", "1::", "d6::", "1:2:3:4:5:6:7::", "::1:2:3:4:5:6:7",
      "1:2:3:4:5:6:7:8", "1::d6:192.168.0.1", "1:2::192.168.0.1", "::ffff:192.168.0.1",
      "1:2:3:4:5::8", "1:2:3::5:6:7:8", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5::1.2.3.4",
      "::2:3:4:5:6:1.2.3.4", "1:2::4:5:6:7:8"},
     {"12345::", "::abcef", "1:1:1:1:1:1:1:1:1", "::laptop", "::42:ff:1:", "d6:", "1::d6::42",
      "1::2:192.168.256.1", "1::2:192.168.ff.1", ":2:3:4:5:6:7:8", "1:2:3:4:5:::8",
      "1:2:3:4:5:6:7", "1", "::1/64", "fe80::a%eth1", "1:2:3:4:5:6:7:8::", "1:2:3:4:1.2.3.4",
      "::1:2:3:4:5:6:7:8", "1:2:3:4:5:6::7:8", "127.0.0.1"}},
    {"uuid",
     {"2EB8AA08-aa98-11ea-B4AA-73B441D16380", "00000000-0000-0000-0000-000000000000"},
     {"2eb8aa08-aa98-11ea-b4aa-73b441d1638", "2eb8aa08aa9811eab4aa73b441d16380",
      "2eb8-aa08-aa98-11ea-b4aa73b44-1d16380"}},
    {"uri",
     {"http://foo.bar/?baz=qux#quux", "http://foo.com/blah_(wikipedia)_blah#cite-1",
      "http://foo.bar/?q=Test%20URL-encoded%20stuff", "http://xn--nw2a.xn--j6w193g/",
      "http://-.~_!$&'()*+,;=:%40:80%2f::::::@example.com", "http://223.255.255.254",
      "ftp://ftp.is.co.za/rfc/rfc1808.txt", "ldap://[2001:db8::7]/c=GB?objectClass?one",
      "mailto:John.Doe@example.com", "news:comp.infosystems.www.servers.unix",
      "tel:+1-816-555-1212", "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
      "file:///etc/x", "http://[v1.x:y]/", "about:", "x:", "http://a:/", "data:text/plain,hi",
      "a+b-c.d:/x//y", "http://"},
     {"//foo.bar/?baz=qux#quux", "/abc", "\\\\WINDOWS\\fileshare", "abc",
      "http:// shouldfail.com", ":// should fail", "bar,baz:foo",
      "https://[@example.org/test.txt", "https://example.org/foobar\\.txt",
      "https://example.org/foobar<>.txt", "https://example.org/foo^bar", "1http:x",
      "http://a/%zz", "http://a b/", "http://[::1", "http://a.b/[x]", "http://[1.2.3.4]/"}},
    {"uri-reference",
     {"http://foo.bar/?baz=qux#quux", "//foo.bar/?baz=qux#quux", "/abc", "abc", "#fragment", "",
      "?q", "a/b:c", "./a:b", "../x"},
     {"\\\\WINDOWS\\fileshare", "#frag\\ment", "1a:b", " x", "a b"}},
    {"iri",
     {"http://\306\222\303\270\303\270.\303\237\303\245r/?\342\210\202\303\251\305\223=\317"
      "\200\303\256x#\317\200\303\256\303\274x",
      "http://\306\222\303\270\303\270.com/blah_(w\303\256k\303\257p\303\251di\303\245)_blah#"
      "\303\237it\303\251-1", "http://[2001:0db8:85a3:0000:0000:8a2e:0370:7334]"},
     {"/abc", "\303\242\317\200\317\200", "\\\\WINDOWS\\fil\303\253\303\237\303\245r\303\251",
      " http://x"}},
    {"iri-reference",
     {"/\303\242\317\200\317\200", "\303\242\317\200\317\200", "#\306\222r\303\244gm\303\252nt",
      "//\306\222\303\270\303\270.\303\237\303\245r/"},
     {"\\\\WINDOWS\\fil\303\253\303\237\303\245r\303\251", "#\306\222r\303\244g\\m\303\252nt"}},
    {"uri-template",
     {"http://example.com/dictionary/{term:1}/{term}", "http://example.com/dictionary",
      "dictionary/{term:1}/{term}", "{+path}/here", "{?x,y*}", "{x.y}", ""},
     {"http://example.com/dictionary/{term:1}/{term", "a b", "{}", "{term:0}", "{+}"}},
    {"json-pointer",
     {"/foo/bar~0/baz~1/%a", "", "/", "/foo//bar", "/foo/bar/", "/foo/-", "/ "},
     {"/foo/bar~", "#", "#/", "#a", "/~0~", "/~2", "a", "0", "a/a", "/~-1"}},
    {"relative-json-pointer",
     {"1", "0/foo/bar", "2/0/baz/1/zip", "0#", "120/foo/bar"},
     {"/foo/bar", "-1/foo/bar", "+1/foo/bar", "0##", "01/a", "01#", ""}},
    {"idn-hostname",
     {"\354\213\244\353\241\200.\355\205\214\354\212\244\355\212\270", "example.com",
      "a.b\343\200\202c"},
     {"a..b", "-a", ""}},
    {"regex",
     {"anything(", "a"},
     {NULL}},
    {"password",
     {"x"},
     {NULL}},
};

static void test_formats(void)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        char schema[128];
        snprintf(schema, sizeof schema, "{\"type\":\"string\",\"format\":\"%s\"}", formats[i].name);
        check_takes(formats[i].name, schema, formats[i].in, formats[i].out, TEXTS_MAX);
    }
}

int main(void)
{
    TEST_RUN(test_formats);
    return unit_report("format");
}
