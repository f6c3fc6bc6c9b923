/* Runs a command whose every write to a regular file takes only half of its bytes. Usage: short-writes LOG COMMAND…
 * Bun makes system calls without the C library, so the kernel asks this process about each one (seccomp, user notification).
 * LOG gets a byte for each write that was cut. Ends as the command does; 99: the kernel does not let it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REFUSED = 99, BYTES_MAX = 64 << 20, POLL_MS = 100 };

static char room[CMSG_SPACE(sizeof(int))];

static struct msghdr message(struct iovec *part) {
  return (struct msghdr){.msg_iov = part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
}

static void send_descriptor(int to, int descriptor) {
  char byte = 0;
  struct iovec part = {&byte, 1};
  struct msghdr sent = message(&part);
  struct cmsghdr *head = CMSG_FIRSTHDR(&sent);
  *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof descriptor)};
  memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  sendmsg(to, &sent, 0);
}

static int receive_descriptor(int from) {
  char byte;
  struct iovec part = {&byte, 1};
  struct msghdr received = message(&part);
  int descriptor = -1;
  if (recvmsg(from, &received, 0) > 0) memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&received)), sizeof descriptor);
  return descriptor;
}

static void become(int to, char **command) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_write, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_pwrite64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
  };
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  if (listener < 0) _exit(REFUSED);
  send_descriptor(to, listener);
  close(listener);
  execvp(command[0], command);
  _exit(127);
}

static int group_of(int thread) {
  char path[64], line[256];
  int group = thread;
  snprintf(path, sizeof path, "/proc/%d/status", thread);
  FILE *status = fopen(path, "r");
  while (status && fgets(line, sizeof line, status)) sscanf(line, "Tgid: %d", &group);
  if (status) fclose(status);
  return group;
}

/* Writes half of the bytes in place of the process that asked. */
static void answer(const struct seccomp_notif *asked, struct seccomp_notif_resp *reply, char *bytes, int log) {
  const __u64 *of = asked->data.args;
  char path[64];
  struct stat facts;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", asked->pid, (int)of[0]);
  if (of[2] < 2 || of[2] > BYTES_MAX || stat(path, &facts) || !S_ISREG(facts.st_mode)) return;
  int process = syscall(SYS_pidfd_open, group_of(asked->pid), 0);
  int file = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, (int)of[0], 0);
  struct iovec here = {bytes, of[2] / 2}, there = {(void *)of[1], of[2] / 2};
  ssize_t half = file < 0 ? -1 : process_vm_readv(asked->pid, &here, 1, &there, 1, 0);
  if (half > 0) {
    ssize_t wrote = asked->data.nr == __NR_write ? write(file, bytes, half) : pwrite(file, bytes, half, of[3]);
    reply->flags = 0;
    if (wrote < 0) reply->error = -errno;
    else reply->val = wrote;
    if (write(log, ".", 1) != 1) exit(REFUSED);
  }
  if (file >= 0) close(file);
  if (process >= 0) close(process);
}

int main(int count, char **given) {
  int pair[2], status = 0, log = count < 3 ? -1 : open(given[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  char *bytes = malloc(BYTES_MAX);
  if (log < 0 || !bytes || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return 2;
  pid_t child = fork();
  if (child == 0) become(pair[1], given + 2);
  close(pair[1]);
  int listener = receive_descriptor(pair[0]);
  while (listener >= 0 && waitpid(child, &status, WNOHANG) == 0) {
    struct pollfd ready = {listener, POLLIN, 0};
    struct seccomp_notif asked;
    memset(&asked, 0, sizeof asked);
    if (poll(&ready, 1, POLL_MS) <= 0 || ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked)) continue;
    struct seccomp_notif_resp reply = {.id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    answer(&asked, &reply, bytes, log);
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
  }
  if (listener < 0) waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
