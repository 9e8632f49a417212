/* python_platforms.c - names of Python's library on other platforms, in other versions of it or
 * other interpreters, which code uses under conditions that cannot be followed. */
#include "exists/folders.h"

static const struct {
    const char *module, *names; /* with blanks between */
} platforms[] = {
    {"pos", "startfile add_dll_directory O_BINARY O_NOINHERIT O_RANDOM O_SEQUENTIAL O_SHORT_LIVED "
            "O_TEMPORARY O_TEXT O_EXLOCK O_SHLOCK P_DETACH P_OVERLAY chflags lchflags lchmod plock "
            "errno getresuid getresgid"},
    {"psys", "getwindowsversion winver dllhandle pypy_version_info pypy_translation_info "
             "getandroidapilevel UnraisableHookArgs gettotalrefcount getobjects setdlopenflags "
             "last_exc "
             "is_finalizing "},
    {"ptyping", "type_check_only"},
    {"psignal", "CTRL_C_EVENT CTRL_BREAK_EVENT SIGBREAK SIGINFO SIGEMT"},
    {"pselect", "kqueue kevent devpoll KQ_FILTER_READ KQ_FILTER_WRITE KQ_EV_ADD KQ_EV_DELETE "
                "KQ_EV_ENABLE KQ_EV_EOF KQ_EV_ERROR KQ_EV_CLEAR KQ_FILTER_PROC KQ_NOTE_EXIT"},
    {"psocket", "SIO_RCVALL SIO_KEEPALIVE_VALS SIO_LOOPBACK_FAST_PATH RCVALL_ON RCVALL_OFF "
                "SO_EXCLUSIVEADDRUSE SO_USELOOPBACK TCP_KEEPALIVE AF_HYPERV AF_SYSTEM PF_SYSTEM "
                "SYSPROTO_CONTROL LOCAL_PEERCRED AF_LINK ioctl"},
    {"pasyncio", "WindowsSelectorEventLoopPolicy WindowsProactorEventLoopPolicy ProactorEventLoop "
                 "IocpProactor DefaultEventLoopPolicy"},
    {"psubprocess", "STARTUPINFO STARTF_USESHOWWINDOW STARTF_USESTDHANDLES SW_HIDE "
                    "CREATE_NEW_CONSOLE CREATE_NEW_PROCESS_GROUP CREATE_NO_WINDOW DETACHED_PROCESS "
                    "CREATE_DEFAULT_ERROR_MODE CREATE_BREAKAWAY_FROM_JOB STD_INPUT_HANDLE "
                    "HIGH_PRIORITY_CLASS IDLE_PRIORITY_CLASS NORMAL_PRIORITY_CLASS list2cmdline"},
    {"pctypes", "windll oledll WinDLL OleDLL WinError GetLastError FormatError WINFUNCTYPE HRESULT "
                "set_last_error get_last_error DllCanUnloadNow DllGetClassObject"},
       {"pstat", "SF_RESTRICTED FILE_ATTRIBUTE_HIDDEN"},
    {"plocale", "windows_locale"},
    {"pmmap", "ACCESS_DEFAULT MADV_FREE"},
    {"pfcntl", "F_FULLFSYNC F_NOCACHE F_GETPATH"},
    {"presource", "RLIMIT_SWAP RLIMIT_SBSIZE RLIMIT_NPTS RLIMIT_KQUEUES"},
};

/* Windows' error codes. */
static const char *const sockets[] = {
    "EINTR", "EBADF", "EACCES", "EFAULT", "EINVAL", "EMFILE", "EWOULDBLOCK", "EINPROGRESS",
    "EALREADY", "ENOTSOCK", "EDESTADDRREQ", "EMSGSIZE", "EPROTOTYPE", "ENOPROTOOPT",
    "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EOPNOTSUPP", "EPFNOSUPPORT", "EAFNOSUPPORT",
    "EADDRINUSE", "EADDRNOTAVAIL", "ENETDOWN", "ENETUNREACH", "ENETRESET", "ECONNABORTED",
    "ECONNRESET", "ENOBUFS", "EISCONN", "ENOTCONN", "ESHUTDOWN", "ETOOMANYREFS", "ETIMEDOUT",
    "ECONNREFUSED", "ELOOP", "ENAMETOOLONG", "EHOSTDOWN", "EHOSTUNREACH", "ENOTEMPTY", "EPROCLIM",
    "EUSERS", "EDQUOT", "ESTALE", "EREMOTE", "SYSNOTREADY", "VERNOTSUPPORTED", "NOTINITIALISED",
    "EDISCON",
};

void python_platforms(name_table *b)
{
    for (size_t i = 0; i < ARRAY_LEN(platforms) && !b->status; i++) {
        uint32_t at = names_find(b, 0, view_of(platforms[i].module));
        view rest = view_of(platforms[i].names);
        while (at != NAMES_NONE && rest.len) {
            const char *blank = memchr(rest.ptr, ' ', rest.len);
            size_t n = blank ? (size_t)(blank - rest.ptr) : rest.len;
            names_add(b, names_entry_at(b, at)->target, (view){rest.ptr, n}, NAME_VALUE, 0);
            rest = (view){rest.ptr + n + (blank != NULL), rest.len - n - (blank != NULL)};
        }
    }
    uint32_t at = names_find(b, 0, VIEW("perrno"));
    for (size_t i = 0; i < ARRAY_LEN(sockets) && at != NAMES_NONE && !b->status; i++) {
        char name[32];
        int n = snprintf(name, sizeof name, "WSA%s", sockets[i]);
        names_add(b, names_entry_at(b, at)->target, (view){name, (size_t)n}, NAME_VALUE, 0);
    }
}
