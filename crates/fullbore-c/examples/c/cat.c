/* cat: copies files, or standard input, to standard output.
 *
 *     cc -O2 -o cat cat.c $(pkg-config --cflags --libs fullbore)
 *     ./cat cat.c | wc -l
 */
/* The functions of POSIX, even with -std=c11. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <fullbore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int copy(int source, const char *name) {
    fullbore_error error;
    if (fullbore_copy(source, 1, &error) >= 0) return 0;
    /* The reader has closed its end, as in `cat file | head`. */
    if (error.code == -EPIPE && error.side == FULLBORE_SIDE_SINK) return -1;
    fprintf(stderr, "cat: %s: %s\n", error.side == FULLBORE_SIDE_SINK ? "stdout" : name, error.message);
    return 1;
}

int main(int argc, char **argv) {
    int status = 0;
    if (argc == 1) status = copy(0, "stdin");
    for (int i = 1; i < argc && status >= 0; i++) {
        int file = open(argv[i], O_RDONLY | O_CLOEXEC);
        if (file < 0) {
            fprintf(stderr, "cat: %s: %s\n", argv[i], strerror(errno));
            status = 1;
            continue;
        }
        int copied = copy(file, argv[i]);
        if (copied != 0) status = copied;
        close(file);
    }
    if (status < 0) return 0;
    /* Some file systems report a failed write only when the file is closed. */
    if (close(1) < 0) {
        fprintf(stderr, "cat: stdout: %s\n", strerror(errno));
        return 1;
    }
    return status;
}
