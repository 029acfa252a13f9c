/* Workloads whose scaling is known: `scale_work MODE WORKERS [SIGMA KAPPA SECONDS]`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void sleep_until(double moment)
{
	struct timespec t = { (time_t)moment, (long)((moment - (time_t)moment) * 1e9) };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static double until, share;
static long rounds, calls;

static void *sleeper(void *unused)
{
	sleep_until(until);
	return unused;
}

/* A lock that is held for 2 ms, and nothing beside it. */
static void *locker(void *unused)
{
	for (long i = 0; i < rounds; i++) {
		pthread_mutex_lock(&mutex);
		usleep(2000);
		pthread_mutex_unlock(&mutex);
		/* A mutex is not fair: the others get their turn. */
		usleep(100);
	}
	return unused;
}

static void *burner(void *unused)
{
	double end = now(CLOCK_THREAD_CPUTIME_ID) + share;
	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 20000; i++)
			;
	return unused;
}

static void *caller(void *unused)
{
	for (long i = 0; i < calls; i++)
		syscall(SYS_getppid);
	return burner(unused);
}

static void spread(void *(*work)(void *), long workers)
{
	pthread_t threads[256];
	for (long i = 0; i < workers; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			exit(3);
	for (long i = 0; i < workers; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	long workers = argc > 2 ? atol(argv[2]) : 0;
	if (workers < 1 || workers > 256)
		return 2;
	if (!strcmp(mode, "law") && argc == 6) {
		/* Seconds of one worker: a serial part, one for each other worker, and the rest by all of them at once. */
		double sigma = atof(argv[3]), kappa = atof(argv[4]), seconds = atof(argv[5]);
		double began = now(CLOCK_MONOTONIC);
		until = began + seconds * (sigma + kappa * (workers - 1));
		sleep_until(until);
		until += seconds * (1 - sigma) / workers;
		spread(sleeper, workers);
	} else if (!strcmp(mode, "lock")) {
		rounds = 96 / workers;
		spread(locker, workers);
	} else if (!strcmp(mode, "burn")) {
		share = 0.4 / workers;
		spread(burner, workers);
	} else if (!strcmp(mode, "calls")) {
		share = 0.1 / workers;
		calls = 300000 * (workers - 1);
		spread(caller, workers);
	} else if (!strcmp(mode, "fail")) {
		return workers > 1 ? 7 : 0;
	} else if (!strcmp(mode, "print")) {
		printf("did %ld\nrate %ld /s\n", workers, workers * 100);
	} else
		return 2;
	return 0;
}
