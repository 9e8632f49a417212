/* random.h - a test's random numbers: the same ones each time, from a seed that the test may set.
 * SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): any
 * seed will do. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>

static uint64_t random_state;

static inline uint32_t random_u32(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

static inline uint32_t random_below(uint32_t n) { return random_u32() % n; }

#endif
