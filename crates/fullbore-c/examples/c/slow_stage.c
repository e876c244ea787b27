/* slow_stage: says which stage is slow in the pipelines of a process and its descendants.
 *
 *     cc -O2 -o slow_stage slow_stage.c $(pkg-config --cflags --libs fullbore)
 *     ./slow_stage $$
 */
/* The functions of POSIX, even with -std=c11. */
#define _POSIX_C_SOURCE 200809L

#include <fullbore-observe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: slow_stage PID\n");
        return 2;
    }
    fullbore_error error;
    fullbore_monitor *monitor = NULL;
    char *overview = NULL;
    int code = fullbore_monitor_new_tree(atoi(argv[1]), 0, &monitor, &error);
    if (code == 0) code = fullbore_monitor_once(monitor, 2000000000, &overview, &error);
    if (code < 0) fprintf(stderr, "slow_stage: %s\n", error.message);
    /* The sentence of each verdict. A program that needs more of the overview uses a parser of JSON. */
    const char *key = "\"words\":\"", *words = overview;
    while (words && (words = strstr(words, key))) {
        words += strlen(key);
        size_t length = 0;
        while (words[length] != '"') length += words[length] == '\\' ? 2 : 1;
        printf("%.*s\n", (int)length, words);
    }
    fullbore_overview_free(overview);
    fullbore_monitor_free(monitor);
    return code < 0;
}
