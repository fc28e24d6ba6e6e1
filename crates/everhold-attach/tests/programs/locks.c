// A lock client that says nothing about itself. It takes and releases locks as its input tells it, so
// a test decides what happens; the lock is granted without asking anybody, which is the planted bug.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum mode { SHARED, EXCLUSIVE };

struct stats {
    uint32_t acquired;
    uint16_t errors;
};

struct client {
    uint64_t padding;
    uint64_t node_id;
    const char *name;
    struct stats *stats;
    struct { int8_t depth; } inner;
};

__attribute__((noinline)) int on_lock_acquired(struct client *self, uint64_t lock, enum mode mode) {
    self->stats->acquired += 1;
    self->inner.depth -= 1;
    return mode == EXCLUSIVE ? -(int)lock : (int)lock;
}

__attribute__((noinline)) void on_lock_released(struct client *self, uint64_t lock) {
    __asm__ volatile("" : : "r"(self), "r"(lock) : "memory");
}

__attribute__((noinline)) uint64_t deep(struct client *self, uint64_t n) {
    if (n == 0) return self->node_id;
    return deep(self, n - 1) + n * self->stats->acquired + (uint64_t)self->inner.depth;
}

__attribute__((noinline)) void busy(uint64_t round) { __asm__ volatile("" : : "r"(round)); }

// A function that jumps into another one if its argument is negative, or less than ten, and has a part
// elsewhere for what is rare, as compilers lay them out.
uint64_t leaps(int64_t n);
__asm__(
    ".text\n.globl leaps\n.type leaps,@function\n"
    "leaps: testq %rdi,%rdi\n js landing\n cmpq $10,%rdi\n jl landing\n cmpq $20,%rdi\n jg leaps.cold\n"
    " movq %rdi,%rax\n ret\n.size leaps,.-leaps\n"
    ".type landing,@function\nlanding: movl $1,%eax\n ret\n.size landing,.-landing\n"
    ".section .text.unlikely,\"ax\",@progbits\n.type leaps.cold,@function\n"
    "leaps.cold: movl $2,%eax\n ret\n.size leaps.cold,.-leaps.cold\n.text\n");

static inline __attribute__((always_inline)) uint64_t tiny(uint64_t n) { return n * 3 + 1; }

int main(int argc, char **argv) {
    struct stats stats = {0, 3};
    struct client client = {0, 7, argc > 2 ? argv[2] : "nobody", &stats, {5}};
    char word[32];
    unsigned long number;
    uint64_t sum = 0;
    while (scanf("%31s %lu", word, &number) == 2) {
        if (!strcmp(word, "exclusive")) sum += (uint64_t)on_lock_acquired(&client, number, EXCLUSIVE);
        if (!strcmp(word, "shared")) sum += (uint64_t)on_lock_acquired(&client, number, SHARED);
        if (!strcmp(word, "release")) on_lock_released(&client, number);
        if (!strcmp(word, "deep")) sum += deep(&client, number);
        if (!strcmp(word, "leap"))
            for (int64_t i = -5; i < (int64_t)number; i++) sum += leaps(i);
        if (!strcmp(word, "tiny")) sum += tiny(number);
        if (!strcmp(word, "busy"))
            for (uint64_t i = 0; i < number; i++) busy(i);
        if (!strcmp(word, "fork")) {
            pid_t child = fork();
            if (child == 0) {
                on_lock_released(&client, number);
                _exit(0);
            }
            waitpid(child, NULL, 0);
        }
        if (!strcmp(word, "exec")) {
            printf("done exec\n");
            fflush(stdout);
            execlp("sleep", "sleep", "60", NULL);
        }
        printf("done %s %lu\n", word, number);
        fflush(stdout);
    }
    return sum == 0x123456789abcdef;
}
