/* yes: prints its arguments, or "y", until the reader closes its end.
 *
 *     cc -O2 -o yes yes.c $(pkg-config --cflags --libs fullbore)
 *     ./yes all work and no play | head -n 2
 */
/* The functions of POSIX, even with -std=c11. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fullbore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    size_t len = argc > 1 ? 0 : 2;
    for (int i = 1; i < argc; i++) len += strlen(argv[i]) + 1;
    char *line = malloc(len + 1);
    if (!line) return 1;
    char *end = line;
    for (int i = 1; i < argc; i++) end += sprintf(end, "%s ", argv[i]);
    if (argc == 1) end += sprintf(end, "y ");
    end[-1] = '\n';

    fullbore_repeat *repeat;
    fullbore_error error;
    int code = fullbore_repeat_new(1, line, len, NULL, &repeat, &error);
    if (code == 0) {
        code = fullbore_repeat_send(repeat, UINT64_MAX, &error);
        fullbore_repeat_free(repeat);
    }
    free(line);
    /* There is no SIGPIPE: a closed reader is an ordinary error. */
    if (code == 0 || code == -EPIPE) return 0;
    fprintf(stderr, "yes: %s\n", error.message);
    return 1;
}
