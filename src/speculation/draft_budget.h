/* draft_budget.h - what a draft model is worth: how often it is right, by how sure it is, and what
 * asking it costs.  This decides whether to ask it again and how many of its guesses to try.
 *
 * A model, unlike a text, costs time for each guess.  So there is a budget: each pass of the large
 * model pays in a small share of its time, and each right guess pays in what it saved; asking and
 * rows of guesses are paid from it.  The draft model is not asked while the budget is empty.  So,
 * however often it is wrong, it never costs more than that share and the loan of a few passes at
 * the start, which lets it read a prompt.
 *
 * Before a class of guesses was seen, what is believed of it is what turned out true of the others;
 * and a pass has few rows of guesses until some were right.  So a model that is never right has
 * cost little before it is known. */
#ifndef SPECULATION_DRAFT_BUDGET_H
#define SPECULATION_DRAFT_BUDGET_H

#include "base/base.h"

enum {
    BUDGET_MARGINS = 7,                 /* classes by how sure it is, */
    BUDGET_LITTLE = 32,                  /* tokens that a head reads of what it missed, until
                                            it was right */
    BUDGET_CLASSES = 2 * BUDGET_MARGINS, /* each again for the last guess in another vocabulary,
                                            which may be half a token */
};

typedef struct {
    float right[BUDGET_CLASSES], seen[BUDGET_CLASSES]; /* as draft_odds, without a prior */
    float met[BUDGET_CLASSES]; /* how often guesses were of a class lately */
    float came, hoped;        /* right guesses of all classes, and how many should have been */
    float ask_ns;             /* of one guess; 0 = not known */
    double balance_ns, most_ns; /* balance, and its maximum; 0 = not known */
    bool has_loan;
    uint32_t n_passed, n_gap; /* tokens since it was last asked; after how many to ask again */
    uint32_t n_probes;        /* guesses left in this trial */
} draft_budget;

void budget_init(draft_budget *w);

/* margin: by how much the logit of a guess is greater than the next. */
uint32_t budget_class(float margin, bool is_last);
float budget_odds(const draft_budget *w, uint32_t class_);
void budget_learn(draft_budget *w, uint32_t class_, bool was_right);

/* Were any guesses right lately, of some fifty?  A model that was not may save the time of reading
 * what it missed. */
bool budget_was_right(const draft_budget *w);

/* One question to the draft model took ns. */
void budget_learn_ask(draft_budget *w, uint64_t ns);
/* A pass of the large model without guesses takes ns: the budget holds a fixed number of these, and
 * begins with a loan. */
void budget_know_pass(draft_budget *w, double ns);
/* A pass of the large model took ns: a share of it goes into the budget. */
void budget_earn(draft_budget *w, double ns);
/* Into the budget (positive) or out of it: what right guesses saved, less the cost of rows; less
 * the time spent on guesses. */
void budget_settle(draft_budget *w, double ns);

/* A pass that may verify guesses. */
typedef struct {
    const float *cost; /* [n_max + 1] cost with this many guesses, relative to none */
    float ns;          /* without */
    uint32_t n_max;
    uint32_t n_sharing; /* requests that wait for it, including this one */
} budget_pass;

/* Tokens in the time of a pass without guesses, at best, by recent odds; at least 1. */
float budget_rate(const draft_budget *w, const budget_pass *pass);
/* There are n guesses, all right with probability all_right: is one more worth asking for?  rate:
 * of budget_rate(). */
bool budget_asking(draft_budget *w, const budget_pass *pass, uint32_t n, float all_right,
                  float rate);
/* Asking is not worth it: whether to ask nevertheless, now and then, to learn. */
bool budget_trying(draft_budget *w);
/* How many of the guesses [n] of these classes are worth their rows. */
uint32_t budget_rows(const draft_budget *w, const budget_pass *pass, const uint8_t *classes,
                    uint32_t n, float rate);

#endif
