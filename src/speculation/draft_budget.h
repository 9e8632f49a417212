/* draft_budget.h - what a draft model is worth: how often it is right, by how sure it is, what
 * asking it costs, and so whether to ask it again and how many of its guesses to try.
 *
 * A model, unlike a text, costs time for each guess.  So there is a budget: the passes of the large
 * model pay a small share of their time into it, guesses that were right what they saved, and what
 * asking and rows of guesses cost is taken out.  Nothing is asked while it is empty: however often
 * the draft model is wrong, all of it never costs more than that share, and what is lent at first,
 * a few passes, so that it can show what it is worth. */
#ifndef SPECULATION_DRAFT_BUDGET_H
#define SPECULATION_DRAFT_BUDGET_H

#include "base/base.h"

enum {
    BUDGET_MARGINS = 7,                 /* classes of how sure it is, */
    BUDGET_CLASSES = 2 * BUDGET_MARGINS, /* each once more for the last of a guess in another
                                          vocabulary, which may be half a token */
};

typedef struct {
    float right[BUDGET_CLASSES], seen[BUDGET_CLASSES]; /* as draft_odds */
    float met[BUDGET_CLASSES]; /* how often a guess is of a class, of late */
    float ask_ns;             /* of one guess; 0 = not known */
    double balance_ns, most_ns; /* what is in it, and what it holds; 0 = not known */
    bool has_loan;
    uint32_t n_passed, n_gap; /* tokens since it was asked last; after how many it is asked anew */
    uint32_t n_probes;        /* guesses that are left of this trial */
} draft_budget;

void budget_init(draft_budget *w);

/* margin: by how much the logit of a guess is greater than the next. */
uint32_t budget_class(float margin, bool is_last);
float budget_odds(const draft_budget *w, uint32_t class_);
void budget_learn(draft_budget *w, uint32_t class_, bool was_right);

/* Asking once took ns. */
void budget_learn_ask(draft_budget *w, uint64_t ns);
/* A pass of the large model without guesses takes ns: the budget holds so many of them, and begins
 * with a loan. */
void budget_know_pass(draft_budget *w, double ns);
/* A pass of the large model took ns: a share of it is for the budget. */
void budget_earn(draft_budget *w, double ns);
/* Into the budget, or out of it: what guesses that were right saved, less what rows took; less what
 * was done for guesses. */
void budget_settle(draft_budget *w, double ns);

/* A pass that guesses are for. */
typedef struct {
    const float *cost; /* [n_max + 1] of it with this many guesses, relative to none */
    float ns;          /* without */
    uint32_t n_max;
    uint32_t n_sharing; /* requests that wait for it, this one too */
} budget_pass;

/* Tokens in the time of a pass without guesses, at best, by the odds of late; at least 1. */
float budget_rate(const draft_budget *w, const budget_pass *pass);
/* n guesses are there, all right with this much chance: is it worth asking for one more?  rate: of
 * budget_rate(). */
bool budget_asking(draft_budget *w, const budget_pass *pass, uint32_t n, float all_right,
                  float rate);
/* It is not worth it: whether to ask once nevertheless, to learn, now and then. */
bool budget_trying(draft_budget *w);
/* How many of guesses [n] of these classes are worth their rows. */
uint32_t budget_rows(const draft_budget *w, const budget_pass *pass, const uint8_t *classes,
                    uint32_t n, float rate);

#endif
