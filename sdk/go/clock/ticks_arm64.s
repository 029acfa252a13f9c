#include "textflag.h"

// func counter() uint64: mrs cntvct_el0
TEXT ·counter(SB), NOSPLIT, $0-8
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET

// func counterIsb() uint64: isb; mrs cntvct_el0
TEXT ·counterIsb(SB), NOSPLIT, $0-8
	ISB  $15
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET
