/* project.c - knows a project by its manifest. */
#include "programs/project.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"

/* What builds, installs or describes a whole program or library; "*" is any beginning. */
static const char *const manifests[] = {
    "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "PKG-INFO",
    "*.dist-info", "*.egg-info", "package.json", "bower.json", "go.mod", "pom.xml", "build.gradle",
    "build.gradle.kts", "META-INF", "composer.json", "autoload.php", "Gemfile", "*.gemspec",
    "Rakefile", "Makefile", "GNUmakefile", "Makefile.am", "Makefile.in", "configure",
    "configure.ac", "CMakeLists.txt", "meson.build", "Cargo.toml",
};

static bool is_manifest(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(manifests); i++) {
        const char *wanted = manifests[i];
        size_t n = strlen(name), len = strlen(wanted + (*wanted == '*'));
        if (*wanted != '*' ? !strcmp(name, wanted) : n > len && !strcmp(name + n - len, wanted + 1))
            return true;
    }
    return false;
}

static bool has_manifest(const char *folder)
{
    DIR *d = opendir(*folder ? folder : ".");
    bool is = false;
    for (const struct dirent *e; d && !is && (e = readdir(d));) is = is_manifest(e->d_name);
    if (d) closedir(d);
    return is;
}

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat at;
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
           !lstat(path, &at);
}

/* A manifest in a folder above, up to the root of the repository; none: not above at all. */
static bool is_above(const char *folder)
{
    char whole[PATH_MAX];
    bool is = false;
    if (!realpath(folder, whole)) return false;
    while (!is_there(whole, ".git")) {
        char *slash = strrchr(whole, '/');
        if (!slash || slash == whole) return false;
        *slash = 0;
        is |= has_manifest(whole);
    }
    return is;
}

void project_begin(project *p, const char *folder)
{
    *p = (project){.n_root = strlen(folder)};
    p->whole = has_manifest(folder) || is_above(folder);
}

bool project_has(project *p, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (p->whole || n >= sizeof p->last) return p->whole;
    if (n == p->n_last && !memcmp(path, p->last, n)) return p->last_is;
    memcpy(p->last, path, n);
    p->n_last = n;
    p->last_is = false;
    for (size_t to = n; to > p->n_root && !p->last_is; to--) {
        if (to < n && path[to] != '/') continue;
        p->last[to] = 0;
        p->last_is = has_manifest(p->last);
        p->last[to] = to < n ? '/' : 0;
    }
    return p->last_is;
}
