// Command copy copies standard input to standard output, and prints the number of bytes for each system call
// on standard error.
//
//	CGO_CFLAGS="$(pkg-config --cflags fullbore)" CGO_LDFLAGS="$(pkg-config --libs fullbore)" go build -o copy .
package main

// #cgo LDFLAGS: -lfullbore
// #include <fullbore.h>
import "C"

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Side is the side of a transfer that failed.
type Side int

// Error is an error of the library.
type Error struct {
	Errno   syscall.Errno
	Side    Side
	Moved   uint64
	Message string
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Errno }

func errorOf(failed *C.fullbore_error) error {
	return &Error{
		Errno:   syscall.Errno(-failed.code),
		Side:    Side(failed.side),
		Moved:   uint64(failed.moved),
		Message: C.GoString(&failed.message[0]),
	}
}

var methods = map[C.int]string{
	C.FULLBORE_METHOD_COPY_FILE_RANGE: "copy_file_range",
	C.FULLBORE_METHOD_SPLICE:          "splice",
	C.FULLBORE_METHOD_SPLICE_THROUGH:  "splice through a pipe",
	C.FULLBORE_METHOD_SENDFILE:        "sendfile",
	C.FULLBORE_METHOD_FRESH:           "fresh pages",
	C.FULLBORE_METHOD_SOCKET:          "a socket",
	C.FULLBORE_METHOD_READ_WRITE:      "read and write",
}

// Transfer moves all bytes of source to sink, and calls said for each method with its bytes.
func Transfer(source, sink *os.File, said func(method string, bytes uint64)) error {
	// Fd makes both blocking; the library waits in the kernel, and this goroutine with it.
	var failed C.fullbore_error
	var transfer *C.fullbore_transfer
	if C.fullbore_transfer_new(C.int(source.Fd()), C.int(sink.Fd()), nil, &transfer, &failed) < 0 {
		return errorOf(&failed)
	}
	defer C.fullbore_transfer_free(transfer)
	if C.fullbore_transfer_run(transfer, nil, nil, &failed) < 0 {
		return errorOf(&failed)
	}
	for i := C.size_t(0); ; i++ {
		var bytes C.uint64_t
		method := C.fullbore_transfer_method(transfer, i, &bytes)
		if method <= 0 {
			return nil
		}
		said(methods[method], uint64(bytes))
	}
}

func main() {
	err := Transfer(os.Stdin, os.Stdout, func(method string, bytes uint64) {
		fmt.Fprintf(os.Stderr, "%d bytes by %s\n", bytes, method)
	})
	// A closed reader is not an error of a filter.
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintf(os.Stderr, "copy: %v\n", err)
		os.Exit(1)
	}
}
