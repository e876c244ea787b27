/* CHECK ends the program with the line of a failed check, even with NDEBUG. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

/* Checks that the call returns this value. */
#define IS(value, call)                                                                                 \
    do {                                                                                                \
        long long got_ = (long long)(call), wanted_ = (long long)(value);                                  \
        if (got_ != wanted_) {                                                                            \
            fprintf(stderr, "%s:%d: %lld instead of %lld: %s\n", __FILE__, __LINE__, got_, wanted_, #call); \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)
