// The C library, as far as there is one. Built with -fno-builtin, or the loops would become calls of themselves.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 65536, ALIGNMENT = 16 };

// Where the linker's own data end.
extern uint8_t __heap_base;

static uintptr_t top;

// Every call gets a fresh instance, so nothing is ever given back. The host bounds the memory.
void *malloc(size_t size) {
    if (top == 0) top = ((uintptr_t)&__heap_base + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    if (size > SIZE_MAX - ALIGNMENT) abort();
    size = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    size_t had = __builtin_wasm_memory_size(0);
    // In 64 bits: 4 GiB of memory are one more than 32 bits hold.
    uint64_t end = (uint64_t)top + size;
    if (end > (uint64_t)had * PAGE) {
        size_t pages = (size_t)((end - (uint64_t)had * PAGE + PAGE - 1) / PAGE);
        if (__builtin_wasm_memory_grow(0, pages) == SIZE_MAX) abort();
    }
    void *fresh = (void *)top;
    top = (uintptr_t)end;
    return fresh;
}

// The old size is not known, so what is copied may reach beyond it, into memory that is there all the same: the
// new piece is above the old one, and no longer. Only a caller that grows asks for it; the host never does.
void *realloc(void *old, size_t size) {
    void *fresh = malloc(size);
    if (old != NULL) memcpy(fresh, old, size);
    return fresh;
}

void free(void *old) {
    (void)old;
}

// Ends the call. The host drops the instance, and the lease fails closed.
void abort(void) {
    __builtin_trap();
}

void *memcpy(void *to, const void *from, size_t size) {
    uint8_t *t = to;
    for (const uint8_t *f = from; size > 0; size--) *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t size) {
    uint8_t *t = to;
    const uint8_t *f = from;
    if (t <= f) return memcpy(to, from, size);
    while (size > 0) {
        size--;
        t[size] = f[size];
    }
    return to;
}

void *memset(void *to, int byte, size_t size) {
    for (uint8_t *t = to; size > 0; size--) *t++ = (uint8_t)byte;
    return to;
}

int memcmp(const void *one, const void *other, size_t size) {
    const uint8_t *a = one, *b = other;
    for (; size > 0; size--, a++, b++) {
        if (*a != *b) return *a < *b ? -1 : 1;
    }
    return 0;
}

size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length] != 0) length++;
    return length;
}
