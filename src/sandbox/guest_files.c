/* guest_files.c - the runner, its library, and its scripts, embedded in this program: the Makefile
 * builds them first. */
#include "sandbox/sandbox_parts.h"

#define EMBED(name, path)                                                                          \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"" path "\"\n" #name "_end:\n.byte 0\n"    \
            ".popsection\n");                                                                      \
    extern const char name[] __asm__(#name);                                                       \
    extern const char name##_end[] __asm__(#name "_end")

EMBED(guest_runner, GUEST_DIR "/runner");
EMBED(guest_library, GUEST_DIR "/guest.so");
EMBED(guest_zygote, "src/sandbox/guest/zygote.py");
EMBED(guest_guard, "src/sandbox/guest/guard.py");
EMBED(guest_harness, "src/sandbox/guest/harness.cjs");

void guest_files(guest_file out[GUEST_FILES])
{
    const struct {
        const char *place, *begin, *end;
    } all[] = {{"/sandbox/runner", guest_runner, guest_runner_end},
               {"/sandbox/guest.so", guest_library, guest_library_end},
               {"/sandbox/zygote.py", guest_zygote, guest_zygote_end},
               {"/sandbox/guard.py", guest_guard, guest_guard_end},
               {"/sandbox/harness.cjs", guest_harness, guest_harness_end}};
    _Static_assert(ARRAY_LEN(all) == GUEST_FILES, "each has its place");
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        out[i] = (guest_file){all[i].place, {all[i].begin, (size_t)(all[i].end - all[i].begin)}};
}
