// lines: writes the numbers from 1 to N through a producer that frees itself, reads them back from the
// other end of a pipe in another thread, and prints how many lines and bytes there were.
//
//     c++ -O2 -std=c++11 -pthread -o lines lines.cc $(pkg-config --cflags --libs fullbore)
//     ./lines 1000000
#include <algorithm>
#include <cstdlib>
#include <fullbore.h>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

// An error of the library as an exception.
class Error : public std::runtime_error {
public:
    explicit Error(const fullbore_error &error) : std::runtime_error(error.message), code(-error.code) {}
    const int code;
};

template <typename Number> Number check(Number result, const fullbore_error &error) {
    if (result < 0) throw Error(error);
    return result;
}

// A file descriptor that is closed at the end of its scope.
class Fd {
public:
    explicit Fd(int number) : number(number) {}
    Fd(Fd &&other) noexcept : number(other.number) { other.number = -1; }
    Fd(const Fd &) = delete;
    Fd &operator=(const Fd &) = delete;
    ~Fd() { close(); }
    void close() {
        if (number >= 0) ::close(number);
        number = -1;
    }
    int number;
};

struct Free {
    void operator()(fullbore_producer *producer) const { fullbore_producer_free(producer); }
    void operator()(fullbore_consumer *consumer) const { fullbore_consumer_free(consumer); }
};

class Producer {
public:
    explicit Producer(int sink) {
        fullbore_producer *made = nullptr;
        fullbore_error error;
        check(fullbore_producer_new(sink, nullptr, &made, &error), error);
        producer.reset(made);
    }
    void write(const std::string &text) {
        fullbore_error error;
        for (size_t done = 0; done < text.size();)
            done += check(
                fullbore_producer_write(producer.get(), text.data() + done, text.size() - done, &error),
                error);
    }
    void finish() {
        fullbore_error error;
        check(fullbore_producer_finish(producer.get(), &error), error);
    }

private:
    std::unique_ptr<fullbore_producer, Free> producer;
};

class Consumer {
public:
    explicit Consumer(int source) {
        fullbore_consumer *made = nullptr;
        fullbore_error error;
        check(fullbore_consumer_new(source, nullptr, &made, &error), error);
        consumer.reset(made);
    }
    // Passes all bytes to `use`, directly from the buffer.
    template <typename Use> void each(Use use) {
        fullbore_error error;
        const void *memory;
        for (size_t len;;) {
            check(fullbore_consumer_fill(consumer.get(), &memory, &len, &error), error);
            if (len == 0) return;
            use(static_cast<const char *>(memory), len);
            check(fullbore_consumer_consume(consumer.get(), len, &error), error);
        }
    }

private:
    std::unique_ptr<fullbore_consumer, Free> consumer;
};

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::cerr << "usage: lines N\n";
        return 2;
    }
    const long last = std::atol(argv[1]);
    try {
        int fds[2];
        fullbore_error error;
        check(fullbore_pipe(fds, 1 << 20, &error), error);
        Fd reader(fds[0]), writer(fds[1]);
        std::string failed;
        std::thread other([&] {
            try {
                Producer producer(writer.number);
                for (long number = 1; number <= last; number++) producer.write(std::to_string(number) + "\n");
                producer.finish();
            } catch (const Error &error) {
                failed = error.what();
            }
            writer.close();
        });
        long lines = 0, bytes = 0;
        try {
            Consumer consumer(reader.number);
            consumer.each([&](const char *at, size_t len) {
                lines += std::count(at, at + len, '\n');
                bytes += static_cast<long>(len);
            });
        } catch (const Error &error) {
            failed = error.what();
        }
        // The writer ends with EPIPE if this end has failed.
        reader.close();
        other.join();
        if (!failed.empty()) throw std::runtime_error(failed);
        std::cout << lines << " lines, " << bytes << " bytes\n";
    } catch (const std::exception &error) {
        std::cerr << "lines: " << error.what() << "\n";
        return 1;
    }
}
