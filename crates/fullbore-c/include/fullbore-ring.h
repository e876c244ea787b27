// fullbore-ring.h: memory that the two ends of a pipe share. Experimental: it may change with any version.
//
// Only a library that was built with its feature `ring` knows this flag; others refuse it with -EINVAL.


#ifndef FULLBORE_RING_H
#define FULLBORE_RING_H

#include "fullbore.h"

// A flag of fullbore_producer_options, with FULLBORE_WAY_AUTO, and of fullbore_consumer_options: bypass the pipe by
// memory shared with its other end, if that end uses this library, has this flag too, and has the same user, and if no
// other process has the pipe open. The bytes arrive as through the pipe, but poll(2) does not see them. It has no
// effect with FULLBORE_FLAG_NONBLOCKING.
#define FULLBORE_FLAG_SHARED 128

// The consumer reads the bytes from memory shared with the producer, with FULLBORE_FLAG_SHARED. This is a result, and
// not an option.
#define FULLBORE_WAY_RING 7

#endif  /* FULLBORE_RING_H */
