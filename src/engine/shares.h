/* shares.h - equal shares of compute time for the keys of a class.
 *
 * Start-time fair queueing (Goyal, Vin, Cheng, 1996), as "Fairness in Serving Large Language
 * Models" (OSDI 2024) has it for tokens: a key's virtual time is its part of the time of passes,
 * and a pass takes rows of each key until all are where the last of them would be after a pass of
 * its own.  So of n keys none is slower than 1/n of its speed alone, and where rows cost little
 * beside others, more of them come along.  Plain arithmetic on a cost model: no clock, no lock. */
#ifndef ENGINE_SHARES_H
#define ENGINE_SHARES_H

#include "cerium.h"
#include "engine/cost.h"

typedef struct {
    uint64_t key;
    uint32_t class_;
    uint32_t n_requests;      /* 0: nothing of it is there; it keeps its virtual time */
    double ns;                /* virtual time */
    /* of the pass that is planned */
    uint32_t ready;           /* rows that it would have in a pass of its own */
    uint32_t rows, rows_max;  /* that it has, and may have; */
    uint32_t piece_min;       /* of a prompt it may have this much anyway */
} time_share;

typedef struct {
    time_share *of;           /* [n] */
    uint32_t n;
    double now_ns[CERIUM_CLASSES];  /* virtual time of the class as its last pass began, and */
    double gain_ns[CERIUM_CLASSES]; /* how far that pass moved it on */
} time_shares;

/* Add a request of a key; returns its place.  A new or returning key starts at the virtual time of
 * its class, so no key saves up time.  At most n requests at once. */
uint32_t shares_join(time_shares *s, uint64_t key, uint32_t class_);
void shares_leave(time_shares *s, uint32_t at);
/* Before a pass: reset ready rows and bounds. */
void shares_clear(time_shares *s);
/* Once all ready rows of a class are known: bound the rows of each key.  piece_ns: the shortest
 * piece of a prompt that is worth a pass, for the key with the least time. */
void shares_bound(time_shares *s, uint32_t class_, const cost_model *cost, double piece_ns);
/* The rows of the pass are computed, n_rows in all: its time is split by what the rows of each key
 * would have cost in a pass of its own. */
void shares_charge(time_shares *s, uint32_t n_rows, const cost_model *cost);

#endif
