/* http_sinks.c - an answer as one body, and as an event stream. */
#include "server/http_sinks.h"

#include <time.h>

#include "server/connection.h"
#include "server/http.h"

static void limits(const sink *k, const rates_report *left, const char *served_by)
{
    char *out = k->c->http.limits;
    size_t n = rates_headers(out, left, (int64_t)time(NULL));
    if (served_by)
        snprintf(out + n, sizeof k->c->http.limits - n, "x-cerium-served-by: %s\r\n", served_by);
}

static void refuse(const sink *k, const protocol_error *e) { http_error(k->c, e); }

/* ---- a body ---- */

static void finish_body(const sink *k, view body)
{
    http_answer(k->c, &(http_head){.status = 200}, body);
}

const sink_type http_body_sink = {
    .limits = limits, .finish = finish_body, .fail = refuse, .refuse = refuse};

/* Its events are recorded for later requests. */
const sink_type http_background_sink = {.streams = true,
                                        .limits = limits,
                                        .finish = finish_body,
                                        .fail = refuse,
                                        .refuse = refuse};

/* ---- an event stream ---- */

static void begin(const sink *k) { http_stream(k->c, "text/event-stream"); }

static void event(const sink *k, const char *name, view json)
{
    char head[80];
    connection *c = k->c;
    if (c->gone) return;
    if (!json.ptr) { /* a block of its own */
        http_piece(c, VIEW(": "), view_of(name ? name : "keep-alive"), VIEW("\n\n"));
    } else {
        CHECK(!name || strlen(name) < 60);
        int n = snprintf(head, sizeof head, "%s%s%sdata: ", name ? "event: " : "",
                         name ? name : "", name ? "\n" : "");
        metrics_count(&c->s->metrics, METRICS_EVENTS, 1);
        http_piece(c, (view){head, (size_t)n}, json, VIEW("\n\n"));
    }
    connection_flush(c);
}

static void finish(const sink *k, view body)
{
    (void)body;
    http_stream_end(k->c);
}

static void fail(const sink *k, const protocol_error *e)
{
    bytes json = {.max = 16384};
    if (!http_error_event(k->c, &json, e)) event(k, "error", (view){json.ptr, json.len});
    bytes_free(&json);
    http_stream_end(k->c);
}

const sink_type http_stream_sink = {.streams = true,
                                    .limits = limits,
                                    .begin = begin,
                                    .event = event,
                                    .finish = finish,
                                    .fail = fail,
                                    .refuse = refuse};

/* ---- an object a line ---- */

static void begin_lines(const sink *k) { http_stream(k->c, "application/x-ndjson"); }

static void line(const sink *k, const char *name, view json)
{
    connection *c = k->c;
    (void)name;
    if (c->gone || !json.ptr) return;
    metrics_count(&c->s->metrics, METRICS_EVENTS, 1);
    http_piece(c, VIEW(""), json, VIEW("\n"));
    connection_flush(c);
}

static void fail_lines(const sink *k, const protocol_error *e)
{
    bytes json = {.max = 16384};
    if (!http_error_event(k->c, &json, e)) line(k, NULL, (view){json.ptr, json.len});
    bytes_free(&json);
    http_stream_end(k->c);
}

const sink_type http_lines_sink = {.streams = true,
                                   .limits = limits,
                                   .begin = begin_lines,
                                   .event = line,
                                   .finish = finish,
                                   .fail = fail_lines,
                                   .refuse = refuse};
