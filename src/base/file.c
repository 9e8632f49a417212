/* file.c - positioned reads and writes, folders, the bound of a cache, checks before writing. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

size_t file_read_at(int fd, void *out, size_t len, uint64_t at)
{
    size_t n_read = 0;
    while (n_read < len) {
        ssize_t n = pread(fd, (char *)out + n_read, len - n_read, (off_t)(at + n_read));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        n_read += (size_t)n;
    }
    return n_read;
}

static bool is_beyond_limit(uint64_t end)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < end;
}

int file_write_at(int fd, const void *from, size_t len, uint64_t at)
{
    const char *bytes = from;
    if (is_beyond_limit(at + len)) return EFBIG;
    while (len) {
        ssize_t n = pwrite(fd, bytes, len, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : EIO;
        bytes += n;
        len -= (size_t)n;
        at += (uint64_t)n;
    }
    return 0;
}

void file_make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
}

/* XDG Base Directory Specification: a variable that is not an absolute path counts as unset. */
static bool xdg_folder(char *out, size_t size, const char *variable, const char *below_home)
{
    const char *xdg = getenv(variable), *home = getenv("HOME");
    int n = 0;
    if (xdg && xdg[0] == '/')
        n = snprintf(out, size, "%s/cerium", xdg);
    else if (home && home[0] == '/')
        n = snprintf(out, size, "%s/%s/cerium", home, below_home);
    return n > 0 && (size_t)n < size;
}

bool file_cache_folder(char *out, size_t size)
{
    return xdg_folder(out, size, "XDG_CACHE_HOME", ".cache");
}

bool file_cache_folder_or(const char *chosen, char *out, size_t size)
{
    if (!chosen || !*chosen) return file_cache_folder(out, size);
    const int n = snprintf(out, size, "%s", chosen);
    return strcmp(chosen, "off") != 0 && n > 0 && (size_t)n < size;
}

bool file_state_folder(char *out, size_t size)
{
    return xdg_folder(out, size, "XDG_STATE_HOME", ".local/state");
}

void file_used(int fd) { (void)futimens(fd, NULL); }

/* The matching file that was used least recently into oldest; returns how many match. */
static size_t find_oldest(DIR *d, const char *pattern, char oldest[NAME_MAX + 1], time_t *used)
{
    size_t n = 0;
    rewinddir(d);
    for (struct dirent *at; (at = readdir(d));) {
        struct stat about;
        if (fnmatch(pattern, at->d_name, 0) ||
            fstatat(dirfd(d), at->d_name, &about, AT_SYMLINK_NOFOLLOW) || !S_ISREG(about.st_mode))
            continue;
        if (!n++ || about.st_mtime < *used) {
            *used = about.st_mtime;
            snprintf(oldest, NAME_MAX + 1, "%s", at->d_name);
        }
    }
    return n;
}

void file_bound(const char *folder, const char *pattern, size_t n_max, unsigned days)
{
    char name[NAME_MAX + 1];
    time_t used = 0, earliest = time(NULL) - (time_t)days * 24 * 60 * 60;
    DIR *d = opendir(folder);
    if (!d) return;
    for (size_t n; (n = find_oldest(d, pattern, name, &used)) && (n > n_max || used < earliest);)
        if (unlinkat(dirfd(d), name, 0)) break;
    closedir(d);
}

int file_lacks_room(int fd, uint64_t bytes)
{
    struct statvfs fs;
    if (is_beyond_limit(bytes)) return EFBIG;
    if (fstatvfs(fd, &fs)) return errno;
    return (uint64_t)fs.f_bavail * fs.f_frsize / 2 < bytes ? ENOSPC : 0;
}
