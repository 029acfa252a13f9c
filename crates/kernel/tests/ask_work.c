/* Work whose calls are known, begun by a line: the same for every question. Ends by itself. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OUT_OF_LINE __attribute__((noinline, noclone, used))

OUT_OF_LINE long measured(long number, const char *name)
{
	__asm__ volatile("" : : "r"(number), "r"(name) : "memory");
	return number - 500;
}

OUT_OF_LINE int failing(int number)
{
	__asm__ volatile("" : : "r"(number) : "memory");
	return number % 4 ? 0 : -number;
}

OUT_OF_LINE long nested(long depth)
{
	long below = depth > 0 ? nested(depth - 1) : 0;
	__asm__ volatile("" : : "r"(below) : "memory");
	return below + 1;
}

int main(void)
{
	char byte;
	/* A probe cannot bring a page into memory: the program has read its texts before. */
	static const char usual[] = "usual", fourth[] = "every fourth";
	volatile const char *touched = usual;
	byte = touched[0];
	touched = fourth;
	byte = touched[0];
	if (read(0, &byte, 1) != 1)
		return 2;
	for (long at = 0; at < 1000; at++) {
		measured(at * at, at % 4 ? usual : fourth);
		failing(at);
	}
	for (int at = 0; at < 100; at++)
		nested(5);
	for (int at = 0; at < 500; at++)
		syscall(SYS_getppid);
	return 0;
}
