/* numbers: prints the numbers from 1 to N, one per line, and writes them directly into memory that the
 * producer lends.
 *
 *     cc -O2 -o numbers numbers.c $(pkg-config --cflags --libs fullbore)
 *     ./numbers 100000000 | tail -n 1
 */
/* The functions of POSIX, even with -std=c11. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fullbore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than the digits of any number and its newline. */
enum { LONGEST = 24 };

/* Adds one to a decimal number of `*len` digits. */
static void next(char *digits, size_t *len) {
    for (size_t i = *len; i-- > 0; digits[i] = '0') {
        if (digits[i] != '9') {
            digits[i]++;
            return;
        }
    }
    memmove(digits + 1, digits, *len);
    digits[0] = '1';
    ++*len;
}

int main(int argc, char **argv) {
    char *end = NULL;
    unsigned long long last = argc == 2 ? strtoull(argv[1], &end, 10) : 0;
    if (argc != 2 || *end != '\0') {
        fprintf(stderr, "usage: numbers N\n");
        return 2;
    }
    fullbore_error error;
    fullbore_producer *producer;
    int code = fullbore_producer_new(1, NULL, &producer, &error);
    if (code < 0) {
        fprintf(stderr, "numbers: %s\n", error.message);
        return 1;
    }
    size_t chunk = (size_t)fullbore_producer_chunk(producer);
    char digits[LONGEST] = "1";
    size_t len = 1;
    for (unsigned long long number = 1; code == 0 && number <= last;) {
        void *memory;
        code = fullbore_producer_reserve(producer, chunk, &memory, &error);
        if (code < 0) break;
        char *at = memory;
        char *full = at + chunk - LONGEST;
        for (; number <= last && at < full; number++) {
            memcpy(at, digits, len);
            at[len] = '\n';
            at += len + 1;
            next(digits, &len);
        }
        code = fullbore_producer_commit(producer, (size_t)(at - (char *)memory), &error);
    }
    if (code == 0) code = fullbore_producer_finish(producer, &error);
    fullbore_producer_free(producer);
    if (code == 0 || code == -EPIPE) return 0;
    fprintf(stderr, "numbers: %s\n", error.message);
    return 1;
}
