/* Work whose calls are known, begun by a line: the same for every question. Ends by itself. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A USDT probe as <sys/sdt.h> writes it, without that file: an instruction that does nothing, and a note that says where it is
 * and where its arguments are. SEMAPHORE is 0 or the name of a variable that the kernel raises.
 */
#define PROBE(name, semaphore, arguments, ...)                                           \
	__asm__ volatile("990: nop\n"                                                   \
			 ".pushsection .note.stapsdt,\"\",\"note\"\n"                    \
			 ".balign 4\n.4byte 992f-991f, 994f-993f, 3\n"                   \
			 "991: .asciz \"stapsdt\"\n992: .balign 4\n"                     \
			 "993: .8byte 990b, _.stapsdt.base, " semaphore "\n"             \
			 ".asciz \"work\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n" \
			 "994: .balign 4\n.popsection\n"                                \
			 ".ifndef _.stapsdt.base\n"                                     \
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
			 ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"               \
			 "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n.endif\n" \
			 : : __VA_ARGS__)

/* Raised by the kernel while the probe that names it is observed. */
__attribute__((section(".probes"), used)) volatile unsigned short asked_semaphore;

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
	/* In registers, as constants and in memory; twice, where the arguments are elsewhere. */
	for (long at = 0; at < 300; at++) {
		volatile int below = -(int)at;
		PROBE("step", "0", "8@%0 -4@%1 8@%2 -1@%3 8@$-7", "r"(at), "m"(below), "r"(usual), "q"((char)-at));
	}
	for (long at = 0; at < 200; at++) {
		volatile long numbers[2] = { at, at * 1000 };
		PROBE("step", "0", "8@%0 -4@%1 8@%2 -1@%3 8@%4", "m"(numbers[1]), "r"((int)-at), "r"(fourth), "i"(5), "r"(at));
		if (asked_semaphore)
			PROBE("asked", "asked_semaphore", "8@%0", "r"(at));
	}
	return 0;
}
