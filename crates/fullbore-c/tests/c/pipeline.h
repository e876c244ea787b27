/* Two processes with a pipe between them, for a monitor, which does not show its own process. */
#include "check.h"
#include <fcntl.h>
#include <fullbore-observe.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct pipeline {
    /* The writer and the reader. */
    pid_t children[2];
    struct stat identity;
    /* They run until its write end is closed. */
    int hold[2];
};

/* The writer writes five bytes, which stay in the pipe. */
static void start_pipeline(struct pipeline *pipeline) {
    int fds[2], *hold = pipeline->hold;
    IS(0, fullbore_pipe(fds, 0, NULL));
    IS(0, fullbore_pipe(hold, 0, NULL));
    CHECK(fstat(fds[0], &pipeline->identity) == 0);
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

/* Returns the text after the next key of this name. */
static const char *after(const char *json, const char *key) {
    char text[64];
    snprintf(text, sizeof text, "\"%s\":", key);
    const char *found = strstr(json, text);
    CHECK(found);
    return found + strlen(text);
}

static int has_after(const char *json, const char *key, const char *value) {
    return strncmp(after(json, key), value, strlen(value)) == 0;
}

/* Returns the part of an overview that is about the pipe. */
static const char *pipe_of_pipeline(const struct pipeline *pipeline, const char *overview) {
    char text[128];
    snprintf(text, sizeof text, "{\"device\":%llu,\"inode\":%llu,", (unsigned long long)pipeline->identity.st_dev,
             (unsigned long long)pipeline->identity.st_ino);
    return strstr(overview, text);
}

/* Returns whether a list of processes has this one only. */
static int is_only(const char *list, pid_t pid) {
    char first[64];
    snprintf(first, sizeof first, "[{\"pid\":%d,", (int)pid);
    return strncmp(list, first, strlen(first)) == 0 && strncmp(strchr(list, '}'), "}]", 2) == 0;
}

/* Returns whether the pipe is part of a chain, holds the five bytes, and has one writer and one reader. */
static int is_complete(const struct pipeline *pipeline, const char *pipe) {
    return !has_after(pipe, "chain", "null") && has_after(pipe, "queued", "5,") &&
           is_only(after(pipe, "writers"), pipeline->children[0]) && is_only(after(pipe, "readers"), pipeline->children[1]);
}

/* Scans until both processes have begun, and stores the overview with their pipe. */
static void overview_with(const struct pipeline *pipeline, fullbore_monitor *monitor, char **overview) {
    for (int tries = 0; tries < 2000; tries++) {
        IS(0, fullbore_monitor_scan(monitor, overview, NULL));
        const char *pipe = pipe_of_pipeline(pipeline, *overview);
        if (pipe && is_complete(pipeline, pipe)) return;
        fullbore_overview_free(*overview);
        IS(0, fullbore_monitor_sample(monitor, 10000000, NULL));
    }
    CHECK(!"the pipeline is seen");
}

static void end_pipeline(struct pipeline *pipeline) {
    close(pipeline->hold[1]);
    for (int child = 0; child < 2; child++) {
        int status;
        CHECK(waitpid(pipeline->children[child], &status, 0) == pipeline->children[child] && status == 0);
    }
    close(pipeline->hold[0]);
}
