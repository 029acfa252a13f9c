/* Stacks whose shares are known. Begins when its input has a line; `run` until it is ended, `wait` for known times. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static volatile long sink;

/* CPU time of this thread; the clock is read seldom, so that the time is the function's own. */
#define BURNER(name)                                                       \
	__attribute__((noinline)) static void name(double seconds)         \
	{                                                                  \
		for (double end = now(CLOCK_THREAD_CPUTIME_ID) + seconds;  \
		     now(CLOCK_THREAD_CPUTIME_ID) < end;)                  \
			for (int i = 0; i < 200000; i++)                   \
				sink += i;                                 \
	}
BURNER(burn_much)
BURNER(burn_little)

/* nanosleep as the function's own instruction: the C library's has no frame pointer. */
#define WAITER(name)                                                       \
	__attribute__((noinline)) static double name(double seconds)       \
	{                                                                  \
		struct timespec t = { 0, (long)(seconds * 1e9) };          \
		double began = now(CLOCK_MONOTONIC);                       \
		long result;                                               \
		__asm__ volatile("syscall" : "=a"(result)                  \
				 : "a"(35), "D"(&t), "S"(0)                \
				 : "rcx", "r11", "memory");                \
		return result ? 0 : now(CLOCK_MONOTONIC) - began;          \
	}
WAITER(wait_long)
WAITER(wait_short)

__attribute__((noinline)) static void run(void)
{
	for (;;) {
		burn_much(0.03);
		burn_little(0.01);
	}
}

__attribute__((noinline)) static void wait_often(void)
{
	double much = 0, little = 0;
	for (int i = 0; i < 10; i++) {
		much += wait_long(0.06);
		little += wait_short(0.02);
	}
	printf("%.9f %.9f\n", much, little);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[16];
	if (argc < 2 || !fgets(line, sizeof(line), stdin))
		return 2;
	if (!strcmp(argv[1], "run"))
		run();
	wait_often();
	/* Names are looked up while it lives: until its input ends. */
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
