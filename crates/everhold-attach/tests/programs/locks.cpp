// A lock service in C++ whose functions throw.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

namespace shop {
enum class Mode { Shared, Exclusive };

struct Base {
    uint64_t padding = 0;
    uint64_t node_id = 7;
};

class ClientNode : public Base {
public:
    explicit ClientNode(const char *name) : name(name) {}
    __attribute__((noinline)) uint64_t on_lock_acquired(uint64_t lock, Mode mode) {
        count += 1;
        if (lock % 2 == 1) throw std::runtime_error("odd");
        return lock + static_cast<uint64_t>(mode);
    }
    uint32_t count = 0;
    std::string name;
};
}

__attribute__((noinline)) static uint64_t outer(shop::ClientNode &node, uint64_t lock) {
    return node.on_lock_acquired(lock, shop::Mode::Exclusive) + 1;
}

int main(int, char **argv) {
    shop::ClientNode node(argv[2]);
    char word[32];
    unsigned long number;
    uint64_t sum = 0;
    while (scanf("%31s %lu", word, &number) == 2) {
        for (unsigned long i = 0; i < number; i++) {
            try {
                sum += outer(node, i);
            } catch (const std::runtime_error &) {
                sum += 1;
            }
        }
        printf("done %s %lu\n", word, sum);
        fflush(stdout);
    }
    return 0;
}
