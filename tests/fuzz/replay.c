/* replay.c - run a fuzz target over files without a fuzzing engine, each from an exact-size copy
 * so that a sanitizer sees a read past the end.  Folders are read one level deep. */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return perror(path), 1;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) return perror(path), 1;
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    int n = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st)) return perror(argv[i]), 1;
        if (!S_ISDIR(st.st_mode)) {
            failed += replay_file(argv[i]), n++;
            continue;
        }
        DIR *dir = opendir(argv[i]);
        for (struct dirent *e; dir && (e = readdir(dir));) {
            char path[4096];
            if (e->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            failed += replay_file(path), n++;
        }
        if (dir) closedir(dir);
    }
    if (n == 0) n = failed = 1; /* a missing corpus proves nothing */
    const char *slash = strrchr(argv[0], '/');
    printf("%s: %d passed, %d failed\n", slash ? slash + 1 : argv[0], n - failed, failed);
    return failed != 0;
}
