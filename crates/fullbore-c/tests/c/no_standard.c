/* In a program without stdin, stdout and stderr, the library never uses their numbers: later output of the
 * program would go into a pipe. Every descriptor that a call creates is at least 3. */

#include "check.h"

#include <fcntl.h>
#include <fullbore.h>
#include <unistd.h>

static void none_of_ours(void) {
    for (int fd = 0; fd < 3; fd++) CHECK(fcntl(fd, F_GETFD) == -1);
}

int main(void) {
    int keeps_stderr = fcntl(2, F_DUPFD_CLOEXEC, 10), fds[2], others[2];
    for (int fd = 0; fd < 3; fd++) close(fd);
    IS(0, fullbore_pipe(fds, 0, NULL));
    IS(0, fullbore_pipe(others, 1 << 20, NULL));
    CHECK(fds[0] > 2 && fds[1] > 2 && others[0] > 2 && others[1] > 2);
    none_of_ours();
    fullbore_producer *producer;
    fullbore_consumer *consumer;
    fullbore_transfer *transfer;
    fullbore_cancel *cancel;
    IS(0, fullbore_producer_new(fds[1], NULL, &producer, NULL));
    IS(5, fullbore_producer_write(producer, "bytes", 5, NULL));
    IS(0, fullbore_producer_finish(producer, NULL));
    none_of_ours();
    IS(0, fullbore_transfer_new(fds[0], others[1], NULL, &transfer, NULL));
    IS(0, fullbore_transfer_set_limit(transfer, 5, NULL));
    CHECK(fullbore_transfer_run(transfer, NULL, NULL, NULL) >= 0);
    none_of_ours();
    IS(0, fullbore_cancel_new(&cancel, NULL));
    IS(0, fullbore_consumer_new(others[0], NULL, &consumer, NULL));
    char bytes[5];
    IS(5, fullbore_consumer_read(consumer, bytes, 5, NULL));
    none_of_ours();
    fullbore_consumer_free(consumer);
    fullbore_cancel_free(cancel);
    fullbore_transfer_free(transfer);
    fullbore_producer_free(producer);
    CHECK(dup2(keeps_stderr, 2) == 2);
    return 0;
}
