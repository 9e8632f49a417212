"""transport_framing.py - requests that RFC 9110 and 9112 refuse, and odd ones that they accept.

Each case: what is sent, and the statuses that are right.  An error is JSON, the connection ends
after a framing error, and the answer is not destroyed by a reset, though the client still
sends."""

import json

from wire import HOST, Ended, Wire, check_error, request

BODY = json.dumps({"content": "word", "with_pieces": True}).encode()
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
GET = b"GET /v1/models HTTP/1.1\r\n"
TAKEN = [200, 400]  # where the recipient may choose
STILL_SENT = b"x" * 262144


def post(headers, body=BODY, version=b"1.1"):
    return b"POST /tokenize HTTP/" + version + b"\r\n" + HOST + headers + b"\r\n" + body


def get(headers):
    return GET + HOST + headers + b"\r\n"


def host(name):
    return GET + b"Host: " + name + b"\r\n\r\n"


def expect(path):
    """A head whose body waits for 100 (Continue)."""
    return (b"POST " + path + b" HTTP/1.1\r\n" + HOST +
            b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")


def line(text):
    return text + b"\r\n" + HOST + b"\r\n"


def coding(text):
    return post(b"Transfer-Encoding: " + text + b"\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (
        len(BODY), BODY))


def chunks(text):
    return post(CHUNKED, text)


def length(text, body=b"abc"):
    return post(b"Content-Length: " + text + b"\r\n", body)


# Framing: the connection must end after the error.
FRAMING = {
    "blank before the colon": (post(b"X-A : b\r\n" + LENGTH), [400]),
    "blank before the colon of a coding": (post(b"Transfer-Encoding : chunked\r\n" + LENGTH),
                                           [400]),
    "blank before the colon of a length": (post(b"Content-Length : 3\r\n" + LENGTH), [400]),
    "tab before the colon": (post(b"Content-Length\t: 3\r\n" + LENGTH), [400]),
    "NUL in a name": (post(b"Transfer-Encoding\0: chunked\r\n" + LENGTH), [400]),
    "control byte in a name": (get(b"X\x01A: b\r\n"), [400]),
    "vertical tab in a name": (get(b"X\x0bA: b\r\n"), [400]),
    "delete in a name": (get(b"X\x7fA: b\r\n"), [400]),
    "byte above 127 in a name": (get(b"X\xe9A: b\r\n"), [400]),
    "bracket in a name": (get(b"X(A): b\r\n"), [400]),
    "blank in a name": (get(b"X A: b\r\n"), [400]),
    "no name": (get(b": b\r\n"), [400]),
    "no colon": (get(b"XA\r\n"), [400]),
    "NUL in a value": (get(b"X-A: b\0c\r\n"), [400]),
    "NUL at the end of a value": (get(b"X-A: b\0\r\n"), [400]),
    "first field begins with a blank": (GET + b" X-A: b\r\n" + HOST + b"\r\n", [400]),
    "two lengths": (length(b"3\r\nContent-Length: 4"), [400]),
    "two lengths far apart": (length(b"3\r\nX-A: b\r\nX-B: c\r\ncontent-length: 5"), [400]),
    "lengths in a list": (length(b"3, 4"), [400]),
    "length +3": (length(b"+3"), [400]),
    "length -3": (length(b"-3"), [400]),
    "length 0x3": (length(b"0x3"), [400]),
    "length 3a": (length(b"3a"), [400]),
    "length 3 3": (length(b"3 3"), [400]),
    "length 3.0": (length(b"3.0"), [400]),
    "length empty": (length(b""), [400]),
    "length of blanks": (length(b"  "), [400]),
    "length 2^64": (length(b"18446744073709551616"), [400, 413]),
    "length 2^64 + 3": (length(b"18446744073709551619"), [400, 413]),
    "length 2^63": (length(b"9223372036854775808"), [400, 413]),
    "length of 400 digits": (length(b"9" * 400), [400, 413]),
    "length of 40 MiB": (length(b"41943040"), [413]),
    "length and coding": (post(LENGTH + CHUNKED, b"0\r\n\r\n"), [400]),
    "coding and length": (post(CHUNKED + LENGTH, b"0\r\n\r\n"), [400]),
    "coding chunked, gzip": (coding(b"chunked, gzip"), [400, 501]),
    "coding gzip, chunked": (coding(b"gzip, chunked"), [400, 501]),
    "coding chunked, chunked": (coding(b"chunked, chunked"), [400, 501]),
    "coding xchunked": (coding(b"xchunked"), [400, 501]),
    "coding chunkedx": (coding(b"chunkedx"), [400, 501]),
    "coding \"chunked\"": (coding(b'"chunked"'), [400, 501]),
    "coding with NUL": (coding(b"chunked\0"), [400, 501]),
    "coding with vertical tab": (coding(b"\x0bchunked"), [400, 501]),
    "coding identity": (coding(b"identity"), [400, 501]),
    "coding empty": (coding(b""), [400, 501]),
    "two codings": (post(CHUNKED + b"Transfer-Encoding: gzip\r\n", b"0\r\n\r\n"), [400, 501]),
    "chunk size 0x3": (chunks(b"0x3\r\nabc\r\n0\r\n\r\n"), [400]),
    "chunk size ' 3'": (chunks(b" 3\r\nabc\r\n0\r\n\r\n"), [400]),
    "chunk size '3 '": (chunks(b"3 \r\nabc\r\n0\r\n\r\n"), [400]),
    "chunk size -1": (chunks(b"-1\r\nabc\r\n0\r\n\r\n"), [400]),
    "chunk size +3": (chunks(b"+3\r\nabc\r\n0\r\n\r\n"), [400]),
    "chunk size empty": (chunks(b"\r\nabc\r\n0\r\n\r\n"), [400]),
    "chunk size of an extension alone": (chunks(b";a\r\nabc\r\n0\r\n\r\n"), [400]),
    "chunk size g": (chunks(b"g\r\nabc\r\n0\r\n\r\n"), [400]),
    "chunk size 3_": (chunks(b"3_\r\nabc\r\n0\r\n\r\n"), [400]),
    "chunk size of 17 digits": (chunks(b"10000000000000003\r\nabc\r\n0\r\n\r\n"), [400, 413]),
    "chunk size of 16 F": (chunks(b"F" * 16 + b"\r\nabc\r\n0\r\n\r\n"), [400, 413]),
    "chunk size of 17 F": (chunks(b"F" * 17 + b"\r\nabc\r\n0\r\n\r\n"), [400, 413]),
    "chunk longer than it says": (chunks(b"3\r\nabcd\r\n0\r\n\r\n"), [400]),
    "chunk without its line end": (chunks(b"3\r\nabc0\r\n\r\n"), [400]),
    "chunk extension with LF": (chunks(b"3;a\nabc\r\n0\r\n\r\n"), [400]),
    "chunk extension with NUL": (chunks(b"3;a=\0\r\nabc\r\n0\r\n\r\n"), [400]),
    "chunk size ends with LF": (chunks(b"3\nabc\r\n0\r\n\r\n"), [400]),
    "chunk size ends with CR": (chunks(b"3\rabc\r\n0\r\n\r\n"), [400]),
    "chunk extension of 64 KiB": (chunks(b"%x;" % len(BODY) + b"a" * 65536 + b"\r\n" + BODY +
                                         b"\r\n0\r\n\r\n"), [400, 413, 431]),
    "trailers of 64 KiB": (chunks(b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY) + b"X-A: b\r\n" * 8192 +
                                b"\r\n"), [400, 413, 431]),
    "chunks of more than 32 MiB": (chunks(b"2100000\r\n" + b" " * 0x2100000 + b"\r\n0\r\n\r\n"),
                                   [413]),
    "no Host": (GET + b"\r\n", [400]),
    "two Hosts": (get(b"Host: localhost\r\n"), [400]),
    "two Hosts, one other": (get(b"host: evil.example\r\n"), [400]),
    "empty line is a blank": (b" \r\n" + get(b""), [400, 501]),
    "method alone": (line(b"GET"), [400, 501]),
    "no version": (line(b"GET /v1/models"), [400, 505]),
    "no target": (line(b"GET HTTP/1.1"), [400, 505]),
    "three targets": (line(b"GET /v1/models /x HTTP/1.1"), [400, 505]),
    "NUL in the target": (line(b"GET /v1/\0models HTTP/1.1"), [400]),
    "version HTTP/2.0": (line(b"GET /v1/models HTTP/2.0"), [505]),
    "version HTTP/9.9": (line(b"GET /v1/models HTTP/9.9"), [400, 505]),
    "version HTTP/11": (line(b"GET /v1/models HTTP/11"), [400, 505]),
    "version HTTP/1.1x": (line(b"GET /v1/models HTTP/1.1x"), [400, 505]),
    "version HTP/1.1": (line(b"GET /v1/models HTP/1.1"), [400, 505]),
    "version http/1.1": (line(b"GET /v1/models http/1.1"), [400, 505]),
    "preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0",
                          [400, 501, 505]),
    "TLS to a plain port": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x55" * 500,
                            [400, 501]),
    "noise": (bytes(range(128, 256)) * 8 + b"\r\n\r\n", [400, 501]),
    "5,000 fields": (get(b"a: b\r\n" * 5000), [431]),
    "a field of 1 MB": (get(b"X-A: " + b"b" * (1 << 20) + b"\r\n"), [431]),
    "a name of 1 MB": (get(b"X" * (1 << 20) + b": b\r\n"), [431]),
    "a target of 1 MB": (line(b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1"), [414]),
    "a method of 1 MB": (line(b"G" * (1 << 20) + b" / HTTP/1.1"), [400, 414, 431, 501]),
}

# Accepted or refused; the answer says whether the connection stays open.
ODD = {
    "bare LF": (b"GET /v1/models HTTP/1.1\nHost: localhost\n\n", TAKEN),
    "bare CR in a value": (get(b"X-A: b\rX-B: c\r\n"), TAKEN),
    "bare CR ends a field": (GET + b"Host: localhost\rX-A: b\r\n\r\n", [200, 400, 403]),
    "control byte in a value": (get(b"X-A: b\x01c\r\n"), TAKEN),
    "folded field": (post(b"X-A: b\r\n Transfer-Encoding: chunked\r\n" + LENGTH), TAKEN),
    "folded length": (post(b"Content-Length:\r\n %d\r\n" % len(BODY)), TAKEN),
    "folded coding": (post(b"Transfer-Encoding:\r\n\tchunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (
        len(BODY), BODY)), TAKEN),
    "two equal lengths": (post(LENGTH + LENGTH), TAKEN),
    "equal lengths in a list": (post(b"Content-Length: %d, %d\r\n" % (len(BODY), len(BODY))),
                                TAKEN),
    "length with zeros before it": (post(b"Content-Length: 000%d\r\n" % len(BODY)), TAKEN),
    "length among blanks": (post(b"Content-Length:   %d  \r\n" % len(BODY)), [200]),
    "length among tabs": (post(b"Content-Length:\t%d\t\r\n" % len(BODY)), TAKEN),
    "coding Chunked": (coding(b"Chunked"), [200]),
    "coding among blanks": (coding(b"  chunked  "), [200]),
    "coding among tabs": (coding(b"\tchunked\t"), TAKEN + [501]),
    "chunk sizes of both cases and zeros": (chunks(b"%X\r\n%s\r\n000\r\n\r\n" % (
        len(BODY), BODY)), [200]),
    "GET with a body": (b"GET /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc",
                        TAKEN),
    "GET in chunks": (GET + HOST + CHUNKED + b"\r\n3\r\nabc\r\n0\r\n\r\n", TAKEN),
    "length 0": (post(b"Content-Length: 0\r\n", b""), [400]),
    "empty Host": (b"GET /v1/models HTTP/1.1\r\nHost:\r\n\r\n", [200, 400, 403]),
    "Host with a blank": (b"GET /v1/models HTTP/1.1\r\nHost: local host\r\n\r\n", [400, 403]),
    "Host with @": (b"GET /v1/models HTTP/1.1\r\nHost: a@localhost\r\n\r\n", [400, 403]),
    "Host with a path": (b"GET /v1/models HTTP/1.1\r\nHost: localhost/x\r\n\r\n", [400, 403]),
    "Host with a bad port": (b"GET /v1/models HTTP/1.1\r\nHost: localhost:x\r\n\r\n", [400, 403]),
    "Host with a port of no TCP": (host(b"localhost:99999"), [400]),
    "Host with six digits": (host(b"localhost:000080"), [200]),
    "Host with an empty port": (host(b"localhost:"), [200]),
    "Host with two ports": (host(b"localhost:80:80"), [400]),
    "Host ::1 without brackets": (host(b"::1"), [400]),
    "Host [::1]": (host(b"[::1]"), [200]),
    "Host [::1] with a port": (host(b"[::1]:8080"), [200]),
    "Host [::1": (host(b"[::1"), [400]),
    "Host []": (host(b"[]"), [400]),
    "Host [::1]x": (host(b"[::1]x"), [400]),
    "Host with a bracket at the end": (host(b"localhost]"), [400]),
    "Hosts in a list": (b"GET /v1/models HTTP/1.1\r\nHost: localhost, evil\r\n\r\n", [400, 403]),
    "Host of others": (b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", [403]),
    "absolute form": (b"GET http://127.0.0.1/v1/models HTTP/1.1\r\n" + HOST + b"\r\n", [200]),
    "absolute form: its host counts": (
        b"GET http://localhost/v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", [200]),
    "absolute form of others": (b"GET http://evil.example/v1/models HTTP/1.1\r\n" + HOST + b"\r\n",
                                [400, 403]),
    "absolute form, a port of no TCP": (
        b"GET http://localhost:99999/v1/models HTTP/1.1\r\n" + HOST + b"\r\n", [400]),
    "absolute form, a bracket": (b"GET http://[::1/v1/models HTTP/1.1\r\n" + HOST + b"\r\n", [400]),
    "absolute form, no path": (b"GET http://localhost HTTP/1.1\r\n" + HOST + b"\r\n", [200]),
    "asterisk": (line(b"OPTIONS * HTTP/1.1"), [200, 204]),
    "asterisk of GET": (line(b"GET * HTTP/1.1"), [400, 404]),
    "CONNECT": (b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n", [400, 404, 405, 501]),
    "method in lower case": (line(b"get /v1/models HTTP/1.1"), [400, 405, 501]),
    "unknown method": (line(b"BREW /v1/models HTTP/1.1"), [400, 405, 501]),
    "TRACE": (line(b"TRACE /v1/models HTTP/1.1"), [400, 405, 501]),
    "PUT": (b"PUT /v1/models HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc", [405, 501]),
    "empty lines before it": (b"\r\n\r\n" + get(b""), [200]),
    "two blanks": (line(b"GET  /v1/models HTTP/1.1"), TAKEN),
    "blank at the end": (line(b"GET /v1/models HTTP/1.1 "), [200, 400, 505]),
    "version HTTP/1.2": (line(b"GET /v1/models HTTP/1.2"), [200, 400, 505]),
    "target %00": (line(b"GET /v1/models%00 HTTP/1.1"), [400, 404]),
    "target %zz": (line(b"GET /v1/%zz HTTP/1.1"), [400, 404]),
    "target upwards": (line(b"GET /../../etc/passwd HTTP/1.1"), [400, 404]),
    "target upwards, coded": (line(b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1"), [400, 404]),
    "target without a slash": (line(b"GET v1/models HTTP/1.1"), [400, 404]),
    "target with a byte above 127": (line(b"GET /\xc3\xa9 HTTP/1.1"), [400, 404]),
    "target of 3,000 bytes": (line(b"GET /" + b"a" * 3000 + b" HTTP/1.1"), [404, 414]),
    "an unknown expectation": (post(b"Expect: 200-ok\r\n" + LENGTH), [417]),
    "an expectation at nothing": (expect(b"/nothing"), [404]),
    "an expectation of a wrong method": (expect(b"/v1/models"), [405]),
    "HTTP/1.0 without a Host": (b"GET /v1/models HTTP/1.0\r\n\r\n", [200]),
    "HTTP/1.0, keep-alive": (b"GET /v1/models HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", [200]),
    "HTTP/1.0 in chunks": (post(CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), b"1.0"),
                           [200, 400, 501]),
    "Connection: close": (get(b"Connection: close\r\n"), [200]),
    "Connection: x, CLOSE": (get(b"Connection: x, CLOSE\r\n"), [200]),
    "two Connections": (get(b"Connection: x\r\nConnection: close\r\n"), [200]),
    "a hundred fields": (get(b"".join(b"X-%d: b\r\n" % i for i in range(100))), [200]),
    "15 KB of fields": (get(b"X-A: " + b"b" * 15000 + b"\r\n"), [200]),
}


def read_refusal(wire, statuses):
    try:
        answer = wire.read_answer()
    except Ended as end:
        raise AssertionError("no answer: %s" % end)
    assert answer.status in statuses, (answer.status, answer.body[:200])
    if answer.status >= 400:
        check_error(answer)
    elif answer.body.startswith(b'{"tokens"'):
        assert answer.json()["tokens"][0]["piece"] == "word", answer.body
    return answer


def framing(port, data, statuses):
    """The error, then the end; and once more to a client that still sends."""
    for more in (b"", STILL_SENT):
        with Wire(port) as w:
            w.push(data + more)
            answer = read_refusal(w, statuses)
            assert answer.closes(), "connection: close is missing"
            w.expect_end()


def odd(port, name, data, statuses):
    with Wire(port) as w:
        w.push(data)
        answer = read_refusal(w, statuses)
        old = b" HTTP/1.0\r" in data
        if "lose" in name or "CLOSE" in name:
            assert answer.closes(), "connection: close is missing"
        if answer.closes() or (old and "keep-alive" not in answer.headers.get("connection", "")):
            w.expect_end()
            return
        w.send(request("GET", "/nothing/7"))
        answer = w.read_answer()
        assert answer.status == 404 and b"/nothing/7" in answer.body, answer.body[:200]


def check_framing(report, server):
    for name, (data, statuses) in FRAMING.items():
        with report.serving("framing: " + name, server):
            framing(server.port, data, statuses)
    for name, (data, statuses) in ODD.items():
        with report.serving("odd: " + name, server):
            odd(server.port, name, data, statuses)
