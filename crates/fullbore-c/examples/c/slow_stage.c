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

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: slow_stage PID\n");
        return 2;
    }
    fullbore_error error;
    fullbore_monitor *monitor = NULL;
    fullbore_overview *overview = NULL;
    int code = fullbore_monitor_new_tree(atoi(argv[1]), 0, &monitor, &error);
    if (code == 0) code = fullbore_monitor_once(monitor, 2000000000, &overview, &error);
    if (code < 0) fprintf(stderr, "slow_stage: %s\n", error.message);
    int64_t chains = code == 0 ? fullbore_overview_chains(overview) : 0;
    for (int64_t i = 0; i < chains; i++) {
        const fullbore_chain *chain = fullbore_overview_chain(overview, (size_t)i);
        for (size_t stage = 0; stage < chain->stages; stage++) {
            const fullbore_process *process = fullbore_overview_stage_process(overview, (size_t)i, stage, 0);
            printf("%s%s", stage > 0 ? " | " : "", process ? process->name : "?");
        }
        printf(": %s\n", chain->words ? chain->words : "not watched");
    }
    fullbore_overview_free(overview);
    fullbore_monitor_free(monitor);
    return code < 0;
}
