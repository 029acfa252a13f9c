/* Work whose cost is known: `work MODE [N]`, one mode a line of `main`. Each prints what it knows itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock)
{
	struct timespec t;
	syscall(SYS_clock_gettime, clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void burn(double seconds)
{
	for (double end = now(CLOCK_THREAD_CPUTIME_ID) + seconds; now(CLOCK_THREAD_CPUTIME_ID) < end;)
		for (volatile int i = 0; i < 20000; i++)
			;
}

static void calls(long count)
{
	for (long i = 0; i < count; i++)
		syscall(SYS_getppid);
}

static void stay_on(int cpu)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* Two processes on one CPU, a byte there and back. */
static void ping_pong(long count)
{
	int there[2], back[2];
	char byte = 0;
	stay_on(0);
	if (pipe(there) || pipe(back))
		exit(2);
	if (fork() == 0) {
		for (long i = 0; i < count; i++)
			if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
				exit(2);
		exit(0);
	}
	for (long i = 0; i < count; i++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			exit(2);
	wait(NULL);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int waiting, is_open;

static void *waiter(void *name)
{
	prctl(PR_SET_NAME, name);
	pthread_mutex_lock(&mutex);
	waiting++;
	while (!is_open)
		pthread_cond_wait(&condition, &mutex);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

/* `count` threads that one broadcast wakes. */
__attribute__((noinline)) static void herd(long count)
{
	/* Not on the stack, of which a copy of 8 KiB is unwound. */
	static pthread_t threads[1024];
	for (long i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, waiter, "waiter");
	for (int is_ready = 0; !is_ready;) {
		usleep(20000);
		pthread_mutex_lock(&mutex);
		is_ready = waiting == count;
		pthread_mutex_unlock(&mutex);
	}
	/* All are asleep, not on their way. */
	usleep(200000);
	prctl(PR_SET_NAME, "herder");
	is_open = 1;
	/* Without the mutex: with it, they would be moved to it and woken one by one. */
	syscall(SYS_futex, NULL, 1, 0, NULL, NULL, 0);
	pthread_cond_broadcast(&condition);
	for (long i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void *locked(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "locked");
	double began = now(CLOCK_MONOTONIC);
	pthread_mutex_lock(&mutex);
	printf("locked %.9f\n", now(CLOCK_MONOTONIC) - began);
	pthread_mutex_unlock(&mutex);
	usleep(300000);
	return NULL;
}

/* A thread that waits for a mutex while another holds it. */
static void lock(void)
{
	pthread_t thread;
	pthread_mutex_lock(&mutex);
	pthread_create(&thread, NULL, locked, NULL);
	usleep(400000);
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
}

static void *asleep(void *unused)
{
	pause();
	return unused;
}

/* `count` threads that sleep until the process is ended. */
static void many(long count)
{
	pthread_attr_t small;
	pthread_t thread;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (long i = 0; i < count; i++)
		if (pthread_create(&thread, &small, asleep, NULL))
			exit(2);
	printf("asleep\n");
	fflush(stdout);
	pause();
}

#define ROUNDS 11
static pthread_mutex_t contended[ROUNDS];
static int start[2], done[2];

/* Waits for a mutex that another has, and holds it: both by its own clock. */
__attribute__((noinline)) static void contend(int round)
{
	double began = now(CLOCK_MONOTONIC);
	pthread_mutex_lock(&contended[round]);
	double locked_at = now(CLOCK_MONOTONIC);
	usleep(20000);
	double held = now(CLOCK_MONOTONIC) - locked_at;
	pthread_mutex_unlock(&contended[round]);
	printf("%p %.9f %.9f\n", (void *)&contended[round], locked_at - began, held);
}

static void *contender(void *unused)
{
	char byte;
	prctl(PR_SET_NAME, "contender");
	for (int round = 0; round < ROUNDS; round++) {
		if (read(start[0], &byte, 1) != 1)
			exit(2);
		contend(round);
		if (write(done[1], &byte, 1) != 1)
			exit(2);
	}
	return unused;
}

static void *idle(void *unused)
{
	prctl(PR_SET_NAME, "idle");
	pthread_mutex_lock(&mutex);
	while (!is_open)
		pthread_cond_wait(&condition, &mutex);
	pthread_mutex_unlock(&mutex);
	return unused;
}

/* A thread that waits for a mutex after the other, each held for `ms`, and one that waits for work. */
static void contended_locks(long ms)
{
	pthread_t threads[2];
	char byte = 0;
	if (pipe(start) || pipe(done))
		exit(2);
	for (int round = 0; round < ROUNDS; round++)
		pthread_mutex_init(&contended[round], NULL);
	pthread_create(&threads[0], NULL, contender, NULL);
	pthread_create(&threads[1], NULL, idle, NULL);
	/* Begun by the reader, who observes by now. */
	if (read(0, &byte, 1) != 1)
		exit(2);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_mutex_lock(&contended[round]);
		if (write(start[1], &byte, 1) != 1)
			exit(2);
		usleep(ms * 1000);
		pthread_mutex_unlock(&contended[round]);
		if (read(done[0], &byte, 1) != 1)
			exit(2);
	}
	pthread_mutex_lock(&mutex);
	is_open = 1;
	pthread_cond_signal(&condition);
	pthread_mutex_unlock(&mutex);
	pthread_join(threads[1], NULL);
	printf("end\n");
	fflush(stdout);
	/* Its functions have names while it lives. */
	pause();
}

static sigjmp_buf after_fault;

static void leave_fault(int signal)
{
	(void)signal;
	siglongjmp(after_fault, 1);
}

/* Page faults that fail, and some work after each. */
static void failed_faults(long count)
{
	struct sigaction action = { .sa_handler = leave_fault };
	sigaction(SIGSEGV, &action, NULL);
	for (volatile long i = 0; i < count; i++) {
		if (!sigsetjmp(after_fault, 1))
			*(volatile int *)8 = 1;
		for (volatile int spin = 0; spin < 20000; spin++)
			;
	}
	pause();
}

#define PAGE 4096
#define PAGES 4096

/* Touches so many new pages, with `work` turns of a loop after each. */
static void touch(long count, int work)
{
	char *pages = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || madvise(pages, count * PAGE, MADV_NOHUGEPAGE))
		exit(2);
	for (long i = 0; i < count; i++) {
		pages[i * PAGE] = 1;
		for (volatile int spin = 0; spin < work; spin++)
			;
	}
}

/* One of so many is touched: a read of one brings its neighbours. */
#define STRIDE 16

/* Pages of a file that are not in memory, each read for data or called: how many reads of the disk, how long. */
static void faults(const char *path, int is_text)
{
	static char page[PAGE];
	struct rusage before, after;
	char byte;
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0700);
	/* Every page is full of `ret`, of x86-64. */
	memset(page, 0xc3, sizeof(page));
	for (int i = 0; i < PAGES; i++)
		if (write(file, page, sizeof(page)) != sizeof(page))
			exit(2);
	if (fsync(file) || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
		exit(2);
	char *pages = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | (is_text ? PROT_EXEC : 0), MAP_PRIVATE, file, 0);
	if (pages == MAP_FAILED || madvise(pages, (size_t)PAGES * PAGE, MADV_RANDOM)) {
		printf("refused\n");
		return;
	}
	/* So that its own code is in memory. */
	getrusage(RUSAGE_THREAD, &before);
	printf("ready\n");
	fflush(stdout);
	/* Begun by the reader, who observes by now. */
	if (read(0, &byte, 1) != 1)
		exit(2);
	getrusage(RUSAGE_THREAD, &before);
	double began = now(CLOCK_MONOTONIC);
	for (size_t i = 0; i < PAGES; i += STRIDE) {
		if (is_text)
			((void (*)(void))(pages + i * PAGE))();
		else
			(void)*(volatile char *)(pages + i * PAGE);
	}
	double took = now(CLOCK_MONOTONIC) - began;
	getrusage(RUSAGE_THREAD, &after);
	printf("faults %.9f %ld\n", took, after.ru_majflt - before.ru_majflt);
	fflush(stdout);
	/* Read until here; the reader ends it. */
	pause();
}

/* What the kernel says of this thread: nanoseconds on a CPU and ready for one, then switches. Read as one line each. */
static void say(const char *name)
{
	char line[256];
	FILE *file = fopen("/proc/thread-self/schedstat", "r");
	if (file && fgets(line, sizeof(line), file))
		printf("%s schedstat %s", name, line);
	fclose(file);
	file = fopen("/proc/thread-self/status", "r");
	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, "ctxt_switches"))
			printf("%s %s", name, line);
	fclose(file);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	long count = argc > 2 ? atol(argv[2]) : 0;
	double cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	if (!strcmp(mode, "calls"))
		calls(count);
	else if (!strcmp(mode, "pingpong"))
		ping_pong(count);
	else if (!strcmp(mode, "burn"))
		burn(count / 1e3);
	else if (!strcmp(mode, "sleep"))
		usleep(count * 1000);
	else if (!strcmp(mode, "herd")) {
		herd(count);
		printf("herd\n");
		fflush(stdout);
		/* Its stack has names until here; the reader ends it. */
		pause();
	} else if (!strcmp(mode, "many"))
		many(count);
	else if (!strcmp(mode, "lock"))
		lock();
	else if (!strcmp(mode, "locks"))
		contended_locks(count);
	else if (!strcmp(mode, "segv"))
		failed_faults(count);
	else if (!strcmp(mode, "faults"))
		touch(count, 0);
	else if (!strcmp(mode, "touch")) {
		touch(count, 2000);
		printf("touched\n");
		fflush(stdout);
		/* Read until here; the reader ends it. */
		pause();
	} else if ((!strcmp(mode, "data") || !strcmp(mode, "text")) && argc > 2)
		faults(argv[2], !strcmp(mode, "text"));
	else if (!strcmp(mode, "mixed")) {
		/* CPU, calls, sleep. A kernel that moves a sleeper to another CPU may count its sleep as a wait for one. */
		stay_on(sched_getcpu());
		burn(count / 1e3);
		calls(count * 100);
		usleep(count * 1000);
		say("mixed");
		fflush(stdout);
		/* Read until here; the reader ends it. */
		pause();
	} else
		return 2;
	struct timespec of_children;
	(void)of_children;
	printf("cpu %.9f\n", now(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	return 0;
}
