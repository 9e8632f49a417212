/* findings.c - findings of the watchdog, as an extension that clients may ignore. */
#include "protocol/writer.h"

void json_out_finding(json_out *t, const protocol_finding *f)
{
    json_out_literal(t, "{\"deed\":");
    json_out_string(t, f->deed);
    json_out_literal(t, ",\"weakness\":");
    json_out_string(t, f->weakness);
    json_out_literal(t, ",\"cwe\":");
    json_out_integer(t, f->cwe);
    json_out_literal(t, ",\"rule\":");
    json_out_string(t, f->rule);
    json_out_literal(t, ",\"message\":");
    json_out_string(t, f->message);
    json_out_literal(t, ",\"idiom\":");
    json_out_string(t, f->idiom);
    json_out_literal(t, ",\"language\":");
    json_out_string(t, f->language);
    json_out_literal(t, ",\"line\":");
    json_out_integer(t, f->line);
    json_out_literal(t, "}");
}

int protocol_writer_finding(protocol_writer *w, uint32_t choice, const protocol_finding *f)
{
    CHECK(choice < w->n_choices && f);
    writer_choice *c = &w->choices[choice];
    if (w->status || c->ended) return w->status;
    if (!strcmp(f->deed, "taken_back") || !strcmp(f->deed, "blocked"))
        w->status = verdict_note(c, f);
    if (strcmp(f->deed, "taken_back") != 0 && !w->status) {
        if (w->findings.b.len) json_out_literal(&w->findings, ",");
        json_out_finding(&w->findings, f);
        w->status = w->findings.status;
    }
    if (w->api->finding && !w->status) w->api->finding(w, c, f);
    return w->status;
}

void put_findings(const protocol_writer *w, json_out *t)
{
    view warnings = {w->r->warnings.ptr, w->r->warnings.len};
    if (!w->findings.b.len && !warnings.len) return;
    bool is_blocked = false;
    for (uint32_t i = 0; i < w->n_choices; i++)
        is_blocked = is_blocked || w->choices[i].sent_verdict ||
                     (w->choices[i].ended && w->choices[i].end == PROTOCOL_END_GUARDED);
    json_out_put(t, is_blocked ? VIEW(",\"cerium\":{\"end\":\"blocked\",\"findings\":[")
                               : VIEW(",\"cerium\":{\"findings\":["));
    json_out_put(t, json_out_view(&w->findings));
    json_out_literal(t, "]");
    if (warnings.len) {
        json_out_literal(t, ",\"warnings\":[");
        json_out_put(t, warnings);
        json_out_literal(t, "]");
    }
    json_out_literal(t, "}");
}
