/* Tells a server of every file and folder that a process has flushed, and waits until it knows.
   Loaded into processes with LD_PRELOAD by harness/power.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void tell(char kind, int fd)
{
    const char *root = getenv("FORGETFUL_ROOT"), *address = getenv("FORGETFUL_SOCKET");
    char link[64], line[PATH_MAX + 2], known;
    struct sockaddr_un server = {.sun_family = AF_UNIX};
    int saved = errno, caller;
    ssize_t length;

    if (!root || !address || strlen(address) >= sizeof server.sun_path)
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, line + 1, PATH_MAX);
    if (length > 0 && strncmp(line + 1, root, strlen(root)) == 0) {
        line[0] = kind;
        line[length + 1] = '\n';
        strcpy(server.sun_path, address);
        caller = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(caller, (struct sockaddr *)&server, sizeof server) == 0
            && write(caller, line, length + 2) == length + 2)
            while (read(caller, &known, 1) < 0 && errno == EINTR)
                ;
        close(caller);
    }
    errno = saved;
}

#define FLUSH(name, kind)                                             \
    int name(int fd)                                                  \
    {                                                                 \
        int (*really)(int) = (int (*)(int))dlsym(RTLD_NEXT, #name);   \
        int failed = really(fd);                                      \
        if (!failed)                                                  \
            tell(kind, fd);                                           \
        return failed;                                                \
    }

FLUSH(fsync, 'f')
FLUSH(fdatasync, 'f')
FLUSH(syncfs, 'a')
