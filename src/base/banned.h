/* banned.h - functions that are easy to misuse do not compile.
 *
 * Included by base/base.h, so by every file. Each name has its replacement beside it. */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BANNED(name) name##_is_banned_see_base_banned_h
#undef strcpy
#undef strcat
#undef strncpy
#undef strncat
#undef sprintf
#undef vsprintf
#undef strtok
#undef atoi
#undef gmtime
#undef strdup
#define strcpy(...)   BANNED(strcpy)   /* snprintf, or memcpy with a length */
#define strcat(...)   BANNED(strcat)   /* bytes_append */
#define strncpy(...)  BANNED(strncpy)  /* memcpy with a length */
#define strncat(...)  BANNED(strncat)  /* bytes_append */
#define sprintf(...)  BANNED(sprintf)  /* snprintf */
#define vsprintf(...) BANNED(vsprintf) /* vsnprintf */
#define strtok(...)   BANNED(strtok)   /* a view and a loop */
#define atoi(...)     BANNED(atoi)     /* parse_u64, parse_f64 */
#define gmtime(...)   BANNED(gmtime)   /* gmtime_r */
#define strdup(...)   BANNED(strdup)   /* memory_copy */
#ifndef BASE_MEMORY_C
#define malloc(...)         BANNED(malloc)         /* memory_alloc */
#define calloc(...)         BANNED(calloc)         /* memory_zalloc */
#define realloc(...)        BANNED(realloc)        /* bytes, or an arena */
#define free(...)           BANNED(free)           /* memory_free */
#define posix_memalign(...) BANNED(posix_memalign) /* memory_alloc */
#define aligned_alloc(...)  BANNED(aligned_alloc)  /* memory_alloc */
#endif

#endif
