/* wafer_draft.c - the gain of a plan from a model that drafts on idle cores, as text and JSON. */
#include "programs/output.h"
#include "programs/wafer.h"

enum { CHANCES = 3 };
static const double chances[CHANCES] = {0.5, 0.7, 0.9}; /* that a guess is right */

int wafer_draft_take_time(wafer_drafting *d, const plan_result *plan, const plan_request *r)
{
    d->plan = plan;
    d->request = r;
    for (uint32_t i = 0; i < r->draft; i++) {
        RETURN_IF(draft_time(d->us[i], &d->draft, plan, r, i + 1));
        RETURN_IF(draft_energy(&d->joules[i], &d->draft, plan, r, i + 1));
    }
    d->tokens = r->draft;
    return CERIUM_OK;
}

static draft_figures figures(const wafer_drafting *d, double p, uint32_t tokens, bool overlapped)
{
    return draft_figure(d->us[tokens - 1], &d->joules[tokens - 1], d->plan, d->request, p, tokens,
                        overlapped);
}

static wafer_band rate(const wafer_drafting *d, double p, uint32_t tokens, bool overlapped)
{
    return figures(d, p, tokens, overlapped).tokens_s;
}

/* Tokens of a pass, 1 for no guesses, with the best speed in the middle of the band. */
static uint32_t best(const wafer_drafting *d, double p, bool overlapped)
{
    uint32_t found = 1;
    for (uint32_t n = 2; n <= d->tokens; n++)
        if (band_middle(rate(d, p, n, overlapped)) > band_middle(rate(d, p, found, overlapped)))
            found = n;
    return found;
}

/* ---- text ---- */

typedef struct {
    const wafer_drafting *d;
    double chance;
    bool overlapped;
} cell;

static void line(const char *what, const wafer_drafting d[2], double chance, bool overlapped,
                 void (*show)(char out[64], const cell *c))
{
    char text[2][64] = {"-", "-"};
    for (int i = 0; i < 2; i++)
        if (d[i].tokens) show(text[i], &(cell){&d[i], chance, overlapped});
    printf("  %-34s %-26s %s\n", what, text[0], text[1]);
}

static void show_room(char out[64], const cell *c)
{
    const wafer_region *room = &c->d->draft.place;
    snprintf(out, 64, "%u x %u at %u, %u", room->width, room->height, room->x, room->y);
}
static void show_regions(char out[64], const cell *c)
{
    const plan_layout *l = &c->d->draft.plan.layout;
    snprintf(out, 64, "%u of %u x %u%s", l->layer_regions + l->table_regions, l->width, l->height,
             l->is_turned ? ", turned" : "");
}
static void show_core(char out[64], const cell *c)
{
    const plan_layout *l = &c->d->draft.plan.layout;
    snprintf(out, 64, "%llu of %llu", (unsigned long long)l->core_bytes,
             (unsigned long long)l->usable_bytes);
}
static void show_guess(char out[64], const cell *c)
{
    const draft_us *t = c->d->us[c->d->tokens - 1];
    wafer_band_text(out, (wafer_band){t[0].step, t[1].step});
}
static void show_catch_up(char out[64], const cell *c)
{
    const draft_us *t = c->d->us[c->d->tokens - 1];
    wafer_band_text(out, (wafer_band){t[0].catch_up, t[1].catch_up});
}
static void show_handoff(char out[64], const cell *c)
{
    const draft_us *t = c->d->us[c->d->tokens - 1];
    wafer_band_text(out, (wafer_band){t[0].tell + t[0].offer, t[1].tell + t[1].offer});
}
static void show_alone(char out[64], const cell *c)
{
    wafer_band_text(out, rate(c->d, 0, 1, false));
}
static void show_rate(char out[64], const cell *c)
{
    wafer_band_text(out, rate(c->d, c->chance, c->d->tokens, c->overlapped));
}
static void show_joules(char out[64], const cell *c)
{
    wafer_band_text(out, figures(c->d, c->chance, c->d->tokens, c->overlapped).joules);
}
static void show_usd(char out[64], const cell *c)
{
    wafer_band_text(out, figures(c->d, c->chance, c->d->tokens, c->overlapped).usd);
}
static void show_best(char out[64], const cell *c)
{
    char band[64];
    const uint32_t n = best(c->d, c->chance, c->overlapped);
    wafer_band_text(band, rate(c->d, c->chance, n, c->overlapped));
    snprintf(out, 64, "%u: %.40s", n, band);
}

void wafer_draft_print(const wafer_drafting d[2], const char *name)
{
    const uint32_t tokens = d[0].tokens ? d[0].tokens : d[1].tokens;
    char what[64];
    printf("drafted by %s\n", name);
    line("idle cores, at x, y", d, 0, false, show_room);
    line("regions of them", d, 0, false, show_regions);
    line("bytes on the fullest core", d, 0, false, show_core);
    line("microseconds a guess", d, 0, false, show_guess);
    line("  after two tokens", d, 0, false, show_catch_up);
    line("  hand-offs of a pass", d, 0, false, show_handoff);
    line("tokens/s without guesses", d, 0, false, show_alone);
    for (int i = 0; i < CHANCES; i++) {
        const double p = chances[i];
        printf("  of guesses %.1f are right: %.2f tokens from a pass of %u\n", p,
               draft_yield(p, tokens), tokens);
        for (int on = 0; on < 2; on++) {
            const char *how = on ? "overlapped" : "in turns";
            snprintf(what, sizeof what, "  tokens/s, %s", how);
            line(what, d, p, on, show_rate);
            snprintf(what, sizeof what, "    joules a token");
            line(what, d, p, on, show_joules);
            snprintf(what, sizeof what, "    dollars a million");
            line(what, d, p, on, show_usd);
            snprintf(what, sizeof what, "    best of 1 to %u, %s", tokens, how);
            line(what, d, p, on, show_best);
        }
    }
}

/* ---- jSON ---- */

static json_t *json_us(const draft_us t[2], uint32_t tokens)
{
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "tokens", (int)tokens, "verify_us",
                     wafer_json_band((wafer_band){t[0].verify, t[1].verify}), "guess_us",
                     wafer_json_band((wafer_band){t[0].step, t[1].step}), "catch_up_us",
                     wafer_json_band((wafer_band){t[0].catch_up, t[1].catch_up}), "tell_us",
                     wafer_json_band((wafer_band){t[0].tell, t[1].tell}), "offer_us",
                     wafer_json_band((wafer_band){t[0].offer, t[1].offer}));
}

json_t *wafer_draft_json(const wafer_drafting *d, const char *name)
{
    const wafer_region *room = &d->draft.place;
    json_t *passes = json_array(), *rates = json_array();
    for (uint32_t i = 0; i < d->tokens; i++)
        json_array_append_new(passes, json_us(d->us[i], i + 1));
    for (int i = 0; i < CHANCES; i++) {
        const double p = chances[i];
        const draft_figures turns = figures(d, p, d->tokens, false);
        const draft_figures on = figures(d, p, d->tokens, true);
        json_array_append_new(
            rates, json_pack("{s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i}", "accept", p,
                             "tokens_a_pass", draft_yield(p, d->tokens), "turns_tokens_s",
                             wafer_json_band(turns.tokens_s), "turns_joules",
                             wafer_json_band(turns.joules), "turns_usd_million",
                             wafer_json_band(turns.usd), "overlapped_tokens_s",
                             wafer_json_band(on.tokens_s), "overlapped_joules",
                             wafer_json_band(on.joules), "overlapped_usd_million",
                             wafer_json_band(on.usd), "best_turns", (int)best(d, p, false),
                             "best_overlapped", (int)best(d, p, true)));
    }
    return json_pack("{s:o, s:{s:i, s:i, s:i, s:i, s:i}, s:I, s:o, s:o}", "model",
                     json_name(name), "place",
                     "wafer", (int)room->wafer, "x", (int)room->x, "y", (int)room->y, "width",
                     (int)room->width, "height", (int)room->height, "cores",
                     (json_int_t)d->draft.plan.layout.cores, "passes", passes, "rates", rates);
}
