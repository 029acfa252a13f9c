package clock

func counter() uint64
func counterLfence() uint64
func counterRdtscp() uint64

func ordered(source Source) uint64 {
	if source == TSCRdtscp {
		return counterRdtscp()
	}
	return counterLfence()
}

func isReadable(source Source) bool { return source == TSCLfence || source == TSCRdtscp }
