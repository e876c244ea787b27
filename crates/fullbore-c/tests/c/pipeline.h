/* Two processes with a pipe between them, for a monitor, which does not show its own process. */
#include "check.h"
#include <fcntl.h>
#include <fullbore-observe.h>
#include <sys/wait.h>
#include <unistd.h>

struct pipeline {
    /* The writer and the reader. */
    pid_t children[2];
    fullbore_pipe_identity identity;
    /* They run until its write end is closed. */
    int hold[2];
};

/* The writer writes five bytes, which stay in the pipe. */
static void start_pipeline(struct pipeline *pipeline) {
    int fds[2], *hold = pipeline->hold;
    IS(0, fullbore_pipe(fds, 0, NULL, NULL));
    IS(0, fullbore_pipe(hold, 0, NULL, NULL));
    IS(0, fullbore_pipe_identify(fds[0], &pipeline->identity, NULL));
    for (int child = 0; child < 2; child++) {
        pipeline->children[child] = fork();
        CHECK(pipeline->children[child] >= 0);
        if (pipeline->children[child] == 0) {
            char byte;
            int null = open("/dev/null", O_RDWR);
            for (int fd = 0; fd < 3; fd++) dup2(null, fd);
            dup2(fds[1 - child], 1 - child);
            close(fds[0]);
            close(fds[1]);
            close(hold[1]);
            if (child == 0 && write(1, "hello", 5) != 5) _exit(1);
            _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
        }
    }
    close(fds[0]);
    close(fds[1]);
}

static const fullbore_pipe_state *pipe_of_pipeline(const struct pipeline *pipeline, const fullbore_overview *overview) {
    for (size_t i = 0; (int64_t)i < fullbore_overview_pipes(overview); i++) {
        const fullbore_pipe_state *pipe = fullbore_overview_pipe(overview, i);
        if (pipe->inode == pipeline->identity.inode && pipe->device == pipeline->identity.device) return pipe;
    }
    return NULL;
}

/* Scans until both processes have begun, and returns the overview with their pipe. */
static fullbore_overview *overview_with(const struct pipeline *pipeline, fullbore_monitor *monitor) {
    fullbore_overview *overview;
    for (int tries = 0; tries < 2000; tries++) {
        IS(0, fullbore_monitor_scan(monitor, &overview, NULL));
        const fullbore_pipe_state *pipe = pipe_of_pipeline(pipeline, overview);
        if (pipe && pipe->chain >= 0 && pipe->queued == 5 && pipe->writers == 1 && pipe->readers == 1) return overview;
        fullbore_overview_free(overview);
        IS(0, fullbore_monitor_sample(monitor, 10000000, NULL));
    }
    CHECK(!"the pipeline is seen");
    return NULL;
}

static void end_pipeline(struct pipeline *pipeline) {
    close(pipeline->hold[1]);
    for (int child = 0; child < 2; child++) {
        int status;
        CHECK(waitpid(pipeline->children[child], &status, 0) == pipeline->children[child] && status == 0);
    }
    close(pipeline->hold[0]);
}
